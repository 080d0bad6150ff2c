-- Agents on shared bots: who may use a bot, which authors and places belong to which agent.

-- Tenants whose agents may use a shared bot. '*' stands for every tenant.
CREATE TABLE bot_tenants (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  tenant   TEXT NOT NULL,
  PRIMARY KEY (platform, bot, tenant),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Agents that use a shared bot without a route of their own.
CREATE TABLE fronts (
  instance TEXT NOT NULL REFERENCES instances (id),
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  created  INTEGER NOT NULL,
  PRIMARY KEY (instance, platform, bot),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX fronts_bot ON fronts (platform, bot);

-- Authors who linked themselves to an agent. `bot` is where they did. `made` is ledger time: the latest wins.
CREATE TABLE bindings (
  platform   TEXT NOT NULL,
  user       TEXT NOT NULL,
  instance   TEXT NOT NULL REFERENCES instances (id),
  tenant     TEXT NOT NULL,
  bot        TEXT NOT NULL,
  linked     INTEGER NOT NULL,
  made       INTEGER NOT NULL,
  dm_default INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (platform, user, instance)
) STRICT, WITHOUT ROWID;
CREATE INDEX bindings_instance ON bindings (instance);

-- Single-use codes with which an author links themselves to an agent. Only the hash of a code is stored.
CREATE TABLE link_codes (
  hash     BLOB PRIMARY KEY,
  instance TEXT NOT NULL REFERENCES instances (id),
  platform TEXT,
  expires  INTEGER NOT NULL,
  ends     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX link_codes_instance ON link_codes (instance, ends);
CREATE INDEX link_codes_ends ON link_codes (ends);

-- Claims that are not live: not proven yet, or the place belongs to another agent. A live claim is a row of `routes`.
-- `kind` is 'chat', 'scope' or 'key': a key becomes a chat or a scope when an author is seen there.
CREATE TABLE claims (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  kind     TEXT NOT NULL,
  value    TEXT NOT NULL,
  instance TEXT NOT NULL REFERENCES instances (id),
  gateway  TEXT,
  created  INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, kind, value, instance),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_instance ON claims (instance, platform, bot);

-- `origin` is 'operator' or 'claim'. `gateway` is the credential whose declaration made a claim, if one did.
ALTER TABLE routes ADD COLUMN origin TEXT NOT NULL DEFAULT 'operator';
ALTER TABLE routes ADD COLUMN gateway TEXT;
ALTER TABLE routes ADD COLUMN profile TEXT;
ALTER TABLE instances ADD COLUMN profile TEXT;

-- Chats and scopes in which a linked author of an agent was seen, by the platform's own word.
-- `parent` and `scope` are what a chat lies in.
CREATE TABLE author_places (
  instance TEXT NOT NULL REFERENCES instances (id),
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  kind     TEXT NOT NULL,
  value    TEXT NOT NULL,
  user     TEXT NOT NULL,
  parent   TEXT,
  scope    TEXT,
  seen     INTEGER NOT NULL,
  PRIMARY KEY (instance, platform, bot, kind, value, user)
) STRICT, WITHOUT ROWID;
CREATE INDEX author_places_seen ON author_places (seen);

-- Direct chats of linked authors with a bot.
CREATE TABLE dm_chats (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  chat     TEXT NOT NULL,
  user     TEXT NOT NULL,
  seen     INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, chat, user)
) STRICT, WITHOUT ROWID;
CREATE INDEX dm_chats_user ON dm_chats (platform, user);
CREATE INDEX dm_chats_seen ON dm_chats (seen);

-- The scope that a chat lies in, by the platform's own word.
CREATE TABLE places (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  chat     TEXT NOT NULL,
  scope    TEXT NOT NULL,
  seen     INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, chat)
) STRICT, WITHOUT ROWID;
CREATE INDEX places_scope ON places (platform, bot, scope);
CREATE INDEX places_seen ON places (seen);

-- Which unlinked authors an agent listens to in the places it claimed. The platform '' stands for all others.
CREATE TABLE principal_policies (
  instance TEXT NOT NULL REFERENCES instances (id),
  platform TEXT NOT NULL,
  policy   TEXT NOT NULL,
  PRIMARY KEY (instance, platform)
) STRICT, WITHOUT ROWID;
CREATE TABLE principal_allow (
  instance TEXT NOT NULL REFERENCES instances (id),
  platform TEXT NOT NULL,
  user     TEXT NOT NULL,
  PRIMARY KEY (instance, platform, user)
) STRICT, WITHOUT ROWID;

-- Whether agents without a policy of their own get only addressed messages of groups.
ALTER TABLE bots ADD COLUMN require_address INTEGER NOT NULL DEFAULT 1;
