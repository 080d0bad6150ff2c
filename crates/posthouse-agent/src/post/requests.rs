//! Request types of the client for programs. Each request has its id from the start: sending the same value
//! again repeats the request, `new` makes a different one.

use std::time::Duration;

use posthouse_wire::delivery::{PayloadKind, TriggerKind, WakeOpts};
use posthouse_wire::{CorrelationId, DispatchId};
use serde::{Serialize, Serializer};

use super::ReceiptState;

/// The server's default timeout of a question.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Sends a message to an agent through every connector that knows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notify {
    /// `agent` delivers, `agent@session` wakes.
    pub agent: String,
    pub message: String,
    pub kind: PayloadKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// Only these connectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectors: Option<Vec<String>>,
    /// Name of the sender. Default: the name of the program's own credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_kind: Option<TriggerKind>,
    /// Time that a wake waits to be accepted.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_seconds")]
    pub wait: Option<Duration>,
    /// Sent as the idempotency key. A program that must not send twice after its own crash stores it.
    #[serde(skip)]
    pub dispatch_id: DispatchId,
}

impl Notify {
    pub fn new(agent: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            message: message.into(),
            kind: PayloadKind::Augment,
            event_type: None,
            correlation_id: None,
            connectors: None,
            from: None,
            trigger_kind: None,
            wait: None,
            dispatch_id: fresh().into(),
        }
    }
}

/// Wakes an agent, now or at a later time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wake {
    /// `agent`, or `agent@session`.
    pub agent: String,
    #[serde(flatten)]
    pub opts: WakeOpts,
    /// Only these connectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectors: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Time to wait for the agent to accept it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_seconds")]
    pub wait: Option<Duration>,
    /// Sent as the idempotency key.
    #[serde(skip)]
    pub dispatch_id: DispatchId,
}

impl Wake {
    pub fn new(agent: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            opts: WakeOpts::default(),
            connectors: None,
            from: None,
            wait: None,
            dispatch_id: fresh().into(),
        }
    }
}

/// Asks an agent and waits for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Agent name (a session is not allowed here).
    pub agent: String,
    pub message: String,
    /// Default: five minutes. At most one hour.
    pub timeout: Duration,
    /// Id that finds the answer again ([`Client::attach`](super::Client::attach)).
    pub correlation_id: CorrelationId,
    pub event_type: Option<String>,
    pub connectors: Option<Vec<String>>,
    pub from: Option<String>,
    pub trigger_kind: Option<TriggerKind>,
}

impl Ask {
    pub fn new(agent: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            message: message.into(),
            timeout: TIMEOUT,
            correlation_id: fresh().into(),
            event_type: None,
            connectors: None,
            from: None,
            trigger_kind: None,
        }
    }
}

/// Filter of receipts, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReceiptQuery {
    pub agent: Option<String>,
    pub state: Option<ReceiptState>,
    /// End of the previous page ([`Page::next`](super::ListPage::next)).
    pub after: Option<String>,
    pub limit: Option<u32>,
}

fn in_seconds<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => to.serialize_f64(span.as_secs_f64()),
        None => to.serialize_none(),
    }
}

/// A unique random id.
fn fresh() -> String {
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random).expect("a machine that can speak TLS has random numbers");
    uuid::Builder::from_random_bytes(random).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use posthouse_wire::delivery::WakeTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_unset_is_absent_and_a_part_of_a_second_is_kept() {
        let wait = Some(Duration::from_millis(1_200));
        let notify = Notify { wait, ..Notify::new("heron", "hi") };
        let expected = json!({ "agent": "heron", "message": "hi", "kind": "augment", "wait": 1.2 });
        assert_eq!(serde_json::to_value(&notify).unwrap(), expected);
        let opts = WakeOpts { context: Some("now".into()), when: WakeTime::At(7), session_id: None };
        let wake = Wake { opts, ..Wake::new("heron@desk") };
        let expected = json!({ "agent": "heron@desk", "context": "now", "when": 7 });
        assert_eq!(serde_json::to_value(&wake).unwrap(), expected);
    }

    #[test]
    fn two_requests_have_two_ids_and_each_is_one_that_the_server_accepts() {
        let (first, second) = (Notify::new("a", "x"), Notify::new("a", "x"));
        assert_ne!(first.dispatch_id, second.dispatch_id);
        assert!(posthouse_wire::delivery::is_dispatch_id(first.dispatch_id.as_str()));
        assert_eq!(first.dispatch_id.as_str().as_bytes()[14], b'4');
    }
}
