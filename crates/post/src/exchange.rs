//! Questions to agents (exchanges): put a question, wait for its answer, attach to it again.

use std::time::Duration;

use ledger::{AskResult, Exchange, ExchangeState, NewExchange, ReceiptKey};
use posthouse_time::Moment;
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::{
    Cause, DeliveryFailed, DeliveryReceipt, Payload, PayloadKind, Response, is_dispatch_id,
};

use crate::connector::{AgentConnector, Question, Replied, Undone};
use crate::conversation::{self, LONGEST_TEXT};
use crate::directory::{DeliveryPath, PathKind};
use crate::dispatch::Promise;
use crate::fault::STORAGE_FULL;
use crate::item::{Item, Sending, digest};
use crate::requests::{Ask, Exchanged, LONGEST_TIMEOUT, LONGEST_WAIT, Questions};
use crate::{Caller, Fault, Post, Refused};

/// The default lifetime of a question.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Questions on one page.
const PAGE: u32 = 50;
const LONGEST_PAGE: u32 = 200;

/// The state of a question before it is sent. Items that are not questions are always `Still`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Open, so sending is still useful.
    Still,
    Answered(Moment),
    /// Its deadline has passed, or it failed.
    Over,
}

impl Post {
    /// Puts a question, or attaches to the same one put earlier, and waits for its answer.
    pub async fn exchange(&self, by: &Caller, request: Ask) -> Result<Exchanged, Refused> {
        let timeout = request.timeout.unwrap_or(TIMEOUT).min(LONGEST_TIMEOUT);
        let wait = request.wait.unwrap_or(timeout).min(LONGEST_WAIT);
        let correlation = self.put_question(by, request, timeout).await?;
        self.attach(by, &correlation, wait).await
    }

    /// The state of a question, after waiting at most `wait` for its answer.
    pub async fn attach(
        &self,
        by: &Caller,
        correlation: &CorrelationId,
        wait: Duration,
    ) -> Result<Exchanged, Refused> {
        let correlation = &self.recorded_id(by, correlation).await?;
        let until = self.0.timepiece.instant() + wait.min(LONGEST_WAIT);
        let mut place = self.0.waiting.place(&by.tenant, correlation);
        loop {
            // Taken before the record is read, so that the deadline computed from `left` is never too late.
            let asked = self.0.timepiece.instant();
            let known = self.0.exchanges.exchange(&by.tenant, correlation).await?;
            let Some(exchange) = known.filter(|exchange| by.may_attach(exchange)) else {
                return Err(Refused::Absent);
            };
            if exchange.state == ExchangeState::Open && exchange.left.is_zero() {
                // The timeout is recorded before it is reported. An answer that is being stored at this moment
                // comes either before the timeout or late, and no caller sees both results.
                self.end_due().await?;
                continue;
            }
            match standing(&exchange)? {
                Some(Exchanged::Answered(mut response)) => {
                    response.correlation_id = shown_id(by, &response.correlation_id);
                    return Ok(Exchanged::Answered(response));
                }
                Some(ended) => return Ok(ended),
                None if self.0.timepiece.instant() >= until => {
                    return Ok(open(by, &exchange));
                }
                None => {}
            }
            let deadline = asked + exchange.left;
            tokio::select! {
                () = place.changed() => {}
                // Shutdown does not wait for answers.
                () = self.0.closing.cancelled() => {
                    return Ok(open(by, &exchange));
                }
                () = self.0.timepiece.sleep_until(until.min(deadline)) => {}
            }
        }
    }

    pub async fn exchanges(
        &self,
        by: &Caller,
        before: Option<(Moment, CorrelationId)>,
        limit: Option<u32>,
    ) -> Result<Questions, Refused> {
        let limit = limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE);
        // An agent sees its own questions, a program of the tenant sees all of the tenant.
        let own = by.agent.as_ref().map(|_| &by.client);
        let mut items = self.0.exchanges.exchanges(&by.tenant, own, before, limit + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|last| (last.opened, last.correlation.clone()));
        for item in &mut items {
            item.correlation = shown_id(by, &item.correlation);
        }
        Ok(Questions { items, next })
    }

    async fn put_question(
        &self,
        by: &Caller,
        request: Ask,
        timeout: Duration,
    ) -> Result<CorrelationId, Refused> {
        let again = request.clone();
        let Ask { agent, message, correlation_id, event_type, connectors, from, trigger_kind, .. } = request;
        if agent.contains('@') {
            return Err(Refused::ExchangeAddress);
        }
        check_text("message", &message)?;
        let now = self.0.timepiece.now();
        let correlation = correlation_id.unwrap_or_else(|| fresh_id(now).into());
        if !is_dispatch_id(correlation.as_str()) {
            return Err(Refused::malformed(
                "correlation_id",
                "must be 1 to 128 letters, digits, `.`, `_`, `:` or `-`",
            ));
        }
        let said = correlation;
        let correlation = self.recorded_id(by, &said).await?;
        if self.asked_before(by, &agent, &message, &correlation).await? {
            return Ok(correlation);
        }
        if !self.has_room(&by.tenant) {
            return Err(Refused::OverQuota(STORAGE_FULL));
        }
        let path = self.way_to_ask(by, &agent, connectors.as_deref()).await?;
        let sending = Sending::by(by, from, fresh_id(now).into(), now);
        let new = self.question(by, &path, &message, &correlation, &sending, now + timeout);
        let meta = sending.meta(by, trigger_kind, event_type, Some(correlation.clone()));
        let item = Item::Ask { payload: Payload { kind: PayloadKind::Augment, text: message, meta } };
        let promised = self.promised(&path, &sending, &item);
        let accepted = promised.accepted;
        let turn = self.0.turns.turn(&by.tenant).await;
        let asked = self.0.exchanges.ask(new, promised, self.0.config.open_exchanges).await?;
        drop(turn);
        match asked {
            AskResult::Opened(key) => {
                self.put_in_time(Promise::fresh(key, accepted), path, sending, item).await?;
            }
            // The first request stored its receipt too, so it was sent or will be.
            AskResult::Attached(_) => return Ok(correlation),
            // Another caller took the id since `recorded_id` was called.
            AskResult::InUse if self.recorded_id(by, &said).await? != correlation => {
                return Box::pin(self.put_question(by, Ask { correlation_id: Some(said), ..again }, timeout))
                    .await;
            }
            AskResult::InUse => return Err(Refused::CorrelationInUse),
            AskResult::TooMany => return Err(Refused::OverQuota("the tenant has too many open questions")),
        };
        Ok(correlation)
    }

    /// Puts a stored question. An agent of the relay finds it in its inbox. A receiver of another connector may delay
    /// its response until the deadline, so that attempt runs in the background.
    async fn put_in_time(
        &self,
        promise: Promise,
        path: DeliveryPath,
        sending: Sending,
        item: Item,
    ) -> Result<(), Refused> {
        self.0.asked.notify_one();
        self.0.collecting.notify_one();
        if let PathKind::Relay(..) = path.by {
            let put = self.send_opened(promise, &path, &sending, &item).await.map(drop);
            if let Err(Refused::InboxFull(_)) = put {
                self.unask(&sending, &item, promise.key).await?;
            }
            return put;
        }
        let post = self.clone();
        self.0.tasks.spawn(async move {
            if let Err(Refused::Fault(fault)) = post.send_opened(promise, &path, &sending, &item).await {
                tracing::error!(%fault, "could not record the delivery of a question: it will be sent again");
            }
        });
        Ok(())
    }

    /// Deletes a question that could not be put, so that it can be asked again under the same id.
    async fn unask(&self, sending: &Sending, item: &Item, receipt: ReceiptKey) -> Result<(), Fault> {
        let Item::Ask { payload } = item else { return Ok(()) };
        let Some(correlation) = &payload.meta.correlation_id else { return Ok(()) };
        self.0.exchanges.unask(&sending.tenant, correlation, receipt).await?;
        self.0.waiting.tell(&sending.tenant, correlation);
        Ok(())
    }

    /// Whether it is still useful to send this item.
    pub(crate) async fn asking(&self, sending: &Sending, item: &Item) -> Result<Asking, Fault> {
        let Item::Ask { payload } = item else { return Ok(Asking::Still) };
        let Some(correlation) = &payload.meta.correlation_id else { return Ok(Asking::Over) };
        let exchange = self.0.exchanges.exchange(&sending.tenant, correlation).await?;
        let now = self.0.timepiece.now();
        Ok(match exchange {
            Some(found) if found.state == ExchangeState::Answered => {
                Asking::Answered(found.ended.unwrap_or(now))
            }
            Some(found) if found.state == ExchangeState::Open && !found.left.is_zero() => Asking::Still,
            _ => Asking::Over,
        })
    }

    /// The stored id of a question of this caller. An agent must not learn which ids others use. If another caller uses
    /// the id, the agent's own question is stored as `ID#inst_…`.
    async fn recorded_id(&self, by: &Caller, said: &CorrelationId) -> Result<CorrelationId, Fault> {
        let Some(agent) = &by.agent else { return Ok(said.clone()) };
        let own = CorrelationId::from(format!("{said}{OWN}{}", agent.id));
        if self.0.exchanges.exchange(&by.tenant, &own).await?.is_some() {
            return Ok(own);
        }
        let anothers = self.0.exchanges.exchange(&by.tenant, said).await?;
        Ok(if anothers.is_some_and(|exchange| !by.may_attach(&exchange)) { own } else { said.clone() })
    }

    /// Whether this caller put the same question before. True even if the agent was removed since.
    async fn asked_before(
        &self,
        by: &Caller,
        agent: &str,
        message: &str,
        correlation: &CorrelationId,
    ) -> Result<bool, Refused> {
        let known = self.0.exchanges.exchange(&by.tenant, correlation).await?;
        Ok(known.is_some_and(|known| {
            known.caller == by.client && known.agent == agent && known.digest == digest(&[agent, message])
        }))
    }

    /// The record of a new question.
    fn question(
        &self,
        by: &Caller,
        path: &DeliveryPath,
        message: &str,
        correlation: &CorrelationId,
        sending: &Sending,
        deadline: Moment,
    ) -> NewExchange {
        // An agent of the relay answers on its connection, any other at a reply URL of this question.
        let (instance, chat, reply_token, collected) = match &path.by {
            PathKind::Relay(_, instance) => {
                let chat = conversation::chat(&conversation::question(correlation));
                (Some(instance.id.clone()), Some(chat), None, false)
            }
            PathKind::Connector { connector, .. } => {
                let (_, token) = self.0.webhook_signer.reply_token(&by.tenant, &sending.dispatch);
                (None, None, Some(token), connector.collects())
            }
        };
        NewExchange {
            tenant: by.tenant.clone(),
            correlation: correlation.clone(),
            caller: by.client.clone(),
            connector: path.name().to_owned(),
            agent: path.agent.clone(),
            instance,
            chat,
            dispatch: sending.dispatch.clone(),
            digest: digest(&[&path.agent, message]),
            opened: sending.sent_at,
            deadline,
            reply_token,
            collected,
        }
    }

    /// The first path that can carry questions. Only one, because a question has one answer.
    async fn way_to_ask(
        &self,
        by: &Caller,
        agent: &str,
        connectors: Option<&[String]>,
    ) -> Result<DeliveryPath, Refused> {
        let paths = self.find(by, agent, false, connectors).await?;
        let unable = paths.first().map(|path| path.unasked(agent));
        match (paths.into_iter().find(DeliveryPath::can_ask), unable) {
            (Some(path), _) => Ok(path),
            (None, Some(Undone::Failed(failed))) => Err(failed.into()),
            (None, Some(lacking @ Undone::NotImplemented { .. })) => {
                Err(Refused::NotImplemented(lacking.to_string()))
            }
            (None, None) => Err(Refused::Failed(unknown(agent))),
        }
    }

    /// Puts the question by a connector that an operator created.
    pub(crate) async fn put(
        &self,
        connector: &dyn AgentConnector,
        sending: &Sending,
        agent: &str,
        payload: &Payload,
    ) -> Result<DeliveryReceipt, Undone> {
        let invalid = |why: &str| Undone::from(DeliveryFailed::client_validation(agent, why));
        let Some(correlation) = payload.meta.correlation_id.clone() else {
            return Err(invalid("the question has no correlation id"));
        };
        let known = self.0.exchanges.exchange(&sending.tenant, &correlation).await;
        let Ok(Some(exchange)) = known else { return Err(invalid("the question is not stored")) };
        let (token, _) = self.0.webhook_signer.reply_token(&sending.tenant, &sending.dispatch);
        let question = Question {
            correlation_id: correlation,
            timeout: exchange.left,
            reply_to: Some(format!("{}/v1/replies/{}", self.0.public_url, token.expose())),
        };
        let (receipt, answer) = match connector.request_response(agent, payload, &question).await? {
            Replied::Awaited(receipt) => return Ok(receipt),
            Replied::Answer(receipt, answer) => (receipt, answer),
        };
        if let Err(fault) = self.take_answer(&exchange, answer).await {
            tracing::error!(%fault, "could not store the answer in a receiver's response");
            // The retry is safe: the receiver recognizes the dispatch id and repeats its answer.
            return Err(DeliveryFailed::new(agent, Cause::Network, "the answer could not be stored").into());
        }
        Ok(receipt)
    }

    pub(crate) async fn question_failed(
        &self,
        sending: &Sending,
        item: &Item,
        failed: &DeliveryFailed,
    ) -> Result<(), Fault> {
        let Item::Ask { payload } = item else { return Ok(()) };
        let Some(correlation) = &payload.meta.correlation_id else { return Ok(()) };
        let now = self.0.timepiece.now();
        let error = crate::receipt::error(failed);
        self.0.exchanges.fail(&sending.tenant, correlation, &error, now).await?;
        self.0.waiting.tell(&sending.tenant, correlation);
        Ok(())
    }
}

impl Post {
    /// A fresh id for a dispatch or a question.
    pub(crate) fn fresh_id(&self) -> String {
        fresh_id(self.0.timepiece.now())
    }
}

impl Caller {
    /// The caller that asked, and programs of its tenant.
    fn may_attach(&self, exchange: &Exchange) -> bool {
        exchange.caller == self.client || self.agent.is_none()
    }
}

/// Separates a caller's id from the id of its agent, if another caller uses the same id. Callers cannot use this
/// character.
const OWN: char = '#';

/// The id to show: to an agent as it gave it, to a program of the tenant as stored, because it sees the questions of
/// all agents.
fn shown_id(by: &Caller, recorded: &CorrelationId) -> CorrelationId {
    match recorded.as_str().split_once(OWN) {
        Some((said, _)) if by.agent.is_some() => said.into(),
        _ => recorded.clone(),
    }
}

/// Whether this can be a stored id of a question: a caller's id, optionally followed by `#` and an agent's id.
pub(crate) fn is_recorded_id(text: &str) -> bool {
    is_dispatch_id(text.split_once(OWN).map_or(text, |(said, _)| said))
}

fn open(by: &Caller, exchange: &Exchange) -> Exchanged {
    Exchanged::Open { correlation_id: shown_id(by, &exchange.correlation), deadline: exchange.deadline }
}

/// The result of a question that has ended. `None` while it is open.
fn standing(exchange: &Exchange) -> Result<Option<Exchanged>, Refused> {
    let timeout_ms = exchange.deadline.millis() - exchange.opened.millis();
    match (exchange.state, &exchange.answer) {
        (ExchangeState::Answered, Some((content, sent_at))) => Ok(Some(Exchanged::Answered(Response {
            correlation_id: exchange.correlation.clone(),
            content: content.clone(),
            sent_at: *sent_at,
            agent_id: exchange.agent.clone(),
        }))),
        (ExchangeState::Open, _) if !exchange.left.is_zero() => Ok(None),
        (ExchangeState::Failed, _) => {
            let kept = exchange.error.as_deref().unwrap_or_default();
            let failed = serde_json::from_str(kept).unwrap_or_else(|_| {
                DeliveryFailed::client_validation(&exchange.agent, "the agent was removed")
            });
            Err(Refused::Unanswered(failed))
        }
        _ => Err(Refused::TimedOut { timeout_ms }),
    }
}

/// The error for a name that no connector of the tenant knows.
pub(crate) fn unknown(agent: &str) -> DeliveryFailed {
    DeliveryFailed::client_validation(agent, format!("no connector knows an agent `{agent}`"))
}

pub(crate) fn check_text(field: &'static str, text: &str) -> Result<(), Refused> {
    match text.len() > LONGEST_TEXT {
        true => Err(Refused::TooLong { field, most: LONGEST_TEXT }),
        false => Ok(()),
    }
}

/// A new id for a dispatch or a question: a UUIDv7, so that ids of the same time are neighbours in the database.
pub(crate) fn fresh_id(now: Moment) -> String {
    let mut random = [0; 10];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    let millis = u64::try_from(now.millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
}
