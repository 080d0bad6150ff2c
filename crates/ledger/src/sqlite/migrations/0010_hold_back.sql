-- Whether further entries of a chat wait until the agent's turn in it has ended: on, off or drain.
ALTER TABLE instances ADD COLUMN hold_back TEXT NOT NULL DEFAULT 'drain';
