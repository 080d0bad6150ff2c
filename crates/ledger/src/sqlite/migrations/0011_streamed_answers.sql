-- The cursor that marks an unfinished text of this agent; NULL is the stock one, an empty one is none.
ALTER TABLE instances ADD COLUMN stream_cursor TEXT;

-- What an agent said of an answer while it was still writing it. The rest comes as a message of its own.
ALTER TABLE replies ADD COLUMN unfinished INTEGER NOT NULL DEFAULT 0;
CREATE INDEX replies_unfinished ON replies (receipt) WHERE unfinished = 1;
