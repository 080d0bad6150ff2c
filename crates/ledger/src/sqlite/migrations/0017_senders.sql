-- Who sent an entry: a person of its platform (`user:`) or a program's credential (`client:`). What one sender
-- holds of an inbox is limited.
ALTER TABLE entries ADD COLUMN sender TEXT;
