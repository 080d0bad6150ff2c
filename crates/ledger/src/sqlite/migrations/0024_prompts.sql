-- Prompts, threads, reactions, command manifests, uses of capabilities, forwarded interactions.

-- A prompt that an agent has shown, so that a press reaches only the agent that asked. `options` is a JSON list of
-- pairs (id, label). `pressed` is the option that was pressed first.
CREATE TABLE prompts (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  chat     TEXT NOT NULL,
  message  TEXT NOT NULL,
  prompt   TEXT NOT NULL,
  instance TEXT NOT NULL REFERENCES instances (id),
  options  TEXT NOT NULL,
  pressed  TEXT,
  counted  INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, chat, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX prompts_instance ON prompts (instance, counted);
CREATE INDEX prompts_age ON prompts (counted);

-- A thread that an agent has created through this server. `name` is the name that the agent gave; `renamed` is 1 once
-- somebody else changed it.
CREATE TABLE made_threads (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  chat     TEXT NOT NULL,
  thread   TEXT NOT NULL,
  instance TEXT NOT NULL REFERENCES instances (id),
  name     TEXT NOT NULL,
  renamed  INTEGER NOT NULL DEFAULT 0,
  counted  INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, chat, thread)
) STRICT, WITHOUT ROWID;
CREATE INDEX made_threads_instance ON made_threads (instance, counted);
CREATE INDEX made_threads_age ON made_threads (counted);

-- The commands that a gateway announced for one bot, as a JSON list.
CREATE TABLE command_manifests (
  instance TEXT NOT NULL REFERENCES instances (id),
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  manifest TEXT NOT NULL,
  seen     INTEGER NOT NULL,
  PRIMARY KEY (instance, platform, bot)
) STRICT, WITHOUT ROWID;

-- One use of a capability: the entry that brought it, the action that spent it, the call and its outcome. `outcome` is
-- null while the call runs, and stays null if its end is unknown.
CREATE TABLE capability_uses (
  seq      INTEGER PRIMARY KEY,
  tenant   TEXT NOT NULL,
  instance TEXT NOT NULL,
  entry    BLOB,
  action   BLOB,
  kind     TEXT NOT NULL,
  called   TEXT,
  outcome  TEXT,
  at       INTEGER NOT NULL,
  counted  INTEGER NOT NULL
) STRICT;
CREATE INDEX capability_uses_instance ON capability_uses (instance, seq);
CREATE INDEX capability_uses_age ON capability_uses (counted);
ALTER TABLE capabilities ADD COLUMN entry BLOB;

-- The calls that an action made with the credentials of its bot, such as `sendMessage x2`.
ALTER TABLE actions ADD COLUMN called TEXT;

-- A sanitized interaction, for agents that want it whole instead of as an event. It goes with the event.
ALTER TABLE entries ADD COLUMN forward BLOB;

-- How an agent gets interactions: as events (`inbound`) or whole (`passthrough`).
ALTER TABLE instances ADD COLUMN interactions TEXT NOT NULL DEFAULT 'inbound';

-- Web chat: the thread of a message, what the agent reacted with as a JSON list, and the time of the last change that
-- is neither text nor an edit.
ALTER TABLE room_lines ADD COLUMN thread TEXT;
ALTER TABLE room_lines ADD COLUMN reactions TEXT;
ALTER TABLE room_lines ADD COLUMN touched INTEGER;
