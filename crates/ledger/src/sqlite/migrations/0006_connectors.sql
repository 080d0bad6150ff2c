-- Ways to agents that do not dial in. All of it is a tenant's and goes with the tenant.

-- Whether an agent's own credential may write to the other agents of its tenant.
ALTER TABLE tenants ADD COLUMN peer_post INTEGER NOT NULL DEFAULT 1;

-- `seq` is the order of their making, in which a delivery tries them.
CREATE TABLE connectors (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,
  tenant   TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name     TEXT NOT NULL,
  kind     TEXT NOT NULL,
  settings TEXT NOT NULL,
  created  INTEGER NOT NULL,
  UNIQUE (tenant, name)
) STRICT;

CREATE TABLE connector_secrets (
  id        INTEGER PRIMARY KEY,
  connector TEXT NOT NULL REFERENCES connectors (id) ON DELETE CASCADE,
  name      TEXT NOT NULL,
  key_id    TEXT NOT NULL,
  blob      BLOB NOT NULL,
  UNIQUE (connector, name)
) STRICT;

CREATE TABLE aliases (
  tenant TEXT NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  name   TEXT NOT NULL,
  agent  TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
