-- Settings of one gateway credential.

-- The URL that wakes the machine of this gateway. `wake_url_set` is ledger time: of several gateways, the latest counts.
ALTER TABLE gateways ADD COLUMN wake_url TEXT;
ALTER TABLE gateways ADD COLUMN wake_url_set INTEGER;

-- Bots that a gateway may speak for. Without a row, it may speak for every bot of its agent. The rows stay when a bot is
-- removed: otherwise a gateway that is limited to one bot would get all the others.
CREATE TABLE gateway_identities (
  gateway  TEXT NOT NULL REFERENCES gateways (id),
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  PRIMARY KEY (gateway, platform, bot)
) STRICT, WITHOUT ROWID;

-- When a secret was made, in ledger time. Secrets from before this column have none, and count as old.
ALTER TABLE gateway_secrets ADD COLUMN made INTEGER;

-- The agents of gateways that provision themselves without naming an agent, by the name of the gateway.
CREATE TABLE provisioned_names (
  tenant   TEXT NOT NULL REFERENCES tenants (id),
  name     TEXT NOT NULL,
  instance TEXT NOT NULL REFERENCES instances (id),
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX provisioned_names_instance ON provisioned_names (instance);

-- How an agent calls itself. Only shown.
ALTER TABLE instances ADD COLUMN display_name TEXT;
