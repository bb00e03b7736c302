-- The outbox of Outrider. A job exists if and only if the transaction commits
-- that writes its row:
--
--   INSERT INTO ojs_outbox (job_type, job_args) VALUES ('email.send', '["ada@example.com"]')
--
-- A whole workflow in one row: its id is that of the row's job.
--
--   INSERT INTO ojs_outbox (job_type, job_args, job_options) VALUES ('order.fulfil', '[]',
--     '{"workflow": {"type": "chain", "steps": [{"type": "order.charge"}, {"type": "order.ship"}]}}')
--
-- Times are milliseconds since 1970 in UTC. The JSON columns are text: a column
-- of type JSON would be written anew by the server, numbers and all.
CREATE TABLE IF NOT EXISTS ojs_outbox (
  id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  job_id      VARCHAR(64),                            -- a UUIDv7; NULL: made of the row
  job_type    VARCHAR(255) NOT NULL,                  -- 'email.send'
  job_args    LONGTEXT     NOT NULL,                  -- a JSON array
  job_options LONGTEXT     NULL,                      -- a JSON object: queue, priority, retry, delay_ms, meta
  status      VARCHAR(16)  NOT NULL DEFAULT 'pending', -- then 'taken', 'relayed' or 'sent', or 'parked' with an error
  owner       VARCHAR(64),                            -- the job server that has it
  attempts    BIGINT       NOT NULL DEFAULT 0,
  next_try_at BIGINT       NOT NULL DEFAULT 0,
  created_at  BIGINT       NOT NULL DEFAULT (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000),
  sent_at     BIGINT,
  error       TEXT,
  answered_by VARCHAR(64),            -- relayed: the job that answers for it, if that is not its own
  KEY ojs_outbox_status (status, id), -- what the relays ask for all the time
  KEY ojs_outbox_owner (owner, id)    -- what a job server has
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The job servers that relay: until when each is taken to live, and what it has sent.
CREATE TABLE IF NOT EXISTS ojs_outbox_relays (
  owner   VARCHAR(64) NOT NULL PRIMARY KEY,
  until   BIGINT      NOT NULL, -- 0: it is dead, and its rows are free
  seen_at BIGINT      NOT NULL,
  mode    VARCHAR(16) NOT NULL, -- 'on_relay' or 'on_complete'
  sent    BIGINT      NOT NULL DEFAULT 0,
  epoch   VARCHAR(64),          -- of its disk, when it took the newest job
  upto    BIGINT,               -- and the event there behind that job
  host    VARCHAR(64)           -- its newest process: 'web-1:4711', with its pid
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- The ticks of schedules that several job servers keep: each is decided once, by
-- the key. They go after 26 hours, but the newest of each schedule stays.
CREATE TABLE IF NOT EXISTS ojs_outbox_ticks (
  name     VARCHAR(255) NOT NULL, -- of the schedule, or '' for what the servers wait for
  at       BIGINT       NOT NULL, -- the tick
  job_id   VARCHAR(64),           -- its job, or NULL: the one before had not ended
  last_id  VARCHAR(64),           -- the newest job of the schedule, this one or one before
  last_row BIGINT,                -- and its row in the outbox, which may be gone
  PRIMARY KEY (name, at),
  KEY ojs_outbox_ticks_at (at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- What tells this outbox from all others, in the ids of its jobs. Never change it.
CREATE TABLE IF NOT EXISTS ojs_outbox_identity (
  one   INTEGER     NOT NULL PRIMARY KEY CHECK (one = 1),
  value VARCHAR(64) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
INSERT IGNORE INTO ojs_outbox_identity (one, value) VALUES (1, REPLACE(UUID(), '-', ''));
