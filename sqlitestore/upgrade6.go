package sqlitestore

// toSchema6 is what schema 6 has and schema 5 has not: webhooks, and what of them was not
// delivered yet.
const toSchema6 = `
CREATE TABLE webhooks (
  id          TEXT    NOT NULL PRIMARY KEY,
  spec        TEXT    NOT NULL,
  secret      TEXT    NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  after       INTEGER NOT NULL,
  off         INTEGER NOT NULL,
  last_at     INTEGER,
  last_status TEXT,
  succeeded   INTEGER NOT NULL,
  failed      INTEGER NOT NULL,
  missed      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_deliveries (
  webhook TEXT    NOT NULL,
  seq     INTEGER NOT NULL,
  type    TEXT    NOT NULL,
  attempt INTEGER NOT NULL,
  due_at  INTEGER,
  at      INTEGER NOT NULL,
  body    TEXT    NOT NULL,
  PRIMARY KEY (webhook, seq)
) STRICT;
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (at) WHERE due_at IS NULL;
PRAGMA user_version = 6;
`
