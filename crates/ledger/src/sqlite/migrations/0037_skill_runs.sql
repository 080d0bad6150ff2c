-- Runs of skills. `number` counts the runs of a tenant; the oldest ended ones are deleted when there are too many.
-- `inputs` is kept only until the run ends. `record` is the trace of the run. `due` and `counted` are ledger time: when a
-- queued run may start, and when the row was last changed.
CREATE TABLE skill_runs (
  tenant       TEXT NOT NULL,
  number       INTEGER NOT NULL,
  id           TEXT NOT NULL UNIQUE,
  skill        TEXT NOT NULL,
  version      TEXT,
  source       TEXT NOT NULL,
  trigger_name TEXT NOT NULL,
  trigger_id   TEXT,
  caller       TEXT NOT NULL,
  state        TEXT NOT NULL,
  inputs       TEXT,
  repeatable   INTEGER NOT NULL,
  attempts     INTEGER NOT NULL DEFAULT 0,
  fired        INTEGER NOT NULL,
  started      INTEGER,
  ended        INTEGER,
  error        TEXT,
  record       TEXT,
  due          INTEGER NOT NULL,
  counted      INTEGER NOT NULL,
  PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_runs_queued ON skill_runs (tenant, number) WHERE state = 'queued';
CREATE INDEX skill_runs_running ON skill_runs (state) WHERE state = 'running';
CREATE INDEX skill_runs_skill ON skill_runs (tenant, skill, number);
CREATE INDEX skill_runs_counted ON skill_runs (counted) WHERE ended IS NOT NULL;

-- Which run sent a dispatch.
CREATE TABLE skill_run_dispatches (
  dispatch TEXT NOT NULL,
  run      TEXT NOT NULL,
  PRIMARY KEY (dispatch, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_run_dispatches_run ON skill_run_dispatches (run);

-- Triggers of skills. Declarative ones follow the headers of Approved skills.
CREATE TABLE skill_triggers (
  tenant      TEXT NOT NULL,
  number      INTEGER NOT NULL,
  skill       TEXT NOT NULL,
  source      TEXT NOT NULL,
  name        TEXT NOT NULL,
  params      TEXT,
  declarative INTEGER NOT NULL,
  enabled     INTEGER NOT NULL,
  registered  INTEGER NOT NULL,
  expires     INTEGER,
  PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_triggers_event ON skill_triggers (tenant, source, name);

-- The highest number that a trigger of a tenant ever had, and the version of the skills that the triggers follow.
CREATE TABLE skill_trigger_numbers (
  tenant  TEXT PRIMARY KEY,
  last    INTEGER NOT NULL,
  follows TEXT
) STRICT, WITHOUT ROWID;
