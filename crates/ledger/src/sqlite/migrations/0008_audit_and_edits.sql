-- What the operator did. Names and ids, nobody's words and no secret.
CREATE TABLE audit (
  seq       INTEGER PRIMARY KEY,
  at        INTEGER NOT NULL,
  operation TEXT NOT NULL,
  about     TEXT,
  caller    TEXT,
  status    INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at);

-- Answers that have to be looked for are looked for in the order of the questions, page by page: by their
-- deadlines, one tenant's many would hide another's few.
DROP INDEX exchanges_collected;
CREATE INDEX exchanges_uncollected ON exchanges (seq) WHERE state = 0 AND collected = 1;
-- Those that are still looked for though the question's time is up. `ended` tells which of them are not any
-- more, without a look at the row.
CREATE INDEX exchanges_overdue ON exchanges (seq, ended) WHERE collected = 1 AND state >= 2;

-- An agent that edits what it said names the message alone, not whom it said it to.
CREATE INDEX replies_message ON replies (message);

-- Since here a row of `talks` is not always what the agent was told last: another agent that steps into a
-- conversation leaves it to whoever began it.
