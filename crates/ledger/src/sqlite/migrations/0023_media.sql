-- Files that agents upload, and attachments that were fetched for them. The bytes are in files beside the ledger, under
-- the name `file`. `ends` is a ledger time.
CREATE TABLE media (
  id       TEXT PRIMARY KEY,
  file     TEXT NOT NULL UNIQUE,
  tenant   TEXT NOT NULL,
  instance TEXT NOT NULL REFERENCES instances (id),
  mime     TEXT NOT NULL,
  filename TEXT NOT NULL,
  size     INTEGER NOT NULL,
  ends     INTEGER NOT NULL
) STRICT;
CREATE INDEX media_instance ON media (instance);
CREATE INDEX media_ends ON media (ends);

-- Keys in URLs that open a file without another credential. Only the hash of a key is stored.
CREATE TABLE media_keys (
  seq     INTEGER PRIMARY KEY,
  media   TEXT NOT NULL REFERENCES media (id) ON DELETE CASCADE,
  hash    TEXT NOT NULL,
  expires INTEGER NOT NULL,
  ends    INTEGER NOT NULL
) STRICT;
CREATE INDEX media_keys_media ON media_keys (media);

-- Files whose row is gone. They are deleted from the disk, and then from this list.
CREATE TABLE files_to_delete (
  file TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
CREATE TRIGGER media_gone AFTER DELETE ON media BEGIN
  INSERT OR IGNORE INTO files_to_delete (file) VALUES (OLD.file);
END;

-- What a tenant's files take up, and what they may; NULL is the server's default.
ALTER TABLE tenant_usage ADD COLUMN media INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN media_bytes INTEGER;

-- The album that a message is a part of. Its parts are delivered as one.
ALTER TABLE entries ADD COLUMN album TEXT;

-- Files in rooms of the web chat. `message` is NULL until the person has sent the message. A row outlives its file, so
-- that the page can say that there was one.
CREATE TABLE room_files (
  seq      INTEGER PRIMARY KEY,
  media    TEXT NOT NULL UNIQUE,
  room     TEXT NOT NULL REFERENCES rooms (id),
  message  TEXT,
  mime     TEXT NOT NULL,
  filename TEXT NOT NULL,
  size     INTEGER NOT NULL,
  counted  INTEGER NOT NULL
) STRICT;
CREATE INDEX room_files_message ON room_files (room, message);
CREATE INDEX room_files_unsent ON room_files (counted) WHERE message IS NULL;
CREATE TRIGGER room_files_gone AFTER DELETE ON room_files BEGIN
  DELETE FROM media WHERE id = OLD.media;
END;
CREATE TRIGGER room_lines_files AFTER DELETE ON room_lines BEGIN
  DELETE FROM room_files WHERE room = OLD.room AND message = OLD.message;
END;
