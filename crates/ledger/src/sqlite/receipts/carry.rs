//! Receipts that an inbox entry carries.

use posthouse_time::Moment;
use posthouse_wire::EntryId;
use rusqlite::{Connection, params};

use super::rows::{self, CARRIED};
use crate::receipts::{NewReceipt, ReceiptKey};

/// What becomes of an entry that would carry a receipt.
pub(in crate::sqlite) enum Carried {
    /// It is to be appended.
    From(ReceiptKey),
    /// The same delivery has its entry already.
    Known(EntryId),
}

/// Has an entry that is about to be appended carry this receipt. One of the same delivery that was noted
/// before, and never reached the line, is carried from here on: what was scheduled has come up, and what
/// failed on the way may well be tried again.
pub(in crate::sqlite) fn carry(
    db: &Connection,
    new: &NewReceipt,
    entry: [u8; 16],
    now: Moment,
) -> rusqlite::Result<Carried> {
    if let Some(key) = rows::insert(db, new, Some(entry), now)? {
        tell_last(db, new, key)?;
        return Ok(Carried::From(key));
    }
    let (key, first): (i64, Option<[u8; 16]>) = db
        .prepare_cached(
            "SELECT key, entry FROM receipts WHERE dispatch = ?1 AND tenant = ?2 AND digest = ?3",
        )?
        .query_row(params![new.dispatch.as_str(), new.tenant.as_str(), new.digest], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if let Some(first) = first {
        return Ok(Carried::Known(EntryId::from_bytes(first)));
    }
    db.prepare_cached(
        "UPDATE receipts SET state = ?2, entry = ?3, counted = ?4, instance = ?5, chat = ?6, session = ?7,
           skipped = ?8, attempts = attempts + 1, due = NULL, body = NULL, error = NULL, ended = NULL,
           answer = NULL
         WHERE key = ?1",
    )?
    .execute(params![
        key,
        CARRIED,
        entry,
        now.millis(),
        new.instance.as_ref().map(|instance| instance.as_str()),
        new.chat.as_ref().map(|chat| chat.as_str()),
        new.session,
        new.skipped,
    ])?;
    tell_last(db, new, ReceiptKey(key))?;
    Ok(Carried::From(ReceiptKey(key)))
}

/// From here on this is what the agent speaks of in that conversation when it does not say, unless another
/// agent steps into a conversation that is not its own: what is said there is not for it to read. A program
/// of the tenant may read all of it, so nothing has to be looked up for one.
fn tell_last(db: &Connection, new: &NewReceipt, key: ReceiptKey) -> rusqlite::Result<()> {
    let (Some(instance), Some(chat)) = (&new.instance, &new.chat) else { return Ok(()) };
    let (instance, chat) = (instance.as_str(), chat.as_str());
    match &new.sent_by {
        None => db.prepare_cached(TAKE_OVER)?.execute(params![instance, chat, key.0]),
        Some(agent) => db.prepare_cached(GO_ON)?.execute(params![instance, chat, key.0, agent.as_str()]),
    }
    .map(drop)
}

const TAKE_OVER: &str = "INSERT INTO talks (instance, chat, receipt) VALUES (?1, ?2, ?3)
    ON CONFLICT DO UPDATE SET receipt = excluded.receipt";

const GO_ON: &str = "INSERT INTO talks (instance, chat, receipt) VALUES (?1, ?2, ?3)
    ON CONFLICT DO UPDATE SET receipt = excluded.receipt
      WHERE NOT EXISTS (SELECT 1 FROM receipts WHERE key = talks.receipt AND sent_by IS NOT ?4)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_conversation_is_stands_in_one_row() {
        let plan = crate::sqlite::receipts::plan(GO_ON);
        assert!(plan.contains("SEARCH receipts USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
        assert!(!plan.contains("SCAN receipts"), "{plan}");
    }
}
