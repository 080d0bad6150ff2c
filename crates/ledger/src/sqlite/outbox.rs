use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, EntryId, Outcome};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use crate::Fault;
use crate::outbox::{Begun, Outbox, Request};

#[async_trait]
impl Outbox for Sqlite {
    async fn begin(&self, request: Request) -> Result<Begun, Fault> {
        let timepiece = self.timepiece.clone();
        let answers = self.answered(&request).await?;
        self.write(move |db| {
            if let Some(earlier) = earlier(db, &request)? {
                return Ok(earlier);
            }
            let action = ActionId::mint(timepiece.now().millis());
            db.prepare_cached(
                "INSERT INTO actions (id, gateway, request, instance, op, platform, bot, chat, answers, received)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                action.bytes(),
                request.gateway.as_str(),
                request.request.as_str(),
                request.instance.as_str(),
                request.op,
                request.platform.as_str(),
                request.bot.as_str(),
                request.chat.as_ref().map(|chat| chat.as_str()),
                answers,
                request.received.millis(),
            ])?;
            Ok(Begun::Fresh { action, answers: answers.map(EntryId::from_bytes) })
        })
        .await
    }

    async fn finish(
        &self,
        action: &ActionId,
        outcome: &Outcome,
        posted: Option<Moment>,
    ) -> Result<(), Fault> {
        let (action, outcome, timepiece) = (action.bytes(), outcome.clone(), self.timepiece.clone());
        self.write(move |db| {
            let text = serde_json::to_string(&outcome).expect("an outcome holds only texts and flags");
            db.prepare_cached(
                "UPDATE actions SET finished = ?2, posted = ?3, success = ?4, message = ?5, error = ?6, outcome = ?7
                 WHERE id = ?1 AND finished IS NULL",
            )?
            .execute(params![
                action,
                timepiece.now().millis(),
                posted.map(Moment::millis),
                outcome.success,
                outcome.message_id.as_ref().map(|message| message.as_str()),
                outcome.error,
                text,
            ])
            .map(drop)
        })
        .await
    }
}

fn earlier(db: &Connection, request: &Request) -> rusqlite::Result<Option<Begun>> {
    db.prepare_cached("SELECT id, outcome FROM actions WHERE gateway = ?1 AND request = ?2")?
        .query_row([request.gateway.as_str(), request.request.as_str()], |row| {
            let action = ActionId::from_bytes(row.get(0)?);
            let outcome: Option<String> = row.get(1)?;
            Ok(match outcome.and_then(|text| serde_json::from_str(&text).ok()) {
                Some(outcome) => Begun::Finished { action, outcome },
                None => Begun::Unfinished { action },
            })
        })
        .optional()
}

/// How far back the answered entry is looked for. An index on chat and message would find it for ever,
/// and be written for every message that nobody answers.
const RECENT: i64 = 4_096;

impl Sqlite {
    /// The entry that an action answers: known when the action says which message it replies to and that
    /// is among the latest. Read apart from the writer, whom it would hold up.
    async fn answered(&self, request: &Request) -> Result<Option<[u8; 16]>, Fault> {
        let (Some(chat), Some(message)) = (request.chat.clone(), request.reply_to.clone()) else {
            return Ok(None);
        };
        let (instance, platform) = (request.instance.clone(), request.platform.clone());
        self.read(move |db| {
            db.prepare_cached(
                "SELECT id FROM entries
                 WHERE seq > (SELECT max(seq) FROM entries) - ?5
                   AND chat = ?1 AND message = ?2 AND instance = ?3 AND platform = ?4
                 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row(
                params![chat.as_str(), message.as_str(), instance.as_str(), platform.as_str(), RECENT],
                |row| row.get(0),
            )
            .optional()
        })
        .await
    }
}
