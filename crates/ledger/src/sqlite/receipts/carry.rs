//! Receipts that an inbox entry carries.

use posthouse_wire::EntryId;
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, CARRIED};
use crate::receipts::{NewReceipt, ReceiptKey};

/// The decision about an entry that is to carry a receipt.
pub(in crate::sqlite) enum CarriedReceipt {
    /// The entry is to be appended.
    From(ReceiptKey),
    /// The same delivery already has an entry.
    Known(EntryId),
}

/// Stores the receipt that a new entry will carry. If the same delivery is already stored without an entry,
/// the entry carries it from now on: a scheduled delivery has become due, or a failed one is tried again.
pub(in crate::sqlite) fn carry(
    db: &Connection,
    new: &NewReceipt,
    entry: [u8; 16],
) -> rusqlite::Result<CarriedReceipt> {
    if let Some(key) = rows::insert(db, new, Some(entry))? {
        tell_last(db, new, key)?;
        return Ok(CarriedReceipt::From(key));
    }
    let (key, first): (i64, Option<[u8; 16]>) = db
        .prepare_cached(
            "SELECT key, entry FROM receipts WHERE dispatch = ?1 AND tenant = ?2 AND digest = ?3",
        )?
        .query_row(params![new.dispatch.as_str(), new.tenant.as_str(), new.digest], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if let Some(first) = first {
        return Ok(CarriedReceipt::Known(EntryId::from_bytes(first)));
    }
    db.prepare_cached(
        "UPDATE receipts SET state = ?2, entry = ?3, counted = ledger_time(), instance = ?4, chat = ?5, session = ?6,
           skipped = ?7, attempts = attempts + 1, due = NULL, body = NULL, error = NULL, ended = NULL,
           answer = NULL
         WHERE key = ?1",
    )?
    .execute(params![
        key,
        CARRIED,
        entry,
        new.instance.as_ref().map(|instance| instance.as_str()),
        new.chat.as_ref().map(|chat| chat.as_str()),
        new.session,
        new.skipped,
    ])?;
    tell_last(db, new, ReceiptKey(key))?;
    Ok(CarriedReceipt::From(ReceiptKey(key)))
}

/// The entry that already carries this delivery, if there is one.
pub(in crate::sqlite) fn carried_by(db: &Connection, new: &NewReceipt) -> rusqlite::Result<Option<EntryId>> {
    let found: Option<Option<[u8; 16]>> = db
        .prepare_cached("SELECT entry FROM receipts WHERE dispatch = ?1 AND tenant = ?2 AND digest = ?3")?
        .query_row(params![new.dispatch.as_str(), new.tenant.as_str(), new.digest], |row| row.get(0))
        .optional()?;
    Ok(found.flatten().map(EntryId::from_bytes))
}

/// Makes this the receipt for later replies of the agent in that conversation that name no entry. An agent
/// that writes in a conversation of somebody else does not become their recipient, because it may not read
/// them. A program of the tenant may read everything, so it needs no check.
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
