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
-- Times are milliseconds since 1970 in UTC.
CREATE TABLE IF NOT EXISTS ojs_outbox (
  id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_id      TEXT,                             -- a UUIDv7; NULL: made of the row
  job_type    TEXT    NOT NULL,                 -- 'email.send'
  job_args    JSON    NOT NULL,                 -- an array
  job_options JSON    NOT NULL DEFAULT '{}',    -- an object: queue, priority, retry, delay_ms, meta
  status      TEXT    NOT NULL DEFAULT 'pending', -- then 'taken', 'relayed' or 'sent', or 'parked' with an error
  owner       TEXT,                             -- the job server that has it
  attempts    BIGINT  NOT NULL DEFAULT 0,
  next_try_at BIGINT  NOT NULL DEFAULT 0,
  created_at  BIGINT  NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  sent_at     BIGINT,
  error       TEXT,
  answered_by TEXT                              -- relayed: the job that answers for it, if that is not its own
);

-- What the relays ask for all the time. Rows that are gone cost it nothing.
CREATE INDEX IF NOT EXISTS ojs_outbox_pending ON ojs_outbox (id) WHERE status = 'pending';

-- What a job server has, and what was parked.
CREATE INDEX IF NOT EXISTS ojs_outbox_owned ON ojs_outbox (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS ojs_outbox_parked ON ojs_outbox (id) WHERE status = 'parked';

-- The job servers that relay: until when each is taken to live, and what it has sent.
CREATE TABLE IF NOT EXISTS ojs_outbox_relays (
  owner   TEXT   NOT NULL PRIMARY KEY,
  until   BIGINT NOT NULL, -- 0: it is dead, and its rows are free
  seen_at BIGINT NOT NULL,
  mode    TEXT   NOT NULL, -- 'on_relay' or 'on_complete'
  sent    BIGINT NOT NULL DEFAULT 0,
  epoch   TEXT,            -- of its disk, when it took the newest job
  upto    BIGINT,          -- and the event there behind that job
  host    TEXT             -- its newest process: 'web-1:4711', with its pid
);

-- The ticks of schedules that several job servers keep: each is decided once, by
-- the key. They go after 26 hours, but the newest of each schedule stays.
CREATE TABLE IF NOT EXISTS ojs_outbox_ticks (
  name     TEXT   NOT NULL, -- of the schedule, or '' for what the servers wait for
  at       BIGINT NOT NULL, -- the tick
  job_id   TEXT,            -- its job, or NULL: the one before had not ended
  last_id  TEXT,            -- the newest job of the schedule, this one or one before
  last_row BIGINT,          -- and its row in the outbox, which may be gone
  PRIMARY KEY (name, at)
);
CREATE INDEX IF NOT EXISTS ojs_outbox_ticks_at ON ojs_outbox_ticks (at);

-- What tells this outbox from all others, in the ids of its jobs. Never change it.
CREATE TABLE IF NOT EXISTS ojs_outbox_identity (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  value TEXT    NOT NULL
);
INSERT INTO ojs_outbox_identity (one, value) VALUES (1, replace(gen_random_uuid()::text, '-', '')) ON CONFLICT DO NOTHING;
