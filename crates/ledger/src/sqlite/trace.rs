//! SQL of traces: timelines of entries, actions and deliveries.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::delivery::DeliveryFailed;
use posthouse_wire::{ActionId, ChatId, DispatchId, EntryId, InstanceId, MessageId, Platform};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::{Sqlite, receipts};
use crate::Fault;
use crate::receipts::{Receipt, ReceiptKey, ReceiptState};
use crate::trace::{MessageTimeline, TenantDispatch, TraceStep, Traces};

const ENTRY: &str =
    "SELECT id, instance, platform, bot, chat, message, accepted, durable, handed, ended, fate, receipt,
                            marked_late
                     FROM entries";
const ACTION: &str =
    "SELECT id, instance, platform, bot, chat, message, op, answers, received, posted, finished,
                             success, error FROM actions";

#[async_trait]
impl Traces for Sqlite {
    async fn entry(&self, id: &EntryId) -> Result<Option<MessageTimeline>, Fault> {
        let Some(id) = id.bytes() else { return Ok(None) };
        self.read(move |db| entry_where(db, "id = ?1", &[&id])).await.map(first)
    }

    async fn action(&self, id: &ActionId) -> Result<Option<MessageTimeline>, Fault> {
        let Some(id) = id.bytes() else { return Ok(None) };
        self.read(move |db| action_where(db, "id = ?1", &[&id])).await.map(first)
    }

    async fn dispatch(&self, id: &DispatchId) -> Result<Vec<MessageTimeline>, Fault> {
        let id = id.clone();
        self.read(move |db| {
            let mut stories = Vec::new();
            for receipt in receipts::of_dispatch(db, None, None, &id, 20)? {
                let entry = receipt.entry.as_ref().and_then(EntryId::bytes);
                let traced = entry.map(|entry| entry_where(db, "id = ?1", &[&entry])).transpose()?;
                match traced.and_then(first) {
                    Some(story) => stories.push(story),
                    None => stories.push(delivery(db, receipt)?),
                }
            }
            Ok(stories)
        })
        .await
    }

    async fn message(
        &self,
        platform: &Platform,
        chat: &ChatId,
        message: &MessageId,
    ) -> Result<Vec<MessageTimeline>, Fault> {
        let (platform, chat, message) = (platform.clone(), chat.clone(), message.clone());
        self.read(move |db| {
            let wanted: [&dyn ToSql; 3] = [&chat.as_str(), &message.as_str(), &platform.as_str()];
            let mut stories = entry_where(db, "chat = ?1 AND message = ?2 AND platform = ?3", &wanted)?;
            stories.extend(action_where(db, "chat = ?1 AND message = ?2 AND platform = ?3", &wanted)?);
            Ok(stories)
        })
        .await
    }
}

fn first(stories: Vec<MessageTimeline>) -> Option<MessageTimeline> {
    stories.into_iter().next()
}

fn entry_where(
    db: &Connection,
    condition: &str,
    wanted: &[&dyn ToSql],
) -> rusqlite::Result<Vec<MessageTimeline>> {
    db.prepare(&format!("{ENTRY} WHERE {condition} LIMIT 20"))?
        .query_map(wanted, |row| {
            let id: [u8; 16] = row.get(0)?;
            let fate: Option<String> = row.get(10)?;
            let mut steps = Vec::new();
            step(&mut steps, "accepted", row.get(6)?, None);
            step(&mut steps, "durable", row.get(7)?, None);
            step(&mut steps, "sent to agent", row.get(8)?, None);
            let ending = match fate.as_deref() {
                Some("dead") => "dead letter",
                Some("dropped" | "unrouted") => "dropped",
                Some("stale") => "expired",
                _ => "acknowledged",
            };
            let why = match fate.as_deref() {
                Some("unrouted") => Some("its route was removed".to_owned()),
                Some("stale") => Some("it waited too long for its agent".to_owned()),
                _ => None,
            };
            step(&mut steps, "marked as late", row.get(12)?, None);
            step(&mut steps, ending, row.get(9)?, why);
            let answers = answers_to(db, id)?;
            for (action, at) in &answers {
                step(&mut steps, "answered", Some(*at), Some(action.to_string()));
            }
            let sent = row.get::<_, Option<i64>>(11)?.map(|receipt| emission(db, receipt, id)).transpose()?;
            let (dispatch, emitted) = match sent.flatten() {
                Some((receipt, dispatch, emitted)) => {
                    steps.extend(replies(db, receipt)?);
                    (Some(dispatch), Some(emitted))
                }
                None => (None, None),
            };
            steps.sort_by_key(|step| step.at);
            // This step is always first, because its time comes from another clock.
            steps.splice(0..0, emitted);
            Ok(MessageTimeline {
                id: EntryId::from_bytes(id).to_string(),
                what: "inbound".to_owned(),
                linked: answers.into_iter().map(|(action, _)| action.to_string()).collect(),
                dispatch,
                steps,
                ..about(row)?
            })
        })?
        .collect()
}

fn action_where(
    db: &Connection,
    condition: &str,
    wanted: &[&dyn ToSql],
) -> rusqlite::Result<Vec<MessageTimeline>> {
    db.prepare(&format!("{ACTION} WHERE {condition} LIMIT 20"))?
        .query_map(wanted, |row| {
            let success: Option<bool> = row.get(11)?;
            let mut steps = Vec::new();
            step(&mut steps, "accepted", row.get(8)?, None);
            step(&mut steps, "posted", row.get(9)?, None);
            step(
                &mut steps,
                if success == Some(true) { "done" } else { "failed" },
                row.get(10)?,
                row.get(12)?,
            );
            let answers: Option<[u8; 16]> = row.get(7)?;
            Ok(MessageTimeline {
                id: ActionId::from_bytes(row.get(0)?).to_string(),
                what: row.get(6)?,
                linked: answers.map(|entry| EntryId::from_bytes(entry).to_string()).into_iter().collect(),
                steps,
                ..about(row)?
            })
        })?
        .collect()
}

/// The columns that both kinds of row have in the same position.
fn about(row: &Row<'_>) -> rusqlite::Result<MessageTimeline> {
    Ok(MessageTimeline {
        id: String::new(),
        instance: InstanceId::from(row.get::<_, String>(1)?),
        platform: Platform::from(row.get::<_, String>(2)?),
        bot: row.get(3)?,
        chat: row.get::<_, Option<String>>(4)?.map(ChatId::from),
        message: row.get::<_, Option<String>>(5)?.map(MessageId::from),
        what: String::new(),
        linked: Vec::new(),
        dispatch: None,
        steps: Vec::new(),
    })
}

/// The receipt and the dispatch of an entry, and the step of its emission.
fn emission(
    db: &Connection,
    receipt: i64,
    entry: [u8; 16],
) -> rusqlite::Result<Option<(ReceiptKey, TenantDispatch, TraceStep)>> {
    db.prepare_cached("SELECT tenant, dispatch, sent FROM receipts WHERE key = ?1 AND entry = ?2")?
        .query_row(params![receipt, entry], |row| {
            let dispatch = TenantDispatch {
                tenant: row.get::<_, String>(0)?.into(),
                id: row.get::<_, String>(1)?.into(),
            };
            let emitted = emitted(&dispatch.id, Moment::from_millis(row.get(2)?));
            Ok((ReceiptKey(receipt), dispatch, emitted))
        })
        .optional()
}

fn emitted(dispatch: &DispatchId, at: Moment) -> TraceStep {
    TraceStep { what: "emitted", at, note: Some(format!("dispatch {dispatch}")) }
}

/// A delivery by a connector, or one whose entry is deleted.
fn delivery(db: &Connection, of: Receipt) -> rusqlite::Result<MessageTimeline> {
    let ended = receipts::ended(db, of.key)?.map(Moment::millis);
    let mut steps = vec![emitted(&of.dispatch, of.sent_at)];
    step(&mut steps, "accepted", Some(of.accepted_at.millis()), None);
    step(&mut steps, "delivered", of.delivered_at.map(Moment::millis), None);
    match of.state {
        ReceiptState::Acknowledged => step(&mut steps, "acknowledged", ended, None),
        ReceiptState::Failed => step(&mut steps, "failed", ended, why(&of)),
        ReceiptState::Expired => step(&mut steps, "dropped", ended, why(&of)),
        ReceiptState::Scheduled | ReceiptState::Queued | ReceiptState::Delivered => {}
    }
    steps.extend(replies(db, of.key)?);
    // All but the emission, whose time comes from another clock.
    steps[1..].sort_by_key(|step| step.at);
    Ok(MessageTimeline {
        id: of.entry.map_or_else(|| of.dispatch.to_string(), |entry| entry.to_string()),
        instance: of.instance.unwrap_or_else(|| InstanceId::new("")),
        platform: Platform::from(of.connector),
        bot: of.agent,
        chat: of.chat,
        message: None,
        what: of.verb.word().to_owned(),
        linked: Vec::new(),
        dispatch: Some(TenantDispatch { tenant: of.tenant, id: of.dispatch }),
        steps,
    })
}

/// The kept replies of the agent: their kinds, without any text.
fn replies(db: &Connection, to: ReceiptKey) -> rusqlite::Result<Vec<TraceStep>> {
    let replies = receipts::reply_times(db, to)?;
    Ok(replies.into_iter().map(|(what, at)| TraceStep { what: what.word(), at, note: None }).collect())
}

/// The reason for the end of a delivery. Most failures are stored as the contract's error.
fn why(of: &Receipt) -> Option<String> {
    let kept = of.error.as_deref()?;
    let reason = match serde_json::from_str::<DeliveryFailed>(kept) {
        Ok(failed) => format!("{}: {}", failed.cause_kind.word(), failed.message),
        Err(_) => kept.to_owned(),
    };
    Some(match of.attempts {
        0 => reason,
        1 => format!("{reason}, after 1 attempt"),
        attempts => format!("{reason}, after {attempts} attempts"),
    })
}

fn step(steps: &mut Vec<TraceStep>, what: &'static str, at: Option<i64>, note: Option<String>) {
    if let Some(at) = at {
        steps.push(TraceStep { what, at: Moment::from_millis(at), note });
    }
}

fn answers_to(db: &Connection, entry: [u8; 16]) -> rusqlite::Result<Vec<(ActionId, i64)>> {
    db.prepare_cached(
        "SELECT id, finished FROM actions WHERE answers = ?1 AND success = 1 ORDER BY finished LIMIT 20",
    )?
    .query_map([entry], |row| Ok((ActionId::from_bytes(row.get(0)?), row.get(1)?)))?
    .collect()
}
