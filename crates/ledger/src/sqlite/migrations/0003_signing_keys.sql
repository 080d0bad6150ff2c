-- What the house itself signs, derives and checks with, all of it sealed: private keys whose public halves
-- it publishes (kind `signing`), the one secret that per-job keys are derived from (`cron_master`), and
-- what an outside scheduler signs with (`scheduler`).
CREATE TABLE house_keys (
  id        INTEGER PRIMARY KEY,
  kind      TEXT NOT NULL,
  name      TEXT NOT NULL,
  algorithm TEXT NOT NULL,
  created   INTEGER NOT NULL,
  starts    INTEGER NOT NULL,
  ends      INTEGER,
  key_id    TEXT NOT NULL,
  blob      BLOB NOT NULL,
  UNIQUE (kind, name)
) STRICT;
