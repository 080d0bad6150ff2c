-- The message that led to a run: the event that started the run named its dispatch id.
ALTER TABLE skill_runs ADD COLUMN cause TEXT;
CREATE INDEX skill_runs_cause ON skill_runs (tenant, cause) WHERE cause IS NOT NULL;
