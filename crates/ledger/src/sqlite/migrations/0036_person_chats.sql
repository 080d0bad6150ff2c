-- The direct chat of each id of a person, on platforms that name people by two ids. `lasting` is the id that was seen
-- together with this one and never passes to somebody else.
CREATE TABLE person_chats (
  id       TEXT NOT NULL,
  bot      TEXT NOT NULL,
  platform TEXT NOT NULL,
  chat     TEXT NOT NULL,
  lasting  TEXT,
  counted  INTEGER NOT NULL,
  PRIMARY KEY (id, bot, platform)
) STRICT, WITHOUT ROWID;
CREATE INDEX person_chats_age ON person_chats (counted);
