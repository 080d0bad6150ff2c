-- Single-use tokens with which a gateway gets its credential. Only the hash of a token is stored.
CREATE TABLE enroll_tokens (
  id       TEXT PRIMARY KEY,
  hash     BLOB NOT NULL UNIQUE,
  tenant   TEXT NOT NULL REFERENCES tenants (id),
  instance TEXT NOT NULL REFERENCES instances (id),
  created  INTEGER NOT NULL,
  expires  INTEGER NOT NULL,
  ends     INTEGER NOT NULL,
  used     INTEGER,
  gateway  TEXT,
  revoked  INTEGER
) STRICT;
CREATE INDEX enroll_tokens_instance ON enroll_tokens (instance);
CREATE INDEX enroll_tokens_ends ON enroll_tokens (ends);

-- Names that gateways propose for themselves, usually host names. Two agents may use the same one.
CREATE TABLE gateway_names (
  instance TEXT NOT NULL REFERENCES instances (id),
  name     TEXT NOT NULL,
  gateway  TEXT NOT NULL REFERENCES gateways (id),
  PRIMARY KEY (instance, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX gateway_names_gateway ON gateway_names (gateway);

-- Sealed secrets of a tenant, such as its delivery key.
CREATE TABLE tenant_secrets (
  id     INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL REFERENCES tenants (id),
  name   TEXT NOT NULL,
  key_id TEXT NOT NULL,
  blob   BLOB NOT NULL,
  UNIQUE (tenant, name)
) STRICT;
