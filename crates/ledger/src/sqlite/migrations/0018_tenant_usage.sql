-- What each tenant stores, and how many rows of history are its own. The writer keeps these sums in memory and writes
-- them in the transaction that changed them. While the table is empty, a start counts the rows.
CREATE TABLE tenant_usage (
  tenant  TEXT PRIMARY KEY,
  bytes   INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  actions INTEGER NOT NULL,
  fires   INTEGER NOT NULL
) STRICT;

-- What a tenant may store; NULL is the server's default.
ALTER TABLE tenants ADD COLUMN storage_bytes INTEGER;

-- Whose an agent was that was removed: its rows of history outlive it. `removed` is a ledger time.
CREATE TABLE former_agents (
  id      TEXT PRIMARY KEY,
  tenant  TEXT NOT NULL,
  removed INTEGER NOT NULL
) STRICT;
CREATE INDEX former_agents_removed ON former_agents (removed);

-- Lines of a room are kept by ledger time, and a room by the bytes of its lines.
ALTER TABLE room_lines ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
UPDATE room_lines SET counted = said;
CREATE INDEX room_lines_age ON room_lines (counted);
ALTER TABLE rooms ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE rooms SET bytes =
  (SELECT coalesce(sum(octet_length(text) + 256), 0) FROM room_lines WHERE room_lines.room = rooms.id);
CREATE TRIGGER room_lines_more AFTER INSERT ON room_lines BEGIN
  UPDATE rooms SET bytes = bytes + octet_length(NEW.text) + 256 WHERE id = NEW.room;
END;
CREATE TRIGGER room_lines_changed AFTER UPDATE OF text ON room_lines BEGIN
  UPDATE rooms SET bytes = bytes + octet_length(NEW.text) - octet_length(OLD.text) WHERE id = NEW.room;
END;
CREATE TRIGGER room_lines_less AFTER DELETE ON room_lines BEGIN
  UPDATE rooms SET bytes = bytes - octet_length(OLD.text) - 256 WHERE id = OLD.room;
END;
