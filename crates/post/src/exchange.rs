//! Asking: one question, one answer, and everybody who asked can come back for it.

use std::time::Duration;

use ledger::{Asked, Exchange, ExchangeState, NewExchange};
use posthouse_time::Moment;
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::{
    Cause, DeliveryFailed, DeliveryReceipt, Kind, Payload, Response, is_dispatch_id,
};

use crate::connector::{AgentConnector, Question, Replied, Undone};
use crate::conversation::{self, LONGEST_TEXT};
use crate::directory::{By, Way};
use crate::dispatch::Promise;
use crate::item::{Item, Sending, digest};
use crate::wish::{Ask, Exchanged, LONGEST_TIMEOUT, LONGEST_WAIT, Questions};
use crate::{Caller, Fault, Post, Refused};

/// How long a question is open unless the caller says.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Questions on one page.
const PAGE: u32 = 50;
const LONGEST_PAGE: u32 = 200;

/// What a question on its way has come to. Whatever else is sent is always still of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    Still,
    Answered(Moment),
    /// Its time is up, or it failed.
    Over,
}

impl Post {
    /// Puts a question, or comes back to one, and waits for its answer.
    pub async fn exchange(&self, by: &Caller, wish: Ask) -> Result<Exchanged, Refused> {
        let timeout = wish.timeout.unwrap_or(TIMEOUT).min(LONGEST_TIMEOUT);
        let wait = wish.wait.unwrap_or(timeout).min(LONGEST_WAIT);
        let correlation = self.put_question(by, wish, timeout).await?;
        self.attach(by, &correlation, wait).await
    }

    /// Where a question stands, after waiting so long at most.
    pub async fn attach(
        &self,
        by: &Caller,
        correlation: &CorrelationId,
        wait: Duration,
    ) -> Result<Exchanged, Refused> {
        let until = self.0.timepiece.now() + wait.min(LONGEST_WAIT);
        let mut place = self.0.waiting.place(&by.tenant, correlation);
        loop {
            let known = self.0.exchanges.exchange(&by.tenant, correlation).await?;
            let Some(exchange) = known.filter(|exchange| by.may_attach(exchange)) else {
                return Err(Refused::Absent);
            };
            let now = self.0.timepiece.now();
            if exchange.state == ExchangeState::Open && now >= exchange.deadline {
                // On record before it is said: an answer that is on its way to the ledger at this moment
                // comes either before the end or late, and nobody hears first one thing and then the other.
                self.end_due().await?;
                continue;
            }
            match standing(&exchange, now)? {
                Some(ended) => return Ok(ended),
                None if now >= until => {
                    let Exchange { correlation, deadline, .. } = exchange;
                    return Ok(Exchanged::Open { correlation_id: correlation, deadline });
                }
                None => {}
            }
            tokio::select! {
                () = place.changed() => {}
                // A house that closes does not keep anybody waiting.
                () = self.0.closing.cancelled() => {
                    let Exchange { correlation, deadline, .. } = exchange;
                    return Ok(Exchanged::Open { correlation_id: correlation, deadline });
                }
                () = self.0.timepiece.until(until.min(exchange.deadline)) => {}
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
        // An agent's own questions; all of them for its tenant.
        let own = by.agent.as_ref().map(|_| &by.client);
        let mut items = self.0.exchanges.exchanges(&by.tenant, own, before, limit + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|last| (last.opened, last.correlation.clone()));
        Ok(Questions { items, next })
    }

    async fn put_question(
        &self,
        by: &Caller,
        wish: Ask,
        timeout: Duration,
    ) -> Result<CorrelationId, Refused> {
        let Ask { agent, message, correlation_id, event_type, connectors, from, trigger_kind, .. } = wish;
        if agent.contains('@') {
            return Err(Refused::ExchangeAddress);
        }
        check_text("message", &message)?;
        let now = self.0.timepiece.now();
        let correlation = correlation_id.unwrap_or_else(|| fresh_id(now).into());
        if !is_dispatch_id(correlation.as_str()) {
            return Err(Refused::malformed("correlation_id", "holds characters that an id may not hold"));
        }
        if self.asked_before(by, &agent, &message, &correlation).await? {
            return Ok(correlation);
        }
        let way = self.way_to_ask(by, &agent, connectors.as_deref()).await?;
        let sending = Sending::by(by, from, fresh_id(now).into(), now);
        let new = self.question(by, &way, &message, &correlation, &sending, now + timeout);
        let meta = sending.meta(by, trigger_kind, event_type, Some(correlation.clone()));
        let item = Item::Ask { payload: Payload { kind: Kind::Augment, text: message, meta } };
        let promised = self.promised(&way, &sending, &item);
        let accepted = promised.accepted;
        match self.0.exchanges.ask(new, promised, self.0.config.open_exchanges).await? {
            Asked::Opened(key) => {
                self.put_in_time(Promise::fresh(key, accepted), way, sending, item).await?;
            }
            // It was sent the first time, or will be: its receipt came with it.
            Asked::Attached(_) => return Ok(correlation),
            Asked::InUse => return Err(Refused::CorrelationInUse),
            Asked::TooMany => return Err(Refused::OverQuota("too many questions are open")),
        };
        Ok(correlation)
    }

    /// Puts a question that is on record. An agent that dials in finds it in its inbox; a receiver may hold its
    /// answer back for as long as the question is open, which whoever asked need not wait for on this line.
    async fn put_in_time(
        &self,
        promise: Promise,
        way: Way,
        sending: Sending,
        item: Item,
    ) -> Result<(), Refused> {
        self.0.asked.notify_one();
        self.0.collecting.notify_one();
        if let By::Line(..) = way.by {
            return self.send_opened(promise, &way, &sending, &item).await.map(drop);
        }
        let post = self.clone();
        self.0.tasks.spawn(async move {
            if let Err(Refused::Fault(fault)) = post.send_opened(promise, &way, &sending, &item).await {
                tracing::error!(%fault, "could not record how a question was put: it will be put again");
            }
        });
        Ok(())
    }

    /// Whether what is sent is still of use.
    pub(crate) async fn asking(&self, sending: &Sending, item: &Item) -> Result<Asking, Fault> {
        let Item::Ask { payload } = item else { return Ok(Asking::Still) };
        let Some(correlation) = &payload.meta.correlation_id else { return Ok(Asking::Over) };
        let exchange = self.0.exchanges.exchange(&sending.tenant, correlation).await?;
        let now = self.0.timepiece.now();
        Ok(match exchange {
            Some(found) if found.state == ExchangeState::Answered => {
                Asking::Answered(found.ended.unwrap_or(now))
            }
            Some(found) if found.state == ExchangeState::Open && now < found.deadline => Asking::Still,
            _ => Asking::Over,
        })
    }

    /// Whether this caller put this very question before, whatever became of the agent since.
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

    /// The record of a question, before it is put.
    fn question(
        &self,
        by: &Caller,
        way: &Way,
        message: &str,
        correlation: &CorrelationId,
        sending: &Sending,
        deadline: Moment,
    ) -> NewExchange {
        // An agent that dials in answers on its line, any other at an address of the question's own.
        let (instance, chat, reply_token, collected) = match &way.by {
            By::Line(_, instance) => {
                let chat = conversation::chat(&conversation::question(correlation));
                (Some(instance.id.clone()), Some(chat), None, false)
            }
            By::Made { connector, .. } => {
                let (_, token) = self.0.stamps.reply_token(&by.tenant, &sending.dispatch);
                (None, None, Some(token), connector.collects())
            }
        };
        NewExchange {
            tenant: by.tenant.clone(),
            correlation: correlation.clone(),
            caller: by.client.clone(),
            connector: way.name().to_owned(),
            agent: way.agent.clone(),
            instance,
            chat,
            dispatch: sending.dispatch.clone(),
            digest: digest(&[&way.agent, message]),
            opened: sending.sent_at,
            deadline,
            reply_token,
            collected,
        }
    }

    /// The first that knows the agent and can bring an answer back. Never several: one question, one answer.
    async fn way_to_ask(
        &self,
        by: &Caller,
        agent: &str,
        connectors: Option<&[String]>,
    ) -> Result<Way, Refused> {
        let ways = self.find(by, agent, false, connectors).await?;
        let unable = ways.first().map(|way| way.unasked(agent));
        match (ways.into_iter().find(Way::can_ask), unable) {
            (Some(way), _) => Ok(way),
            (None, Some(Undone::Failed(failed))) => Err(failed.into()),
            (None, Some(lacking @ Undone::NotImplemented { .. })) => {
                Err(Refused::NotImplemented(lacking.to_string()))
            }
            (None, None) => Err(Refused::Failed(unknown(agent))),
        }
    }

    /// Puts the question by a connector that the operator made.
    pub(crate) async fn put(
        &self,
        connector: &dyn AgentConnector,
        sending: &Sending,
        agent: &str,
        payload: &Payload,
    ) -> Result<DeliveryReceipt, Undone> {
        let invalid = |why: &str| Undone::from(DeliveryFailed::client_validation(agent, why));
        let Some(correlation) = payload.meta.correlation_id.clone() else {
            return Err(invalid("a question has a correlation id"));
        };
        let known = self.0.exchanges.exchange(&sending.tenant, &correlation).await;
        let Ok(Some(exchange)) = known else { return Err(invalid("the question is not on record")) };
        let (token, _) = self.0.stamps.reply_token(&sending.tenant, &sending.dispatch);
        let question = Question {
            correlation_id: correlation,
            timeout: exchange.deadline.since(self.0.timepiece.now()),
            reply_to: Some(format!("{}/v1/replies/{}", self.0.public_url, token.expose())),
        };
        let (receipt, answer) = match connector.request_response(agent, payload, &question).await? {
            Replied::Awaited(receipt) => return Ok(receipt),
            Replied::Answer(receipt, answer) => (receipt, answer),
        };
        if let Err(fault) = self.take_answer(&exchange, answer).await {
            tracing::error!(%fault, "could not keep an answer that came at once");
            // The receiver knows the dispatch by its id and will say the same again.
            return Err(DeliveryFailed::new(agent, Cause::Network, "the answer could not be kept").into());
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
    /// Whoever asked, and its tenant's own programs.
    fn may_attach(&self, exchange: &Exchange) -> bool {
        exchange.caller == self.client || self.agent.is_none()
    }
}

/// What is to be said of a question that has ended; nothing while it is open.
fn standing(exchange: &Exchange, now: Moment) -> Result<Option<Exchanged>, Refused> {
    let timeout_ms = exchange.deadline.millis() - exchange.opened.millis();
    match (exchange.state, &exchange.answer) {
        (ExchangeState::Answered, Some((content, sent_at))) => Ok(Some(Exchanged::Answered(Response {
            correlation_id: exchange.correlation.clone(),
            content: content.clone(),
            sent_at: *sent_at,
            agent_id: exchange.agent.clone(),
        }))),
        (ExchangeState::Open, _) if now < exchange.deadline => Ok(None),
        (ExchangeState::Failed, _) => {
            let kept = exchange.error.as_deref().unwrap_or_default();
            let failed = serde_json::from_str(kept)
                .unwrap_or_else(|_| DeliveryFailed::client_validation(&exchange.agent, "the agent is gone"));
            Err(Refused::Unanswered(failed))
        }
        _ => Err(Refused::TimedOut { timeout_ms }),
    }
}

/// Nobody of this tenant goes by that name.
pub(crate) fn unknown(agent: &str) -> DeliveryFailed {
    DeliveryFailed::client_validation(agent, format!("no connector knows an agent `{agent}`"))
}

pub(crate) fn check_text(field: &'static str, text: &str) -> Result<(), Refused> {
    match text.len() > LONGEST_TEXT {
        true => Err(Refused::TooLong { field, most: LONGEST_TEXT }),
        false => Ok(()),
    }
}

/// A fresh id for a dispatch or a question. Ids of the same time lie together, which the ledger likes.
pub(crate) fn fresh_id(now: Moment) -> String {
    let mut random = [0; 10];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    let millis = u64::try_from(now.millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
}
