-- Which messages of groups an agent wants, as its gateway declared it for one platform.
CREATE TABLE relevance_policies (
  instance         TEXT NOT NULL REFERENCES instances (id),
  platform         TEXT NOT NULL,
  require_address  INTEGER NOT NULL,
  allow_other_bots INTEGER NOT NULL,
  free_scopes      TEXT NOT NULL,
  declared         INTEGER NOT NULL,
  PRIMARY KEY (instance, platform)
) STRICT, WITHOUT ROWID;
