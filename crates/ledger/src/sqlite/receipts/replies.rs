//! What agents said back, the latest of it.

use posthouse_time::Moment;
use posthouse_wire::{ChatId, EntryId, InstanceId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::receipts::{NewReply, REPLIES, REPLY_BYTES, ReceiptKey, Reply, ReplyKind};

/// The receipt that words in a conversation belong to: of the entry they name, if it is one of this agent
/// and this conversation, and otherwise the one that the conversation is left to.
pub(super) fn spoken_of(
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

/// Keeps a reply, if its receipt is still there, and lets go of what is then too much.
pub(super) fn keep(db: &Connection, to: ReceiptKey, reply: &NewReply) -> rusqlite::Result<()> {
    let kept = db
        .prepare_cached(
            "INSERT INTO replies (receipt, at, what, message, text)
             SELECT key, ?2, ?3, ?4, ?5 FROM receipts WHERE key = ?1",
        )?
        .execute(params![
            to.0,
            reply.at.millis(),
            number(reply.what),
            reply.message.as_str(),
            fitting(reply)
        ])?;
    if kept > 0 { let_go(db, to, db.last_insert_rowid()) } else { Ok(()) }
}

/// Has a reply read otherwise, if it is still there.
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
    db.prepare_cached("UPDATE replies SET at = ?2, what = ?3, text = ?4 WHERE seq = ?1")?
        .execute(params![seq, reply.at.millis(), number(reply.what), fitting(reply)])?;
    let_go(db, receipt, seq)?;
    Ok(true)
}

/// As much of a text as is kept.
fn fitting(reply: &NewReply) -> &str {
    &reply.text[..reply.text.floor_char_boundary(REPLY_BYTES)]
}

/// The latest that fit stay, beside the one that was just written. There is never more than one too many, but
/// one long reply may take the place of several.
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

pub(super) fn oldest_first(db: &Connection, to: ReceiptKey) -> rusqlite::Result<Vec<Reply>> {
    db.prepare_cached("SELECT at, what, message, text FROM replies WHERE receipt = ?1 ORDER BY seq")?
        .query_map([to.0], |row| {
            Ok(Reply {
                at: Moment::from_millis(row.get(0)?),
                what: numbered(row.get(1)?),
                message: row.get::<_, String>(2)?.into(),
                text: row.get(3)?,
            })
        })?
        .collect()
}

/// When something was said to a receipt, and what it was, without the words.
pub(in crate::sqlite) fn told(db: &Connection, to: ReceiptKey) -> rusqlite::Result<Vec<(ReplyKind, Moment)>> {
    db.prepare_cached("SELECT what, at FROM replies WHERE receipt = ?1 ORDER BY seq")?
        .query_map([to.0], |row| Ok((numbered(row.get(0)?), Moment::from_millis(row.get(1)?))))?
        .collect()
}

const LATEST: &str = "SELECT receipts.key FROM talks JOIN receipts ON receipts.key = talks.receipt
    WHERE talks.instance = ?1 AND talks.chat = ?2";

/// Ids of messages are the agents' own to name in an edit, so whose it was has to be asked.
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
    fn what_was_said_is_found_by_its_message_id_the_latest_first() {
        let plan = crate::sqlite::receipts::plan(SAID);
        assert!(plan.starts_with("SEARCH replies USING INDEX replies_message (message=?)"), "{plan}");
        assert!(plan.contains("SEARCH receipts USING INTEGER PRIMARY KEY (rowid=?)"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
