-- What programs sent to agents, what became of it, and what agents said back.

-- `state`: 0 scheduled, 1 queued, 2 carried, 3 delivered, 4 acknowledged, 5 failed, 6 expired. What became of
-- one that is carried stands in its entry alone, and is copied here when the entry goes. `counted` is the
-- moment from which its keeping is counted: when it was accepted, brought up or first carried. `sender` is NULL
-- where it is the client of `sent_by`, or without one of the tenant. `answer` and `body` may be long, so they
-- come last; a body is there only while there is something left to do with it.
CREATE TABLE receipts (
  key       INTEGER PRIMARY KEY,
  state     INTEGER NOT NULL,
  tenant    TEXT NOT NULL,
  dispatch  TEXT NOT NULL,
  digest    BLOB NOT NULL,
  connector TEXT NOT NULL,
  agent     TEXT NOT NULL,
  instance  TEXT,
  chat      TEXT,
  session   TEXT,
  verb      INTEGER NOT NULL,
  sender    TEXT,
  sent_by   TEXT,
  sent      INTEGER NOT NULL,
  accepted  INTEGER NOT NULL,
  counted   INTEGER NOT NULL,
  due       INTEGER,
  attempts  INTEGER NOT NULL DEFAULT 0,
  skipped   INTEGER NOT NULL,
  entry     BLOB,
  delivered INTEGER,
  ended     INTEGER,
  error     TEXT,
  answer    TEXT,
  body      BLOB
) STRICT;
-- Every message of a program is written into each of these that it does not fall out of, so there are few.
-- By its dispatch too, hence the order.
CREATE UNIQUE INDEX receipts_same ON receipts (dispatch, tenant, digest);
-- The row number stands in every index, so this one has a tenant's receipts in their order.
CREATE INDEX receipts_tenant ON receipts (tenant);
CREATE INDEX receipts_sent_by ON receipts (sent_by) WHERE sent_by IS NOT NULL;
-- Only what is still to be done has a time for it.
CREATE INDEX receipts_due ON receipts (state, due, tenant) WHERE due IS NOT NULL;
CREATE INDEX receipts_waiting ON receipts (tenant) WHERE state = 1;
CREATE INDEX receipts_age ON receipts (counted) WHERE state <> 0;

CREATE TABLE replies (
  seq     INTEGER PRIMARY KEY,
  receipt INTEGER NOT NULL REFERENCES receipts (key) ON DELETE CASCADE,
  at      INTEGER NOT NULL,
  what    INTEGER NOT NULL,
  message TEXT NOT NULL,
  text    TEXT NOT NULL
) STRICT;
CREATE INDEX replies_receipt ON replies (receipt);

-- What an agent was told last in a conversation, which is what it speaks of when it does not say. Written in
-- place: an index over all receipts would grow a page for each conversation, to be written with every message.
CREATE TABLE talks (
  instance TEXT NOT NULL,
  chat     TEXT NOT NULL,
  receipt  INTEGER NOT NULL,
  PRIMARY KEY (instance, chat)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER talks_end AFTER DELETE ON receipts WHEN OLD.entry IS NOT NULL BEGIN
  DELETE FROM talks WHERE instance = OLD.instance AND chat = OLD.chat AND receipt = OLD.key;
END;

-- An entry knows its receipt by the row, the receipt its entry by the id: neither needs an index for it. An
-- entry may outlive its receipt; a key is never given out twice, so it then names nothing.
ALTER TABLE entries ADD COLUMN receipt INTEGER;

CREATE TRIGGER receipts_outlive BEFORE DELETE ON entries WHEN OLD.receipt IS NOT NULL BEGIN
  UPDATE receipts SET delivered = OLD.handed, ended = OLD.ended,
    state = CASE OLD.fate WHEN 'acknowledged' THEN 4 WHEN 'dead' THEN 5 ELSE 6 END
  WHERE key = OLD.receipt AND state = 2 AND entry = OLD.id;
END;

-- Questions. `state`: 0 open, 1 answered, 2 timed out, 3 failed.
CREATE TABLE exchanges (
  seq         INTEGER PRIMARY KEY,
  state       INTEGER NOT NULL,
  tenant      TEXT NOT NULL,
  correlation TEXT NOT NULL,
  caller      TEXT NOT NULL,
  connector   TEXT NOT NULL,
  agent       TEXT NOT NULL,
  instance    TEXT,
  chat        TEXT,
  dispatch    TEXT NOT NULL,
  digest      BLOB NOT NULL,
  reply_token BLOB,
  collected   INTEGER NOT NULL,
  opened      INTEGER NOT NULL,
  deadline    INTEGER NOT NULL,
  ended       INTEGER,
  answered    INTEGER,
  error       TEXT,
  answer      TEXT,
  UNIQUE (tenant, correlation)
) STRICT;
CREATE UNIQUE INDEX exchanges_token ON exchanges (reply_token) WHERE reply_token IS NOT NULL;
CREATE INDEX exchanges_in ON exchanges (instance, chat) WHERE instance IS NOT NULL;
CREATE INDEX exchanges_open ON exchanges (tenant) WHERE state = 0;
CREATE INDEX exchanges_deadline ON exchanges (deadline) WHERE state = 0;
CREATE INDEX exchanges_collected ON exchanges (deadline) WHERE state = 0 AND collected = 1;
CREATE INDEX exchanges_ended ON exchanges (ended) WHERE ended IS NOT NULL;
-- Newest first, a tenant's and a caller's.
CREATE INDEX exchanges_tenant ON exchanges (tenant, opened, correlation);
CREATE INDEX exchanges_caller ON exchanges (tenant, caller, opened, correlation);
