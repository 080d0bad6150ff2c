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

-- Answers that are still looked for though the question's time is up.
CREATE INDEX exchanges_overdue ON exchanges (ended) WHERE collected = 1 AND state >= 2;
