//! `POST /v1/notify`, `/v1/deliver` and `/v1/wake`.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use http_kit::{Fields, LONGEST_LABEL, Problem};
use posthouse_wire::delivery::{DeliveryReceipt, PayloadKind, WakeReceipt, WakeTime};
use posthouse_wire::{CorrelationId, DispatchId};
use serde::Serialize;
use serde_json::{Value, json};

use super::idempotency_key::idempotency_key;
use super::{Answer, LONGEST_ADDRESS, PostApi, envelope, problem, trigger};
use crate::dispatch::fresh_id;
use crate::requests::{
    ConnectorOutcome, DeliverCommand, DeliverOutcome, LONGEST_WAIT, NotifyCommand, NotifyOutcome,
    SentReceipt, WakeCommand, WakeOutcome,
};
use crate::{Caller, Refused};

pub(crate) async fn notify(State(door): State<PostApi>, request: Request) -> Answer {
    let (by, headers, fields) = door.authenticate_and_read(request).await?;
    Ok(Json(door.notify(by, idempotency_key(&headers)?, fields).await?).into_response())
}

pub(crate) async fn deliver(State(door): State<PostApi>, request: Request) -> Answer {
    let (by, _, mut fields) = door.authenticate_and_read(request).await?;
    let request = DeliverCommand {
        agent: fields.label("agent_id", LONGEST_ADDRESS)?,
        payload: envelope::payload(&mut fields)?,
        connectors: fields.optional_names("connectors")?,
    };
    fields.end()?;
    let id = request.payload.meta.dispatch_id.clone();
    let delivered = door.to_the_end(|post| async move { post.messages().deliver(&by, request).await }).await;
    let DeliverOutcome { dispatch_id, receipt, dispatched } =
        delivered.map_err(|problem| problem::under(problem, "dispatch_id", id.as_str()))?;
    Ok(Json(beside(&receipt, dispatch_id.as_str(), &dispatched)).into_response())
}

pub(crate) async fn wake(State(door): State<PostApi>, request: Request) -> Answer {
    let (by, headers, fields) = door.authenticate_and_read(request).await?;
    Ok(Json(door.wake(by, idempotency_key(&headers)?, fields).await?).into_response())
}

impl PostApi {
    /// Sends a message with the fields of a notify.
    pub async fn notify(
        &self,
        by: Caller,
        dispatch_id: Option<DispatchId>,
        mut fields: Fields,
    ) -> Result<Value, Problem> {
        let request = NotifyCommand {
            agent: fields.label("agent", LONGEST_ADDRESS)?,
            message: fields.text("message")?,
            kind: fields.optional_word("kind", kind, KINDS)?.unwrap_or(PayloadKind::Augment),
            event_type: fields.optional_label("event_type", LONGEST_LABEL)?,
            correlation_id: fields.optional_label("correlation_id", LONGEST_LABEL)?.map(CorrelationId::from),
            connectors: fields.optional_names("connectors")?,
            from: fields.optional_label("from", LONGEST_LABEL)?,
            trigger_kind: trigger(&by, &mut fields)?,
            dispatch_id,
            wait: fields.optional_seconds("wait", LONGEST_WAIT)?,
        };
        fields.end()?;
        let NotifyOutcome { agent, dispatch_id, dispatched } =
            self.to_the_end(|post| async move { post.messages().notify(&by, request).await }).await?;
        Ok(json!(NotifyBody {
            agent: &agent,
            dispatch_id: dispatch_id.as_str(),
            dispatched: each(&dispatched)
        }))
    }

    /// Wakes an agent with the fields of a wake.
    pub async fn wake(
        &self,
        by: Caller,
        dispatch_id: Option<DispatchId>,
        mut fields: Fields,
    ) -> Result<Value, Problem> {
        // `agent_id` is the contract's name, `agent` the name in our other operations.
        let agent = if fields.has("agent_id") { "agent_id" } else { "agent" };
        let id = dispatch_id.unwrap_or_else(|| fresh_id(self.now()).into());
        let request = WakeCommand {
            agent: fields.label(agent, LONGEST_ADDRESS)?,
            context: fields.optional_text("context")?.filter(|context| !context.is_empty()),
            when: when(&mut fields)?,
            session_id: fields.optional_label("session_id", LONGEST_ADDRESS)?,
            connectors: fields.optional_names("connectors")?,
            from: fields.optional_label("from", LONGEST_LABEL)?,
            dispatch_id: Some(id.clone()),
            wait: fields.optional_seconds("wait", LONGEST_WAIT)?,
        };
        fields.end()?;
        let woken = self.to_the_end(|post| async move { post.messages().wake(&by, request).await }).await;
        let WakeOutcome { dispatch_id, receipt, dispatched } =
            woken.map_err(|problem| problem::under(problem, "dispatch_id", id.as_str()))?;
        Ok(beside(&receipt, dispatch_id.as_str(), &dispatched))
    }
}

pub(crate) const KINDS: &str = "augment, template";

pub(crate) fn kind(word: &str) -> Option<PayloadKind> {
    [PayloadKind::Augment, PayloadKind::Template].into_iter().find(|kind| kind.word() == word)
}

fn when(fields: &mut Fields) -> Result<WakeTime, Problem> {
    if fields.is_text("when") {
        let now = |word: &str| (word == "immediate").then_some(WakeTime::Immediate);
        return Ok(fields.optional_word("when", now, "immediate, or a time in ms")?.unwrap_or_default());
    }
    Ok(fields.optional_whole("when")?.map_or(WakeTime::Immediate, WakeTime::At))
}

/// The contract's receipt, extended by the dispatch id and the result of every connector.
fn beside(receipt: &impl Serialize, dispatch_id: &str, dispatched: &[ConnectorOutcome]) -> Value {
    let mut body = serde_json::to_value(receipt).unwrap_or_default();
    if let Some(body) = body.as_object_mut() {
        body.insert("dispatch_id".to_owned(), dispatch_id.into());
        body.insert("dispatched".to_owned(), json!(each(dispatched)));
    }
    body
}

/// The response to a notify.
#[derive(Serialize)]
struct NotifyBody<'a> {
    agent: &'a str,
    dispatch_id: &'a str,
    dispatched: Vec<ResultBody<'a>>,
}

/// The result of one connector.
#[derive(Serialize)]
struct ResultBody<'a> {
    connector: &'a str,
    ok: bool,
    route: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<ReceiptBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_kind: Option<&'static str>,
}

/// The receipt of a delivery or a wake.
#[derive(Serialize)]
#[serde(untagged)]
enum ReceiptBody<'a> {
    Delivered(&'a DeliveryReceipt),
    Woken(&'a WakeReceipt),
}

fn each(dispatched: &[ConnectorOutcome]) -> Vec<ResultBody<'_>> {
    dispatched.iter().map(ResultBody::of).collect()
}

impl<'a> ResultBody<'a> {
    fn of(dispatched: &'a ConnectorOutcome) -> Self {
        let (receipt, refused) = match &dispatched.outcome {
            Ok(SentReceipt::Delivered(receipt)) => (Some(ReceiptBody::Delivered(receipt)), None),
            Ok(SentReceipt::Woken(receipt)) => (Some(ReceiptBody::Woken(receipt)), None),
            Err(refused) => (None, Some(refused)),
        };
        Self {
            connector: &dispatched.connector,
            ok: refused.is_none(),
            route: if dispatched.wakes { "wake" } else { "deliver" },
            receipt,
            error: refused.map(ToString::to_string),
            error_kind: refused.map(error_kind),
        }
    }
}

/// The contract's word for a refusal if it has one, otherwise our problem code.
fn error_kind(refused: &Refused) -> &'static str {
    match refused {
        Refused::Failed(failed) | Refused::Unanswered(failed) => failed.cause_kind.word(),
        Refused::NotImplemented(_) => "not_implemented",
        Refused::Malformed { .. } | Refused::ExchangeAddress => "invalid_request",
        Refused::TooLong { .. } => "too_long",
        Refused::CorrelationInUse => "correlation_in_use",
        Refused::OverQuota(_) | Refused::InboxFull(ledger::LimitReached::Tenant) => "quota_exceeded",
        Refused::TooManyMessages(_) => "over_quota",
        Refused::InboxFull(_) => "inbox_full",
        Refused::Absent => "not_found",
        Refused::TimedOut { .. } => "timeout",
        Refused::Fault(_) => "unavailable",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ledger::{Generation, Instance};
    use posthouse_time::Moment;
    use posthouse_wire::delivery::{Cause, DeliveryFailed, TriggerKind};

    use super::*;
    use crate::Fault;

    fn caller(agent: Option<&str>) -> Caller {
        let agent = agent.map(|name| {
            Arc::new(Instance {
                id: "inst_1".into(),
                tenant: "acme".into(),
                name: name.to_owned(),
                wake_url: None,
                callback_url: None,
                generation: Generation::Auto,
                idle: false,
                created: Moment::default(),
            })
        });
        Caller { client: "tenant:acme".into(), tenant: "acme".into(), agent, attested: None }
    }

    fn fields(body: &str) -> Fields {
        Fields::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn a_program_may_say_why_it_writes_and_an_agent_may_not() {
        let said =
            |by: &Caller, word: &str| trigger(by, &mut fields(&json!({ "trigger_kind": word }).to_string()));
        let (program, agent) = (caller(None), caller(Some("perry")));
        assert_eq!(said(&program, "cron"), Ok(Some(TriggerKind::Cron)));
        for refused in ["agent", "inline", "session", "Cron", ""] {
            assert!(said(&program, refused).is_err(), "{refused}");
            assert_eq!(said(&agent, refused), Ok(None));
        }
        assert_eq!(said(&agent, "cron"), Ok(None));
        assert_eq!(trigger(&program, &mut fields("{}")), Ok(None));
    }

    #[test]
    fn when_is_immediate_or_a_time() {
        assert_eq!(when(&mut fields("{}")), Ok(WakeTime::Immediate));
        assert_eq!(when(&mut fields(r#"{"when":"immediate"}"#)), Ok(WakeTime::Immediate));
        assert_eq!(when(&mut fields(r#"{"when":1767225600000}"#)), Ok(WakeTime::At(1_767_225_600_000)));
        for bad in [r#"{"when":"tomorrow"}"#, r#"{"when":1.5}"#, r#"{"when":[]}"#] {
            assert!(when(&mut fields(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_connector_says_what_it_made_of_the_dispatch() {
        let woken = WakeReceipt { woken_at: 7, woken: true, ..WakeReceipt::default() };
        let failed = DeliveryFailed::new("desk", Cause::Network, "nobody listens there");
        let dispatched = [
            ("relay", Ok(SentReceipt::Woken(woken))),
            ("hook", Err(Refused::Failed(failed))),
            ("pane", Err(Refused::NotImplemented("tmux has no reply channel".to_owned()))),
            ("shelf", Err(Refused::Fault(Fault::from(ledger::Fault::Storage("row 7 of x".to_owned()))))),
        ]
        .map(|(name, outcome)| ConnectorOutcome { connector: name.to_owned(), outcome, wakes: true });
        assert_eq!(
            json!(each(&dispatched)),
            json!([
                { "connector": "relay", "ok": true, "route": "wake", "receipt": { "woken_at": 7, "woken": true } },
                { "connector": "hook", "ok": false, "route": "wake", "error": "nobody listens there", "error_kind": "network" },
                { "connector": "pane", "ok": false, "route": "wake", "error": "tmux has no reply channel", "error_kind": "not_implemented" },
                { "connector": "shelf", "ok": false, "route": "wake", "error": "the server cannot do this now", "error_kind": "unavailable" },
            ])
        );
    }
}
