-- Beside agents, the house itself may want to be called at a time: an alarm rings the bell it names, and is
-- a tenant's, not an agent's. So `instance` may be NULL now, which a table can only learn by being made anew.
-- An agent's arm has an instance; an alarm has bell and tenant, and no history in `fires`.
CREATE TABLE arms_anew (
  key           INTEGER PRIMARY KEY AUTOINCREMENT,
  state         INTEGER NOT NULL,
  next_us       INTEGER NOT NULL,
  instance      TEXT REFERENCES instances (id),
  bell          TEXT,
  tenant        TEXT REFERENCES tenants (id) ON DELETE CASCADE,
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
  UNIQUE (instance, job),
  CHECK ((instance IS NULL) = (bell IS NOT NULL) AND (bell IS NULL) = (tenant IS NULL))
) STRICT;

INSERT INTO arms_anew
  (key, state, next_us, instance, job, schedule, fire_at, dedup, callback, per_job_key, attempts, poked, unsure,
   created, failing_since, last_status, last_error, owner, lease_until, policy, later)
SELECT key, state, next_us, instance, job, schedule, fire_at, dedup, callback, per_job_key, attempts, poked, unsure,
   created, failing_since, last_status, last_error, owner, lease_until, policy, later
FROM arms;

-- A key is never given out twice, also not one whose arm is long gone.
DELETE FROM sqlite_sequence WHERE name = 'arms_anew';
INSERT INTO sqlite_sequence (name, seq) SELECT 'arms_anew', seq FROM sqlite_sequence WHERE name = 'arms';

DROP TABLE arms;
ALTER TABLE arms_anew RENAME TO arms;

-- The row number stands in every index, so this one alone fills the clock's heap, page by page.
CREATE INDEX arms_due ON arms (state, next_us);
-- Whom a sign of life concerns; of healthy arms it holds none.
CREATE INDEX arms_failing ON arms (instance) WHERE attempts > 0;
-- One alarm a job of a bell. It holds no agent's arm.
CREATE UNIQUE INDEX arms_alarms ON arms (tenant, bell, job) WHERE tenant IS NOT NULL;
