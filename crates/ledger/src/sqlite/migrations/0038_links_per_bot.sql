-- A link counts on the bot that received its code, and on no other: whoever can sign the events of another bot could
-- link anybody there. A link of before counts on the bot where it was made last.
CREATE TABLE links_per_bot (
  platform   TEXT NOT NULL,
  bot        TEXT NOT NULL,
  user       TEXT NOT NULL,
  instance   TEXT NOT NULL REFERENCES instances (id),
  tenant     TEXT NOT NULL,
  linked     INTEGER NOT NULL,
  made       INTEGER NOT NULL,
  dm_default INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (platform, bot, user, instance),
  FOREIGN KEY (platform, bot) REFERENCES bots (platform, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO links_per_bot (platform, bot, user, instance, tenant, linked, made, dm_default)
  SELECT platform, bot, user, instance, tenant, linked, made, dm_default FROM bindings
  WHERE EXISTS (SELECT 1 FROM bots WHERE bots.platform = bindings.platform AND bots.id = bindings.bot);
DROP TABLE bindings;
ALTER TABLE links_per_bot RENAME TO bindings;
CREATE INDEX bindings_instance ON bindings (instance, platform, user);

-- Nothing proves where an author of another bot was seen.
DELETE FROM author_places WHERE NOT EXISTS
  (SELECT 1 FROM bindings b WHERE b.platform = author_places.platform AND b.bot = author_places.bot
     AND b.user = author_places.user AND b.instance = author_places.instance);
