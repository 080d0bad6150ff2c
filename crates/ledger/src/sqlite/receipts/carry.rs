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
           skipped = ?8, attempts = attempts + 1, due = NULL, body = NULL, error = NULL, ended = NULL
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

/// From here on this is what the agent was told last in that conversation.
fn tell_last(db: &Connection, new: &NewReceipt, key: ReceiptKey) -> rusqlite::Result<()> {
    let (Some(instance), Some(chat)) = (&new.instance, &new.chat) else { return Ok(()) };
    db.prepare_cached(
        "INSERT INTO talks (instance, chat, receipt) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET receipt = excluded.receipt",
    )?
    .execute(params![instance.as_str(), chat.as_str(), key.0])
    .map(drop)
}
