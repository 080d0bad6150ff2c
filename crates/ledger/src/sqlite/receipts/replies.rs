//! Replies of agents to programs; only the latest are kept.

use posthouse_time::Moment;
use posthouse_wire::{ChatId, EntryId, InstanceId, MessageId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::receipts::{NewReply, REPLIES, REPLY_BYTES, ReceiptKey, ReplyKind, StoredReply};

/// The receipt that a reply in a conversation belongs to. That is the receipt of the entry it names, if the
/// entry belongs to this agent and this conversation. Otherwise it is the current receipt of the
/// conversation.
pub(super) fn receipt_of_reply(
    db: &Connection,
    by: &InstanceId,
    chat: &ChatId,
    to: Option<&EntryId>,
) -> rusqlite::Result<Option<ReceiptKey>> {
    if let Some(entry) = to.and_then(EntryId::bytes) {
        let named = db
            .prepare_cached(
                "SELECT receipts.key FROM entries JOIN receipts ON receipts.key = entries.receipt
                 WHERE entries.id = ?1 AND entries.instance = ?2
                   AND receipts.entry = ?1 AND receipts.instance = ?2 AND receipts.chat = ?3",
            )?
            .query_row(params![entry, by.as_str(), chat.as_str()], |row| row.get(0).map(ReceiptKey))
            .optional()?;
        if named.is_some() {
            return Ok(named);
        }
    }
    db.prepare_cached(LATEST)?
        .query_row([by.as_str(), chat.as_str()], |row| row.get(0).map(ReceiptKey))
        .optional()
}

/// Stores a reply, if its receipt still exists, and deletes replies beyond the limits.
pub(super) fn keep(db: &Connection, to: ReceiptKey, reply: &NewReply) -> rusqlite::Result<()> {
    let kept = db
        .prepare_cached(
            "INSERT INTO replies (receipt, at, what, message, text, unfinished)
             SELECT key, ?2, ?3, ?4, ?5, ?6 FROM receipts WHERE key = ?1",
        )?
        .execute(params![
            to.0,
            reply.at.millis(),
            number(reply.what),
            reply.message.as_str(),
            fitting(reply),
            reply.unfinished,
        ])?;
    if kept > 0 { let_go(db, to, db.last_insert_rowid()) } else { Ok(()) }
}

/// Edits a reply, if it still exists.
pub(super) fn amend(
    db: &Connection,
    by: &InstanceId,
    chat: &ChatId,
    reply: &NewReply,
) -> rusqlite::Result<bool> {
    let said = db
        .prepare_cached(SAID)?
        .query_row([reply.message.as_str(), by.as_str(), chat.as_str()], |row| {
            Ok((row.get(0)?, row.get(1).map(ReceiptKey)?))
        })
        .optional()?;
    let Some((seq, receipt)): Option<(i64, ReceiptKey)> = said else { return Ok(false) };
    db.prepare_cached("UPDATE replies SET at = ?2, what = ?3, text = ?4, unfinished = ?5 WHERE seq = ?1")?
        .execute(params![seq, reply.at.millis(), number(reply.what), fitting(reply), reply.unfinished])?;
    let_go(db, receipt, seq)?;
    Ok(true)
}

/// A reply that an agent has begun.
pub(in crate::sqlite) struct UnfinishedReply {
    pub seq: i64,
    pub message: MessageId,
    pub text: String,
}

/// The latest reply that an agent has begun and not finished, of the receipt that its replies belong to now.
/// Text that was left unfinished before a newer message came into the conversation is not continued.
pub(in crate::sqlite) fn unfinished(
    db: &Connection,
    by: &InstanceId,
    chat: &ChatId,
    to: Option<&EntryId>,
) -> rusqlite::Result<Option<UnfinishedReply>> {
    let Some(receipt) = receipt_of_reply(db, by, chat, to)? else { return Ok(None) };
    db.prepare_cached(UNFINISHED)?
        .query_row([receipt.0], |row| {
            Ok(UnfinishedReply {
                seq: row.get(0)?,
                message: row.get::<_, String>(1)?.into(),
                text: row.get(2)?,
            })
        })
        .optional()
}

/// Makes an unfinished reply the answer.
pub(in crate::sqlite) fn answered_by(db: &Connection, unfinished: &UnfinishedReply) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE replies SET what = ?2, unfinished = 0 WHERE seq = ?1")?
        .execute([unfinished.seq, number(ReplyKind::Answer)])
        .map(drop)
}

/// The part of a text that is kept.
fn fitting(reply: &NewReply) -> &str {
    &reply.text[..reply.text.floor_char_boundary(REPLY_BYTES)]
}

/// The latest replies that fit stay, and so does the one that was just written. There is never more than one
/// too many by number, but one long reply may displace several by size.
fn let_go(db: &Connection, of: ReceiptKey, written: i64) -> rusqlite::Result<()> {
    let newest_first: Vec<(i64, u32)> = db
        .prepare_cached(
            "SELECT seq, octet_length(text) FROM replies WHERE receipt = ?1 ORDER BY seq = ?2 DESC, seq DESC",
        )?
        .query_map([of.0, written], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut bytes = 0_usize;
    let surplus = newest_first.iter().enumerate().find(|(place, (_, length))| {
        bytes += *length as usize;
        *place >= REPLIES || bytes > REPLY_BYTES
    });
    let Some((_, (newest_to_go, _))) = surplus else { return Ok(()) };
    db.prepare_cached("DELETE FROM replies WHERE receipt = ?1 AND seq <= ?2 AND seq <> ?3")?
        .execute([of.0, *newest_to_go, written])
        .map(drop)
}

pub(super) fn oldest_first(db: &Connection, to: ReceiptKey) -> rusqlite::Result<Vec<StoredReply>> {
    db.prepare_cached("SELECT at, what, message, text FROM replies WHERE receipt = ?1 ORDER BY seq")?
        .query_map([to.0], |row| {
            Ok(StoredReply {
                at: Moment::from_millis(row.get(0)?),
                what: numbered(row.get(1)?),
                message: row.get::<_, String>(2)?.into(),
                text: row.get(3)?,
            })
        })?
        .collect()
}

/// Time and kind of every reply to a receipt, without the text.
pub(in crate::sqlite) fn reply_times(
    db: &Connection,
    to: ReceiptKey,
) -> rusqlite::Result<Vec<(ReplyKind, Moment)>> {
    db.prepare_cached("SELECT what, at FROM replies WHERE receipt = ?1 ORDER BY seq")?
        .query_map([to.0], |row| Ok((numbered(row.get(0)?), Moment::from_millis(row.get(1)?))))?
        .collect()
}

/// The index is by receipt, so the unfinished replies of other agents do not slow it down.
const UNFINISHED: &str = "SELECT seq, message, text FROM replies INDEXED BY replies_unfinished
    WHERE receipt = ?1 AND unfinished = 1 ORDER BY seq DESC LIMIT 1";

const LATEST: &str = "SELECT receipts.key FROM talks JOIN receipts ON receipts.key = talks.receipt
    WHERE talks.instance = ?1 AND talks.chat = ?2";

/// Agents choose the message ids of their edits themselves, so the author has to be checked.
const SAID: &str = "SELECT replies.seq, replies.receipt
    FROM replies INDEXED BY replies_message JOIN receipts ON receipts.key = replies.receipt
    WHERE replies.message = ?1 AND receipts.instance = ?2 AND receipts.chat = ?3
    ORDER BY replies.seq DESC LIMIT 1";

fn number(of: ReplyKind) -> i64 {
    match of {
        ReplyKind::Said => 0,
        ReplyKind::Answer => 1,
        ReplyKind::Duplicate => 2,
        ReplyKind::LateReply => 3,
    }
}

fn numbered(number: i64) -> ReplyKind {
    match number {
        1 => ReplyKind::Answer,
        2 => ReplyKind::Duplicate,
        3 => ReplyKind::LateReply,
        _ => ReplyKind::Said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unfinished_is_sought_in_one_receipt() {
        let plan = crate::sqlite::receipts::plan(UNFINISHED);
        assert_eq!(plan, "SEARCH replies USING INDEX replies_unfinished (receipt=?)");
    }

    #[test]
    fn what_was_said_is_found_by_its_message_id_the_latest_first() {
        let plan = crate::sqlite::receipts::plan(SAID);
        assert!(plan.starts_with("SEARCH replies USING INDEX replies_message (message=?)"), "{plan}");
        assert!(plan.contains("SEARCH receipts USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
