-- Refresh tokens form a tree: every exchange makes a successor. A login is used in as many places at once as it has lines.
ALTER TABLE refresh_tokens ADD COLUMN parent INTEGER;
ALTER TABLE refresh_tokens ADD COLUMN line INTEGER NOT NULL DEFAULT 0;
-- Set when a sibling (for one that was never presented) or a successor (for one that was) has been presented.
ALTER TABLE refresh_tokens ADD COLUMN lapses INTEGER;

UPDATE refresh_tokens SET parent =
  (SELECT max(before.seq) FROM refresh_tokens AS before
    WHERE before.login = refresh_tokens.login AND before.seq < refresh_tokens.seq);
UPDATE refresh_tokens SET lapses = rotated + 86400000
 WHERE rotated IS NOT NULL
   AND EXISTS (SELECT 1 FROM refresh_tokens AS later
                WHERE later.login = refresh_tokens.login AND later.seq > refresh_tokens.seq AND later.rotated IS NOT NULL);

DROP INDEX refresh_tokens_rotated;
CREATE INDEX refresh_tokens_parent ON refresh_tokens (parent) WHERE parent IS NOT NULL;
CREATE INDEX refresh_tokens_lapses ON refresh_tokens (lapses) WHERE lapses IS NOT NULL;

-- The refresh token that was handed out with this access token, until that has been presented.
ALTER TABLE access_tokens ADD COLUMN refresh INTEGER;

CREATE TABLE login_lines (
  login   TEXT NOT NULL REFERENCES logins (id),
  line    INTEGER NOT NULL,
  started INTEGER NOT NULL,
  used    INTEGER NOT NULL,
  -- Where its last refresh came from.
  address TEXT,
  PRIMARY KEY (login, line)
) STRICT, WITHOUT ROWID;
INSERT INTO login_lines (login, line, started, used) SELECT id, 0, created, coalesce(refreshed, created) FROM logins;
