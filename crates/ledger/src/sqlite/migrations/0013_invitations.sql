-- An invitation to the web chat page names a tenant and, if wished, agents. Its link works once and becomes a browser
-- session. A room belongs to an invitation, no longer to whoever gives the same name.

CREATE TABLE invitations (
  id          TEXT PRIMARY KEY,
  tenant      TEXT NOT NULL REFERENCES tenants (id),
  person      TEXT NOT NULL,
  owner       INTEGER NOT NULL,
  -- Otherwise those in invitation_agents, even when none is left there.
  every_agent INTEGER NOT NULL,
  created     INTEGER NOT NULL
) STRICT;
CREATE INDEX invitations_tenant ON invitations (tenant);

CREATE TABLE invitation_agents (
  invitation TEXT NOT NULL REFERENCES invitations (id),
  instance   TEXT NOT NULL REFERENCES instances (id),
  PRIMARY KEY (invitation, instance)
) STRICT, WITHOUT ROWID;
CREATE INDEX invitation_agents_instance ON invitation_agents (instance);

CREATE TABLE invitation_links (
  hash       TEXT PRIMARY KEY,
  invitation TEXT NOT NULL REFERENCES invitations (id),
  expires    INTEGER NOT NULL,
  -- The same in ledger time: it ends by whichever comes first.
  ends       INTEGER NOT NULL
) STRICT;
CREATE INDEX invitation_links_invitation ON invitation_links (invitation);

CREATE TABLE page_sessions (
  hash       TEXT PRIMARY KEY,
  invitation TEXT NOT NULL REFERENCES invitations (id),
  created    INTEGER NOT NULL,
  expires    INTEGER NOT NULL,
  ends       INTEGER NOT NULL
) STRICT;
CREATE INDEX page_sessions_invitation ON page_sessions (invitation);

-- Until now an invitation was for every tenant. It goes on for the only tenant there is, or the only one its person
-- talked to. Others end: nothing says whom they were meant for. The old links and cookies end with this step.
INSERT INTO invitations (id, tenant, person, owner, every_agent, created)
SELECT 'inv_' || lower(hex(randomblob(16))), tenant, person, 0, 1, created
FROM (
  SELECT invites.person, invites.created,
    CASE
      WHEN (SELECT count(*) FROM tenants) = 1 THEN (SELECT id FROM tenants)
      WHEN (SELECT count(DISTINCT instances.tenant) FROM rooms JOIN instances ON instances.id = rooms.instance
            WHERE rooms.person = invites.person) = 1
      THEN (SELECT instances.tenant FROM rooms JOIN instances ON instances.id = rooms.instance
            WHERE rooms.person = invites.person)
    END AS tenant
  FROM invites
)
WHERE tenant IS NOT NULL;

-- The invitation whose link `posthouse up` prints.
INSERT INTO invitations (id, tenant, person, owner, every_agent, created)
SELECT 'inv_up', id, 'owner', 1, 1, created FROM tenants WHERE name = 'home';

CREATE TABLE rooms_new (
  id         TEXT PRIMARY KEY,
  instance   TEXT NOT NULL REFERENCES instances (id),
  -- Nobody's when its invitation was withdrawn.
  invitation TEXT REFERENCES invitations (id),
  person     TEXT NOT NULL,
  created    INTEGER NOT NULL,
  UNIQUE (instance, invitation)
) STRICT;
INSERT INTO rooms_new (id, instance, invitation, person, created)
SELECT rooms.id, rooms.instance, invitations.id, rooms.person, rooms.created
FROM rooms
JOIN instances ON instances.id = rooms.instance
LEFT JOIN invitations ON invitations.tenant = instances.tenant AND invitations.person = rooms.person
  AND invitations.id <> 'inv_up';
-- People at this machine gave any name they liked. Their latest conversation with each agent goes on.
UPDATE rooms_new SET invitation = 'inv_up'
WHERE id IN (
  SELECT id FROM (
    SELECT r.id, row_number() OVER (
      PARTITION BY r.instance
      ORDER BY coalesce((SELECT max(seq) FROM room_lines WHERE room = r.id), 0) DESC, r.created DESC
    ) AS place
    FROM rooms_new r
    JOIN instances ON instances.id = r.instance
    WHERE r.invitation IS NULL AND instances.tenant = (SELECT tenant FROM invitations WHERE id = 'inv_up')
  )
  WHERE place = 1
);
DROP TABLE rooms;
ALTER TABLE rooms_new RENAME TO rooms;
CREATE INDEX rooms_invitation ON rooms (invitation);
DROP TABLE invites;
