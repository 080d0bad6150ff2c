-- Bots at whose platform the server has registered commands of agents. They are withdrawn when no agent announces any.
CREATE TABLE registered_commands (
  platform TEXT NOT NULL,
  bot      TEXT NOT NULL,
  PRIMARY KEY (platform, bot),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id)
) STRICT, WITHOUT ROWID;
