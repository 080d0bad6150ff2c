-- Position of a bot's event feed, in the words of its platform.
CREATE TABLE feed_cursors (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  cursor   TEXT NOT NULL,
  PRIMARY KEY (platform, bot),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id)
) STRICT, WITHOUT ROWID;

-- Further keys of events that a platform reports more than once, with the key of the first report.
CREATE TABLE event_aliases (
  alias    TEXT NOT NULL,
  bot      TEXT NOT NULL,
  platform TEXT NOT NULL,
  dedup    TEXT NOT NULL,
  counted  INTEGER NOT NULL,
  PRIMARY KEY (alias, bot, platform)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_aliases_age ON event_aliases (counted);
