-- A person's message in the web chat, with its inbox entry and whether the agent has acknowledged it.
ALTER TABLE room_lines ADD COLUMN entry TEXT;
ALTER TABLE room_lines ADD COLUMN delivered INTEGER;
