-- What earlier builds wrote into `generation` was a guess from what one socket had asked for. From here on it
-- is only what the operator pinned, so every guess is dropped.
UPDATE instances SET generation = 'auto';

-- A pin of one credential; without one the agent's own holds.
ALTER TABLE gateways ADD COLUMN generation TEXT;
