-- How a tenant keeps and approves its skills. A tenant without a row keeps them in the ledger, and the status of a skill
-- is enough. `store` is `house`, `filesystem:DIR` or `sqlite:FILE`.
CREATE TABLE skill_settings (
  tenant             TEXT PRIMARY KEY REFERENCES tenants (id),
  signed             INTEGER NOT NULL DEFAULT 0,
  agents_may_approve INTEGER NOT NULL DEFAULT 0,
  store              TEXT NOT NULL DEFAULT 'house'
) STRICT, WITHOUT ROWID;

-- Public keys that check approvals. `id` follows from the key. A revoked key stays, so that it cannot come back.
CREATE TABLE approval_keys (
  tenant  TEXT NOT NULL REFERENCES tenants (id),
  id      TEXT NOT NULL,
  public  BLOB NOT NULL,
  label   TEXT,
  added   INTEGER NOT NULL,
  revoked INTEGER,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Approvals, refused approvals and forced Drafts. `seq` counts the rows of a tenant; the oldest ones are deleted when
-- there are too many.
CREATE TABLE skill_audit (
  tenant  TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  event   TEXT NOT NULL,
  skill   TEXT NOT NULL,
  version TEXT,
  caller  TEXT NOT NULL,
  key     TEXT,
  reason  TEXT,
  PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;
