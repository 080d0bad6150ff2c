-- What programs and agents present at HTTP doors: hashes alone.

-- The login that was planted in an agent's home, and where the agent may ask to be called back.
ALTER TABLE instances ADD COLUMN bootstrap TEXT;
ALTER TABLE instances ADD COLUMN callback_url TEXT;
CREATE UNIQUE INDEX instances_bootstrap ON instances (bootstrap) WHERE bootstrap IS NOT NULL;

-- Named after its one owner: `agent:` and the instance, or `tenant:` and the tenant.
CREATE TABLE clients (
  id       TEXT PRIMARY KEY,
  tenant   TEXT NOT NULL REFERENCES tenants (id),
  instance TEXT REFERENCES instances (id),
  created  INTEGER NOT NULL,
  revoked  INTEGER
) STRICT;
CREATE INDEX clients_tenant ON clients (tenant);
CREATE INDEX clients_instance ON clients (instance);

CREATE TABLE client_secrets (
  hash    BLOB PRIMARY KEY,
  client  TEXT NOT NULL REFERENCES clients (id),
  expires INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX client_secrets_client ON client_secrets (client);
CREATE INDEX client_secrets_expires ON client_secrets (expires) WHERE expires IS NOT NULL;

CREATE TABLE logins (
  id        TEXT PRIMARY KEY,
  client    TEXT NOT NULL,
  instance  TEXT NOT NULL REFERENCES instances (id),
  created   INTEGER NOT NULL,
  refreshed INTEGER
) STRICT;
CREATE INDEX logins_instance ON logins (instance);

-- A token without a login was granted to the client itself.
CREATE TABLE access_tokens (
  hash    BLOB PRIMARY KEY,
  client  TEXT NOT NULL,
  tenant  TEXT NOT NULL,
  login   TEXT REFERENCES logins (id),
  expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX access_tokens_whose ON access_tokens (login, client, expires);
CREATE INDEX access_tokens_expires ON access_tokens (expires);

-- A rotated one is remembered for a while, so that using it again is known for what it is.
CREATE TABLE refresh_tokens (
  seq     INTEGER PRIMARY KEY,
  hash    BLOB NOT NULL UNIQUE,
  login   TEXT NOT NULL REFERENCES logins (id),
  rotated INTEGER
) STRICT;
CREATE INDEX refresh_tokens_login ON refresh_tokens (login);
CREATE INDEX refresh_tokens_rotated ON refresh_tokens (rotated) WHERE rotated IS NOT NULL;
