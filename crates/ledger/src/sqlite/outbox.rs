//! SQL of the outbox: requests of agents and their results.

use std::sync::Arc;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, EntryId, GatewayId, InstanceId, Outcome, RequestId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use crate::Fault;
use crate::outbox::{BeginOutcome, Outbox, Request};

#[async_trait]
impl Outbox for Sqlite {
    async fn begin(&self, request: Request) -> Result<BeginOutcome, Fault> {
        let (timepiece, usage) = (self.timepiece.clone(), Arc::clone(&self.usage));
        let answers = self.answered(&request).await?;
        self.write_for(self.tenant_of(&request.instance), move |db| {
            if let Some(earlier) = earlier(db, &request.gateway, &request.request)? {
                return Ok(earlier);
            }
            let action = ActionId::mint(timepiece.now().millis());
            db.prepare_cached(
                "INSERT INTO actions
                   (id, gateway, request, instance, op, platform, bot, chat, answers, received, counted)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ledger_time())",
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
            usage.action(request.instance.as_str());
            Ok(BeginOutcome::Fresh { action, answers: answers.map(EntryId::from_bytes) })
        })
        .await
    }

    async fn begun_before(
        &self,
        gateway: &GatewayId,
        request: &RequestId,
    ) -> Result<Option<BeginOutcome>, Fault> {
        let (gateway, request) = (gateway.clone(), request.clone());
        self.read(move |db| earlier(db, &gateway, &request)).await
    }

    async fn finish(
        &self,
        of: &InstanceId,
        action: &ActionId,
        outcome: &Outcome,
        posted: Option<Moment>,
        called: Option<&str>,
    ) -> Result<(), Fault> {
        let (action, outcome, timepiece) = (action.bytes(), outcome.clone(), self.timepiece.clone());
        let called = called.map(str::to_owned);
        self.write_for(self.tenant_of(of), move |db| {
            let text = serde_json::to_string(&outcome).expect("an outcome has only strings and flags");
            db.prepare_cached(
                "UPDATE actions SET finished = ?2, posted = ?3, success = ?4, message = ?5, error = ?6, outcome = ?7, called = ?8,
                   counted = ledger_time()
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
                called,
            ])
            .map(drop)
        })
        .await
    }
}

fn earlier(
    db: &Connection,
    gateway: &GatewayId,
    request: &RequestId,
) -> rusqlite::Result<Option<BeginOutcome>> {
    db.prepare_cached("SELECT id, outcome FROM actions WHERE gateway = ?1 AND request = ?2")?
        .query_row([gateway.as_str(), request.as_str()], |row| {
            let action = ActionId::from_bytes(row.get(0)?);
            let outcome: Option<String> = row.get(1)?;
            Ok(match outcome.and_then(|text| serde_json::from_str(&text).ok()) {
                Some(outcome) => BeginOutcome::Finished { action, outcome },
                None => BeginOutcome::Unfinished { action },
            })
        })
        .optional()
}

/// Number of latest entries that are searched for the answered one. An index on chat and message would find
/// every entry, but it would be written for every message that nobody answers.
const RECENT: i64 = 4_096;

impl Sqlite {
    /// The entry that an action answers. It is known if the action names the message it replies to and that
    /// message is among the latest. A reader finds it, because the search would delay the writer.
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
