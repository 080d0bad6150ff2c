-- Skills of tenants. A row stays while the skill can be restored; `deleted` is the ledger time of its deletion. A new
-- skill under the same name is another row. `seq` is the number of its latest line of history, `summary` what lists show
-- of its header, as JSON.
CREATE TABLE skills (
  id             INTEGER PRIMARY KEY,
  tenant         TEXT NOT NULL,
  name           TEXT NOT NULL,
  seq            INTEGER NOT NULL,
  content_hash   TEXT NOT NULL,
  status         TEXT NOT NULL,
  author         TEXT,
  created        INTEGER NOT NULL,
  updated        INTEGER NOT NULL,
  status_changed INTEGER NOT NULL,
  summary        TEXT NOT NULL,
  metadata       TEXT,
  deleted        INTEGER
) STRICT;
CREATE UNIQUE INDEX skills_name ON skills (tenant, name) WHERE deleted IS NULL;
CREATE INDEX skills_restorable ON skills (tenant, name, deleted) WHERE deleted IS NOT NULL;
CREATE INDEX skills_deleted ON skills (deleted) WHERE deleted IS NOT NULL;

-- Each text once, however many lines of history have it.
CREATE TABLE skill_bodies (
  tenant       TEXT NOT NULL,
  content_hash TEXT NOT NULL,
  body         TEXT NOT NULL,
  UNIQUE (tenant, content_hash)
) STRICT;

-- One line for each write. `seq` counts the lines of a tenant.
CREATE TABLE skill_history (
  tenant          TEXT NOT NULL,
  seq             INTEGER NOT NULL,
  skill           INTEGER NOT NULL,
  content_hash    TEXT NOT NULL,
  status          TEXT NOT NULL,
  previous_status TEXT,
  changed         INTEGER NOT NULL,
  changed_by      TEXT,
  PRIMARY KEY (tenant, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX skill_history_skill ON skill_history (tenant, skill, seq);
CREATE INDEX skill_history_content ON skill_history (tenant, content_hash, skill);

-- A skill ends with its last line of history, and a text with the last line that has it.
CREATE TRIGGER skill_history_gone AFTER DELETE ON skill_history BEGIN
  DELETE FROM skill_bodies WHERE tenant = OLD.tenant AND content_hash = OLD.content_hash AND NOT EXISTS
    (SELECT 1 FROM skill_history WHERE tenant = OLD.tenant AND content_hash = OLD.content_hash);
  DELETE FROM skills WHERE id = OLD.skill AND NOT EXISTS
    (SELECT 1 FROM skill_history WHERE tenant = OLD.tenant AND skill = OLD.skill);
END;

-- One row for each tenant that has had skills: the number of its latest line of history, how many skills it has, and a
-- revision that moves with every change that a list shows.
CREATE TABLE skill_revisions (
  tenant   TEXT PRIMARY KEY REFERENCES tenants (id),
  revision INTEGER NOT NULL,
  moved    INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  skills   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
