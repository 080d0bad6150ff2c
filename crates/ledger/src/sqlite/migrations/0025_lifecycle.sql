-- Bots whose credential their platform does not accept.
CREATE TABLE dead_bots (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  since    INTEGER NOT NULL,
  why      TEXT NOT NULL,
  PRIMARY KEY (platform, bot),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id)
) STRICT, WITHOUT ROWID;

-- What happens to messages that waited too long for their agent. A route without a policy has that of its agent.
ALTER TABLE routes ADD COLUMN stale_after INTEGER;
ALTER TABLE routes ADD COLUMN stale_action TEXT;
ALTER TABLE instances ADD COLUMN stale_after INTEGER;
ALTER TABLE instances ADD COLUMN stale_action TEXT;
-- In ledger time.
ALTER TABLE entries ADD COLUMN stale_at INTEGER;
ALTER TABLE entries ADD COLUMN stale_action TEXT;
-- When it was handed over with a line that says how old it is.
ALTER TABLE entries ADD COLUMN marked_late INTEGER;
CREATE INDEX entries_expiring ON entries (instance, stale_at) WHERE fate IS NULL AND stale_action = 'expire';

-- The URL that is called when an agent asks to be stopped, and the tokens with which it asks. Only their hashes are
-- stored.
ALTER TABLE instances ADD COLUMN stop_url TEXT;
CREATE TABLE sleep_tokens (
  hash     BLOB PRIMARY KEY,
  instance TEXT NOT NULL REFERENCES instances (id),
  made     INTEGER NOT NULL,
  expires  INTEGER,
  ends     INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX sleep_tokens_instance ON sleep_tokens (instance);
CREATE INDEX sleep_tokens_ends ON sleep_tokens (ends) WHERE ends IS NOT NULL;
