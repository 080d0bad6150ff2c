-- Bots whose credential their platform does not accept.
CREATE TABLE dead_bots (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  since    INTEGER NOT NULL,
  why      TEXT NOT NULL,
  PRIMARY KEY (platform, bot),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id)
) STRICT, WITHOUT ROWID;
