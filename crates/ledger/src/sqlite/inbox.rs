//! SQL of inboxes: entries, from their append to their end.

pub(super) mod counts;
mod dead_letters;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use posthouse_time::Moment;
use posthouse_wire::{BotId, DedupKey, EntryId, InstanceId, Platform};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::ledger_time::LedgerTime;
use super::receipts::{self, CarriedReceipt};
use super::{Sqlite, staleness};
use crate::inbox::{
    Acknowledgement, Append, Appended, DeadLetter, DeadLetterFilter, Entry, FailedDelivery, Inbox,
    LimitReached, Seq, Sighting, Unread,
};
use crate::roster::BotRef;
use crate::{EntryTurn, Fault};

#[async_trait]
impl Inbox for Sqlite {
    async fn append(&self, append: Append) -> Result<Appended, Fault> {
        let (timepiece, clock) = (self.timepiece.clone(), self.clock.clone());
        let (counts, usage) = (Arc::clone(&self.inbox_counts), Arc::clone(&self.usage));
        let follower = self.follower.get().cloned();
        let (instance, event, forward) = (append.to.clone(), append.event.clone(), append.forward.clone());
        let (chat, references) = (append.chat.clone(), append.references.clone());
        let (album, turn) = (append.album.clone(), append.turn.clone());
        let stale = staleness::of_new(append.stale, &timepiece);
        let (appended, _) = self
            .write_then(
                self.tenant_of(&instance),
                move |db| store(db, &append, (timepiece.now(), clock.now()), &counts, &usage),
                move |(appended, seq)| {
                    if let (Appended::Kept(id), Some(seq), Some(hear)) = (appended, seq, follower) {
                        hear(Entry {
                            id: id.clone(),
                            seq: *seq,
                            instance,
                            chat,
                            event,
                            forward,
                            references,
                            album,
                            stale,
                            turn,
                        });
                    }
                },
            )
            .await?;
        Ok(appended)
    }

    async fn known(&self, on: &BotRef, dedup: &DedupKey) -> Result<Option<EntryId>, Fault> {
        let (on, dedup) = (on.clone(), dedup.clone());
        self.read(move |db| known(db, &on.platform, &on.bot, &dedup).optional()).await
    }

    async fn unread(&self, of: &InstanceId, after: Seq, at_most: u16) -> Result<Vec<Entry>, Fault> {
        let (of, now) = (of.clone(), self.timepiece.instant());
        self.read(move |db| {
            db.prepare_cached(
                "SELECT seq, id, refs, chat, event, album, forward, stale_at - counted, stale_at - ledger_time(),
                   stale_action
                 FROM entries
                 WHERE instance = ?1 AND seq > ?2 AND fate IS NULL ORDER BY seq LIMIT ?3",
            )?
            .query_map(params![of.as_str(), after.0, at_most], |row| {
                let event = row.get_ref(4)?.as_blob()?;
                Ok(Entry {
                    seq: Seq(row.get(0)?),
                    id: EntryId::from_bytes(row.get(1)?),
                    instance: of.clone(),
                    references: unlisted(row.get(2)?),
                    chat: row.get::<_, String>(3)?.into(),
                    event: Bytes::copy_from_slice(event),
                    album: row.get(5)?,
                    forward: row.get::<_, Option<Vec<u8>>>(6)?.map(Bytes::from),
                    stale: staleness::of_row(row, 7, now)?,
                    turn: EntryTurn::of_stored(event),
                })
            })?
            .collect()
        })
        .await
    }

    async fn size(&self, of: &InstanceId) -> Result<Unread, Fault> {
        Ok(self.inbox_counts.unread(of.as_str()))
    }

    async fn acknowledged_at(&self, entry: &EntryId) -> Result<Option<Moment>, Fault> {
        let Some(id) = entry.bytes() else { return Ok(None) };
        self.read(move |db| {
            db.prepare_cached("SELECT ended FROM entries WHERE id = ?1 AND fate = 'acknowledged'")?
                .query_row([id], |row| row.get(0).map(Moment::from_millis))
                .optional()
        })
        .await
    }

    async fn backlogs(&self) -> Result<Vec<(InstanceId, Unread)>, Fault> {
        self.read(|db| {
            db.prepare_cached(
                "SELECT instance, count(*), sum(size) FROM entries WHERE fate IS NULL GROUP BY instance",
            )?
            .query_map([], |row| Ok((InstanceId::from(row.get::<_, String>(0)?), unread(row, 1)?)))?
            .collect()
        })
        .await
    }

    async fn acknowledge(
        &self,
        of: &InstanceId,
        acknowledged: Vec<Acknowledgement>,
    ) -> Result<Unread, Fault> {
        let (owner, timepiece) = (self.tenant_of(of), self.timepiece.clone());
        let of = of.clone();
        let (counts, usage) = (Arc::clone(&self.inbox_counts), Arc::clone(&self.usage));
        self.write_for(owner, move |db| {
            let now = timepiece.now();
            let mut gone = Unread::default();
            let mut forget = db.prepare_cached(
                "UPDATE entries SET fate='acknowledged',event=NULL,refs=NULL,forward=NULL,handed=?3,ended=?4 \
                 WHERE seq=?1 AND id=?2 AND fate IS NULL",
            )?;
            for Acknowledgement { entry, handed, place } in &acknowledged {
                let Some(id) = entry.bytes() else { continue };
                // The position is nearly always known. If not, a separate query finds it, because RETURNING takes half as
                // long again.
                let found = match place {
                    Some((seq, size)) => Some((seq.0, *size)),
                    None => db
                        .prepare_cached("SELECT seq, size FROM entries WHERE id = ?1 AND instance = ?2")?
                        .query_row(params![id, of.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                        .optional()?,
                };
                let Some((seq, size)) = found else { continue };
                if forget.execute(params![seq, id, handed.millis(), now.millis()])? > 0 {
                    counts.acknowledged(db, of.as_str(), seq, size)?;
                    usage.entry(of.as_str(), -1, size);
                    gone.entries += 1;
                    gone.bytes += size;
                }
            }
            Ok(gone)
        })
        .await
    }

    async fn record_failed_delivery(
        &self,
        of: &InstanceId,
        entry: &EntryId,
        failure: FailedDelivery,
    ) -> Result<bool, Fault> {
        let (owner, timepiece) = (self.tenant_of(of), self.timepiece.clone());
        let (of, entry) = (of.clone(), entry.clone());
        self.write_for(owner, move |db| {
            dead_letters::record_failure(db, &of, &entry, failure, timepiece.now())
        })
        .await
    }

    async fn recall(&self, of: &InstanceId, entry: &EntryId) -> Result<Unread, Fault> {
        let Some(id) = entry.bytes() else { return Ok(Unread::default()) };
        let (owner, timepiece) = (self.tenant_of(of), self.timepiece.clone());
        let of = of.clone();
        self.write_for(owner, move |db| {
            let found = db
                .prepare_cached(
                    "SELECT seq, size FROM entries WHERE id = ?1 AND instance = ?2 AND fate IS NULL",
                )?
                .query_row(params![id, of.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((seq, bytes)): Option<(i64, i64)> = found else { return Ok(Unread::default()) };
            db.prepare_cached(DROP)?.execute(params![seq, timepiece.now().millis()])?;
            Ok(Unread { entries: 1, bytes })
        })
        .await
    }

    async fn dead_letters(&self, filter: DeadLetterFilter, at_most: u32) -> Result<Vec<DeadLetter>, Fault> {
        self.read(move |db| dead_letters::list(db, &filter, at_most)).await
    }

    async fn redrive(&self, entry: &EntryId) -> Result<Option<InstanceId>, Fault> {
        let entry = entry.clone();
        self.write(move |db| dead_letters::redrive(db, &entry)).await
    }

    fn follow(&self, hear: Arc<dyn Fn(Entry) + Send + Sync>) {
        // One relay follows one ledger; a second one would deliver everything twice.
        if self.follower.set(hear).is_err() {
            tracing::error!("ignored a second callback for committed entries");
        }
    }
}

/// Stores an entry with everything that belongs to it, unless it is a repeat or there is no room for it.
fn store(
    db: &Connection,
    append: &Append,
    now: (Moment, LedgerTime),
    counts: &counts::InboxCounts,
    usage: &super::usage::UsageSums,
) -> rusqlite::Result<(Appended, Option<Seq>)> {
    let sender = append.sender.as_ref().map(counts::sender);
    let full = match usage.has_room_for(append.to.as_str()) {
        true => counts.refusal(db, append, sender.as_deref())?,
        false => Some(LimitReached::Tenant),
    };
    if let Some(full) = full {
        // A repeat needs no room.
        let appended = match known_before(db, append)? {
            Some(first) => Appended::Known(first),
            None => Appended::Refused(full),
        };
        return Ok((appended, None));
    }
    let id = append.id.clone().unwrap_or_else(|| EntryId::mint(now.0.millis()));
    let bytes = id.bytes().expect("a minted id always has bytes");
    let receipt = match &append.receipt {
        None => None,
        Some(new) => match receipts::carry(db, new, bytes)? {
            CarriedReceipt::From(receipt) => Some(receipt.0),
            CarriedReceipt::Known(first) => return Ok((Appended::Known(first), None)),
        },
    };
    let Some(seq) = insert(db, append, sender.as_deref(), bytes, receipt, now)? else {
        let first = known(db, &append.platform, &append.bot, &append.dedup)?;
        return Ok((Appended::Known(first), None));
    };
    counts.appended(append, sender.as_deref());
    usage.entry(append.to.as_str(), 1, append.size());
    if let Some(sighting) = &append.sighting {
        sight(db, append, sighting)?;
    }
    Ok((Appended::Kept(id), Some(seq)))
}

/// Inserts the row of an entry. `None` if its dedup key is already known.
fn insert(
    db: &Connection,
    append: &Append,
    sender: Option<&str>,
    id: [u8; 16],
    receipt: Option<i64>,
    (now, counted): (Moment, LedgerTime),
) -> rusqlite::Result<Option<Seq>> {
    // A receipt recognises repeats itself, and for longer.
    let dedup = receipt.is_none().then(|| append.dedup.as_str());
    let (stale_after, stale_action) = staleness::entry_columns(append.stale);
    let is_plain = receipt.is_none()
        && append.references.is_empty()
        && append.album.is_none()
        && append.forward.is_none()
        && stale_action.is_none();
    // This runs for every message. So times are bound, because a call of `ledger_time()` costs more. The SQL text has no
    // unneeded blanks, because it is hashed each time. The columns that most messages leave empty are not bound for them.
    let (id, to, event) = (&id, append.to.as_str(), &append.event[..]);
    let (platform, bot, chat) = (append.platform.as_str(), append.bot.as_str(), append.chat.as_str());
    let message = append.message.as_ref().map(|message| message.as_str());
    let (size, accepted) = (append.size(), append.accepted.millis());
    let (counted, durable) = (counted.millis(), now.millis());
    let kept = if is_plain {
        db.prepare_cached(
            "INSERT INTO entries(id,instance,platform,bot,chat,message,dedup,event,size,accepted,counted,durable,\
             sender)VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            id, to, platform, bot, chat, message, dedup, event, size, accepted, counted, durable, sender,
        ])?
    } else {
        db.prepare_cached(
            "INSERT INTO entries(id,instance,platform,bot,chat,message,dedup,event,size,accepted,counted,durable,\
             sender,refs,receipt,album,forward,stale_at,stale_action)\
             VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            id,
            to,
            platform,
            bot,
            chat,
            message,
            dedup,
            event,
            size,
            accepted,
            counted,
            durable,
            sender,
            listed(&append.references),
            receipt,
            append.album,
            append.forward.as_deref(),
            stale_after.map(|after| counted + after),
            stale_action,
        ])?
    };
    Ok((kept > 0).then(|| Seq(db.last_insert_rowid())))
}

/// The row stays, with the fate `dropped`.
const DROP: &str =
    "UPDATE entries SET fate = 'dropped', event = NULL, refs = NULL, forward = NULL, ended = ?2,
    counted = ledger_time() WHERE seq = ?1";

fn unread(row: &Row<'_>, at: usize) -> rusqlite::Result<Unread> {
    Ok(Unread { entries: row.get(at)?, bytes: row.get(at + 1)? })
}

fn known(db: &Connection, platform: &Platform, bot: &BotId, dedup: &DedupKey) -> rusqlite::Result<EntryId> {
    db.prepare_cached("SELECT id FROM entries WHERE dedup = ?1 AND bot = ?2 AND platform = ?3")?
        .query_row([dedup.as_str(), bot.as_str(), platform.as_str()], |row| {
            row.get(0).map(EntryId::from_bytes)
        })
}

/// The entry of an earlier append with the same key or for the same delivery.
fn known_before(db: &Connection, append: &Append) -> rusqlite::Result<Option<EntryId>> {
    match &append.receipt {
        Some(new) => receipts::carried_by(db, new),
        None => known(db, &append.platform, &append.bot, &append.dedup).optional(),
    }
}

/// Most events have no attachments. None is stored then.
fn listed(references: &[String]) -> Option<String> {
    (!references.is_empty()).then(|| serde_json::json!(references).to_string())
}

/// An unreadable list loses the attachments, but not the text that came with them.
fn unlisted(refs: Option<String>) -> Vec<String> {
    refs.and_then(|refs| serde_json::from_str(&refs).ok()).unwrap_or_default()
}

fn sight(db: &Connection, append: &Append, sighting: &Sighting) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO chats (instance, chat, platform, bot, scope, seen) VALUES (?1, ?2, ?3, ?4, ?5, ledger_time())
         ON CONFLICT DO UPDATE SET scope = excluded.scope, seen = max(seen, excluded.seen)",
    )?
    .execute(params![
        append.to.as_str(),
        append.chat.as_str(),
        append.platform.as_str(),
        append.bot.as_str(),
        sighting.scope.as_ref().map(|scope| scope.as_str()),
    ])?;
    let mut remember = db.prepare_cached(
        "INSERT INTO sessions (instance, session_key, platform, bot, chat, seen)
         VALUES (?1, ?2, ?3, ?4, ?5, ledger_time())
         ON CONFLICT DO UPDATE SET platform = excluded.platform, bot = excluded.bot, chat = excluded.chat,
           seen = max(seen, excluded.seen)",
    )?;
    for key in &sighting.session_keys {
        remember.execute(params![
            append.to.as_str(),
            key.as_str(),
            append.platform.as_str(),
            append.bot.as_str(),
            append.chat.as_str(),
        ])?;
    }
    Ok(())
}
