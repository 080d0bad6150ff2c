//! What agents said back, the latest of it.

use posthouse_time::Moment;
use posthouse_wire::{ChatId, EntryId, InstanceId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::receipts::{NewReply, REPLIES, REPLY_BYTES, ReceiptKey, Reply, ReplyKind};

/// The receipt that words in a conversation belong to: of the entry they name, if it is one of this agent
/// and this conversation, and otherwise of what it was told last there.
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
    let text = &reply.text[..reply.text.floor_char_boundary(REPLY_BYTES)];
    let kept = db
        .prepare_cached(
            "INSERT INTO replies (receipt, at, what, message, text)
             SELECT key, ?2, ?3, ?4, ?5 FROM receipts WHERE key = ?1",
        )?
        .execute(params![to.0, reply.at.millis(), number(reply.what), reply.message.as_str(), text])?;
    if kept > 0 { let_go(db, to) } else { Ok(()) }
}

/// The latest that fit stay. There is never more than one too many, but one long reply may take the place
/// of several.
fn let_go(db: &Connection, of: ReceiptKey) -> rusqlite::Result<()> {
    let newest_first: Vec<(i64, u32)> = db
        .prepare_cached("SELECT seq, octet_length(text) FROM replies WHERE receipt = ?1 ORDER BY seq DESC")?
        .query_map([of.0], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut bytes = 0_usize;
    let surplus = newest_first.iter().enumerate().find(|(place, (_, length))| {
        bytes += *length as usize;
        *place >= REPLIES || bytes > REPLY_BYTES
    });
    let Some((_, (newest_to_go, _))) = surplus else { return Ok(()) };
    db.prepare_cached("DELETE FROM replies WHERE receipt = ?1 AND seq <= ?2")?
        .execute([of.0, *newest_to_go])
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

const LATEST: &str = "SELECT receipts.key FROM talks JOIN receipts ON receipts.key = talks.receipt
    WHERE talks.instance = ?1 AND talks.chat = ?2";

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
