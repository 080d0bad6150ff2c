-- Every line of history has a number within the history of its agent. An agent sees this number, because `seq` counts
-- the fires of all tenants. The indexes that found the lines of an agent and of a job now also keep them in this order.
ALTER TABLE fires ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
UPDATE fires SET number = counted_lines.number
FROM (SELECT seq, row_number() OVER (PARTITION BY instance ORDER BY seq) AS number FROM fires) AS counted_lines
WHERE fires.seq = counted_lines.seq;
DROP INDEX fires_instance;
DROP INDEX fires_job;
CREATE INDEX fires_instance ON fires (instance, number);
CREATE INDEX fires_job ON fires (instance, job, number);
