-- Who may write to a bot. `principals` is the bot's policy: 'allow-list' or 'any'.
ALTER TABLE bots ADD COLUMN principals TEXT NOT NULL DEFAULT 'allow-list';

-- What the operator decided. `kind` is 'user' or 'chat'.
CREATE TABLE access_rules (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  kind     TEXT NOT NULL,
  value    TEXT NOT NULL,
  allowed  INTEGER NOT NULL,
  name     TEXT,
  decided  INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, kind, value),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Who asks to be let in. A code ends by the wall time `expires` or the ledger time `ends`. At most a hundred of a bot, so looking through all of a bot's is cheap.
CREATE TABLE access_pairings (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  kind     TEXT NOT NULL,
  value    TEXT NOT NULL,
  code     TEXT NOT NULL,
  name     TEXT,
  asked_by TEXT,
  asked    INTEGER NOT NULL,
  expires  INTEGER NOT NULL,
  ends     INTEGER NOT NULL,
  PRIMARY KEY (platform, bot, kind, value),
  UNIQUE (platform, bot, code),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Until now everybody could write to every bot. Whoever already does goes on. Bots without credentials are
-- the server's own, which have rules of their own. `chats.seen` is ledger time, so the bot's age stands for when.
INSERT INTO access_rules (platform, bot, kind, value, allowed, decided)
SELECT chats.platform, chats.bot, 'chat', chats.chat, 1, bots.created
FROM chats JOIN bots ON bots.platform = chats.platform AND bots.id = chats.bot
WHERE EXISTS (SELECT 1 FROM credentials
              WHERE credentials.platform = bots.platform AND credentials.bot = bots.id)
GROUP BY chats.platform, chats.bot, chats.chat;
