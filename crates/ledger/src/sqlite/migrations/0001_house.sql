CREATE TABLE facts (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

-- Who there is.

CREATE TABLE tenants (
  id      TEXT PRIMARY KEY,
  name    TEXT NOT NULL UNIQUE,
  created INTEGER NOT NULL
) STRICT;

CREATE TABLE instances (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL REFERENCES tenants (id),
  name       TEXT NOT NULL,
  wake_url   TEXT,
  generation TEXT NOT NULL,
  idle       INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  UNIQUE (tenant, name)
) STRICT;

CREATE TABLE bots (
  platform TEXT NOT NULL,
  id       TEXT NOT NULL,
  shared   INTEGER NOT NULL,
  settings TEXT NOT NULL,
  created  INTEGER NOT NULL,
  PRIMARY KEY (platform, id)
) STRICT;

CREATE TABLE routes (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  kind     TEXT NOT NULL,
  value    TEXT NOT NULL,
  instance TEXT NOT NULL REFERENCES instances (id),
  created  INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, kind, value),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id)
) STRICT;
CREATE INDEX routes_instance ON routes (instance);

-- What is sealed.

CREATE TABLE gateways (
  id       TEXT PRIMARY KEY,
  instance TEXT NOT NULL REFERENCES instances (id),
  created  INTEGER NOT NULL,
  revoked  INTEGER
) STRICT;
CREATE INDEX gateways_instance ON gateways (instance);

CREATE TABLE gateway_secrets (
  id      INTEGER PRIMARY KEY,
  gateway TEXT NOT NULL REFERENCES gateways (id),
  expires INTEGER,
  key_id  TEXT NOT NULL,
  blob    BLOB NOT NULL
) STRICT;
CREATE INDEX gateway_secrets_gateway ON gateway_secrets (gateway);
CREATE INDEX gateway_secrets_expires ON gateway_secrets (expires) WHERE expires IS NOT NULL;

CREATE TABLE credentials (
  id       INTEGER PRIMARY KEY,
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  name     TEXT NOT NULL,
  key_id   TEXT NOT NULL,
  blob     BLOB NOT NULL,
  UNIQUE (platform, bot, name)
) STRICT;

CREATE TABLE capabilities (
  id        INTEGER PRIMARY KEY,
  tenant    TEXT NOT NULL,
  instance  TEXT NOT NULL,
  kind      TEXT NOT NULL,
  key_id    TEXT NOT NULL,
  blob      BLOB NOT NULL,
  expires   INTEGER,
  uses_left INTEGER,
  bound     INTEGER NOT NULL
) STRICT;
CREATE INDEX capabilities_lapse ON capabilities (expires, bound);

CREATE TABLE capability_keys (
  instance    TEXT NOT NULL,
  session_key TEXT NOT NULL,
  kind        TEXT NOT NULL,
  capability  INTEGER NOT NULL REFERENCES capabilities (id) ON DELETE CASCADE,
  PRIMARY KEY (instance, session_key, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX capability_keys_capability ON capability_keys (capability);

-- What came in. A row outlives its event: it is the trace, and its dedup key the memory of repeats.

-- `counted` is the moment from which its keeping is counted: when it was accepted, dropped or put
-- back in line. `refs` is what its platform calls the attachments, as a JSON list, and goes with the
-- event. `event` comes last, so that reading the rest of a row never walks through a long one.
CREATE TABLE entries (
  seq          INTEGER PRIMARY KEY,
  id           BLOB NOT NULL,
  instance     TEXT NOT NULL,
  platform     TEXT NOT NULL,
  bot          TEXT NOT NULL,
  chat         TEXT NOT NULL,
  message      TEXT,
  dedup        TEXT,
  size         INTEGER NOT NULL,
  accepted     INTEGER NOT NULL,
  durable      INTEGER NOT NULL,
  counted      INTEGER NOT NULL,
  handed       INTEGER,
  ended        INTEGER,
  fate         TEXT,
  poisoned     INTEGER NOT NULL DEFAULT 0,
  lost         INTEGER NOT NULL DEFAULT 0,
  refs         TEXT,
  event        BLOB
) STRICT;
CREATE UNIQUE INDEX entries_id ON entries (id);
-- An event's id is its platform's word about one bot: two bots may well say the same.
CREATE UNIQUE INDEX entries_dedup ON entries (dedup, bot, platform) WHERE dedup IS NOT NULL;
CREATE INDEX entries_unread ON entries (instance, seq, size) WHERE fate IS NULL;
CREATE INDEX entries_dead ON entries (ended) WHERE fate = 'dead';
-- Oldest first, those whose repeats are still recognised apart from the rest: what lets pruning stop
-- at the first row that is not due.
CREATE INDEX entries_age ON entries ((dedup IS NULL), counted);

CREATE TABLE chats (
  instance TEXT NOT NULL,
  chat     TEXT NOT NULL,
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  scope    TEXT,
  seen     INTEGER NOT NULL,
  PRIMARY KEY (instance, chat, platform, bot)
) STRICT, WITHOUT ROWID;
CREATE INDEX chats_seen ON chats (seen);

CREATE TABLE sessions (
  instance    TEXT NOT NULL,
  session_key TEXT NOT NULL,
  platform    TEXT NOT NULL,
  bot         TEXT NOT NULL,
  chat        TEXT NOT NULL,
  seen        INTEGER NOT NULL,
  PRIMARY KEY (instance, session_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_seen ON sessions (seen);

-- What went out.

CREATE TABLE actions (
  seq      INTEGER PRIMARY KEY,
  id       BLOB NOT NULL UNIQUE,
  gateway  TEXT NOT NULL,
  request  TEXT,
  instance TEXT NOT NULL,
  op       TEXT NOT NULL,
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  chat     TEXT,
  message  TEXT,
  answers  BLOB,
  received INTEGER NOT NULL,
  posted   INTEGER,
  finished INTEGER,
  success  INTEGER,
  error    TEXT,
  outcome  TEXT
) STRICT;
CREATE UNIQUE INDEX actions_request ON actions (gateway, request) WHERE request IS NOT NULL;
CREATE INDEX actions_answers ON actions (answers) WHERE answers IS NOT NULL;
CREATE INDEX actions_message ON actions (chat, message) WHERE message IS NOT NULL;
CREATE INDEX actions_remembered ON actions (finished, received) WHERE request IS NOT NULL;
CREATE INDEX actions_received ON actions (received);

-- The house's own chat.

CREATE TABLE rooms (
  id       TEXT PRIMARY KEY,
  instance TEXT NOT NULL REFERENCES instances (id),
  person   TEXT NOT NULL,
  created  INTEGER NOT NULL,
  UNIQUE (instance, person)
) STRICT;

CREATE TABLE room_lines (
  seq      INTEGER PRIMARY KEY,
  room     TEXT NOT NULL REFERENCES rooms (id),
  message  TEXT NOT NULL,
  by_agent INTEGER NOT NULL,
  text     TEXT NOT NULL,
  reply_to TEXT,
  said     INTEGER NOT NULL,
  edited   INTEGER,
  UNIQUE (room, message)
) STRICT;
-- The row number stands in every index, so this one has a room's lines in their order.
CREATE INDEX room_lines_room ON room_lines (room);

CREATE TABLE invites (
  hash    TEXT PRIMARY KEY,
  person  TEXT NOT NULL UNIQUE,
  created INTEGER NOT NULL
) STRICT;
