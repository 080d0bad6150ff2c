-- What agents asked to be called about, and what became of it.

-- Pending arms only, at most one a job. A key is never given out twice, so that whoever remembers an
-- older arm of the job finds nothing. `state`: 0 armed, 1 dispatching, 2 dead. Columns that most arms
-- would fill alike are NULL then: `dedup` when it is `{job}:{fire_at}`, `policy` when nothing was wished,
-- `later` (a JSON list of times) when none is known. `later` may be long, so it comes last. `unsure`: the
-- agent may have heard the last attempt.
CREATE TABLE arms (
  key           INTEGER PRIMARY KEY AUTOINCREMENT,
  state         INTEGER NOT NULL,
  next_us       INTEGER NOT NULL,
  instance      TEXT NOT NULL REFERENCES instances (id),
  job           TEXT NOT NULL,
  schedule      TEXT NOT NULL,
  fire_at       TEXT NOT NULL,
  dedup         TEXT,
  callback      TEXT,
  per_job_key   INTEGER NOT NULL,
  attempts      INTEGER NOT NULL DEFAULT 0,
  poked         INTEGER NOT NULL DEFAULT 0,
  unsure        INTEGER NOT NULL DEFAULT 0,
  created       INTEGER NOT NULL,
  failing_since INTEGER,
  last_status   INTEGER,
  last_error    TEXT,
  owner         TEXT,
  lease_until   INTEGER,
  policy        TEXT,
  later         TEXT,
  UNIQUE (instance, job)
) STRICT;
-- The row number stands in every index, so this one alone fills the clock's heap, page by page.
CREATE INDEX arms_due ON arms (state, next_us);
-- Whom a sign of life concerns; of healthy arms it holds none.
CREATE INDEX arms_failing ON arms (instance) WHERE attempts > 0;

-- History. `dedup` is there as long as the fire must not be made again: its agent took it. `held` is the
-- key of an arm that was superseded or cancelled under its holder's hands; with a `dedup`, which then
-- counts only if the holder reports that the agent took the fire after all.
CREATE TABLE fires (
  seq      INTEGER PRIMARY KEY,
  at       INTEGER NOT NULL,
  instance TEXT NOT NULL,
  job      TEXT NOT NULL,
  schedule TEXT NOT NULL,
  fire_at  TEXT NOT NULL,
  what     TEXT NOT NULL,
  status   INTEGER,
  error    TEXT,
  late_ms  INTEGER,
  next_us  INTEGER,
  dedup    TEXT,
  held     INTEGER
) STRICT;
CREATE INDEX fires_instance ON fires (instance);
CREATE INDEX fires_job ON fires (instance, job);
CREATE INDEX fires_schedule ON fires (schedule);
CREATE INDEX fires_taken ON fires (instance, job, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX fires_held ON fires (held) WHERE held IS NOT NULL;
-- Oldest first, those that still count apart from the rest, as with entries.
CREATE INDEX fires_age ON fires ((dedup IS NULL), at);
