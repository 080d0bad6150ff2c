-- Ledger time: the ledger's own clock, by which rows are kept and pruned. Rows keep wall times for people and
-- one stamp in ledger time. From here on these stamps, so far wall times, are ledger times: `counted` of entries
-- and receipts, `bound` of capabilities, `seen` of chats and sessions.

-- One row: ledger time, and the highest wall time that was seen. The next start goes on from it. `started` is the ledger
-- time of the last start, and `rest` what it added, together with the starts shortly before it.
CREATE TABLE ledger_clock (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  ledger  INTEGER NOT NULL,
  wall    INTEGER NOT NULL,
  started INTEGER NOT NULL,
  rest    INTEGER NOT NULL
) STRICT;

-- A dead letter is kept from its death.
DROP INDEX entries_dead;
UPDATE entries SET counted = ended WHERE fate = 'dead';
CREATE INDEX entries_dead ON entries (counted) WHERE fate = 'dead';

-- An action is kept from its begin, and once it has finished from its end.
ALTER TABLE actions ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
UPDATE actions SET counted = coalesce(finished, received);
DROP INDEX actions_remembered;
DROP INDEX actions_received;
CREATE INDEX actions_remembered ON actions ((finished IS NULL), counted) WHERE request IS NOT NULL;
CREATE INDEX actions_age ON actions (counted);

ALTER TABLE fires ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
UPDATE fires SET counted = at;
DROP INDEX fires_age;
CREATE INDEX fires_age ON fires ((dedup IS NULL), counted);

-- An exchange is kept from its end.
ALTER TABLE exchanges ADD COLUMN counted INTEGER;
UPDATE exchanges SET counted = ended;
DROP INDEX exchanges_ended;
CREATE INDEX exchanges_age ON exchanges (counted) WHERE counted IS NOT NULL;

ALTER TABLE audit ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
UPDATE audit SET counted = at;
DROP INDEX audit_at;
CREATE INDEX audit_age ON audit (counted);

-- When a route was made, to be compared with when a chat was last seen.
ALTER TABLE routes ADD COLUMN made INTEGER NOT NULL DEFAULT 0;
UPDATE routes SET made = created;

-- Credentials end by the wall time `expires` or the ledger time `ends`, whichever comes first. They are deleted by
-- ledger time alone: a wall clock that is set right again gives back what it seemed to have ended.
ALTER TABLE gateway_secrets ADD COLUMN ends INTEGER;
UPDATE gateway_secrets SET ends = expires;
DROP INDEX gateway_secrets_expires;
CREATE INDEX gateway_secrets_ends ON gateway_secrets (ends) WHERE ends IS NOT NULL;

ALTER TABLE client_secrets ADD COLUMN ends INTEGER;
UPDATE client_secrets SET ends = expires;
DROP INDEX client_secrets_expires;
CREATE INDEX client_secrets_ends ON client_secrets (ends) WHERE ends IS NOT NULL;

ALTER TABLE access_tokens ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;
UPDATE access_tokens SET ends = expires;
DROP INDEX access_tokens_whose;
DROP INDEX access_tokens_expires;
CREATE INDEX access_tokens_whose ON access_tokens (login, client, refresh, ends);
CREATE INDEX access_tokens_ends ON access_tokens (ends);

ALTER TABLE capabilities ADD COLUMN ends INTEGER;
UPDATE capabilities SET ends = expires;
DROP INDEX capabilities_lapse;
CREATE INDEX capabilities_lapse ON capabilities (ends, bound);

-- A retired key of the server ends in the same way; `ends` was its wall time from the start.
ALTER TABLE house_keys ADD COLUMN ends_ledger INTEGER;
UPDATE house_keys SET ends_ledger = ends;

-- These become ledger times too: `rotated` of refresh tokens, `failing_since` of arms, and `due` of receipts that
-- are to be attempted (state 1). A scheduled receipt (state 0) stays due at the wall time that its sender named.

-- A fire that failed is tried again at this ledger time, or at its `fire_at` if that comes later. `next_us` says the
-- same by the wall clock as it stood when it was written.
ALTER TABLE arms ADD COLUMN retry_at INTEGER;

-- An open exchange ends at this ledger time; `deadline` is what its caller was told.
ALTER TABLE exchanges ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;
UPDATE exchanges SET ends = deadline;
DROP INDEX exchanges_deadline;
CREATE INDEX exchanges_ends ON exchanges (ends) WHERE state = 0;
DROP INDEX exchanges_overdue;
CREATE INDEX exchanges_overdue ON exchanges (seq, counted) WHERE collected = 1 AND state >= 2;
