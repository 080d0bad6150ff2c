-- Data of tenants: texts with tags. The index for searching them is in files beside the ledger and can always be made
-- again from these rows. `expires` is a wall time, because a person chose it; `ends` is the ledger time that it had when
-- the row was written. Numbers are never used again, because the index reads on from the last number that it has.
CREATE TABLE data (
  seq        INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant     TEXT NOT NULL,
  id         BLOB NOT NULL UNIQUE,
  content    TEXT NOT NULL,
  tags       TEXT,
  attributes TEXT,
  metadata   TEXT,
  created    INTEGER NOT NULL,
  expires    INTEGER,
  ends       INTEGER
) STRICT;
CREATE INDEX data_tenant ON data (tenant, seq);
CREATE INDEX data_ends ON data (ends) WHERE ends IS NOT NULL;

-- Removed tenants whose data is still being deleted, a little at a time.
CREATE TABLE data_to_delete (
  tenant TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- What a tenant's data takes up, and what it may; NULL is the server's default.
ALTER TABLE tenant_usage ADD COLUMN data INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN data_bytes INTEGER;
