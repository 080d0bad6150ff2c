//! What a program asks for. Each wish has its id from the beginning: the same value again is the same
//! wish again, a second wish is made by `new`.

use std::time::Duration;

use posthouse_wire::delivery::{Kind, TriggerKind, WakeOpts};
use posthouse_wire::{CorrelationId, DispatchId};
use serde::{Serialize, Serializer};

use super::ReceiptState;

/// What the house gives a question unless it is told otherwise.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Tell an agent something, by every connector that knows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Notify {
    /// `agent` delivers, `agent@session` wakes.
    pub agent: String,
    pub message: String,
    pub kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// Only these connectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connectors: Option<Vec<String>>,
    /// Who it is from; nothing: the name of our own credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger_kind: Option<TriggerKind>,
    /// How long a wake waits to be taken.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_seconds")]
    pub wait: Option<Duration>,
    /// Sent as the idempotency key. A program that wants to be sure over its own crash keeps it.
    #[serde(skip)]
    pub dispatch_id: DispatchId,
}

impl Notify {
    pub fn new(agent: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            message: message.into(),
            kind: Kind::Augment,
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

/// Get an agent's attention, now or at a time.
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
    /// How long to wait for the agent to take it.
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

/// Ask an agent, and wait for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// An agent; a session cannot be asked.
    pub agent: String,
    pub message: String,
    /// Five minutes unless said, an hour at most.
    pub timeout: Duration,
    /// What the answer is found by again ([`Client::attach`](super::Client::attach)).
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

/// Which receipts, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub agent: Option<String>,
    pub state: Option<ReceiptState>,
    /// Where the page before this one ended ([`Page::next`](super::Page::next)).
    pub after: Option<String>,
    pub limit: Option<u32>,
}

fn in_seconds<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => to.serialize_f64(span.as_secs_f64()),
        None => to.serialize_none(),
    }
}

/// A name that nobody else has.
fn fresh() -> String {
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random).expect("a machine that can speak TLS has random numbers");
    uuid::Builder::from_random_bytes(random).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use posthouse_wire::delivery::When;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_unset_is_absent_and_a_part_of_a_second_is_kept() {
        let wait = Some(Duration::from_millis(1_200));
        let notify = Notify { wait, ..Notify::new("heron", "hi") };
        let expected = json!({ "agent": "heron", "message": "hi", "kind": "augment", "wait": 1.2 });
        assert_eq!(serde_json::to_value(&notify).unwrap(), expected);
        let opts = WakeOpts { context: Some("now".into()), when: When::At(7), session_id: None };
        let wake = Wake { opts, ..Wake::new("heron@desk") };
        let expected = json!({ "agent": "heron@desk", "context": "now", "when": 7 });
        assert_eq!(serde_json::to_value(&wake).unwrap(), expected);
    }

    #[test]
    fn two_wishes_have_two_ids_and_each_is_one_that_the_house_takes() {
        let (first, second) = (Notify::new("a", "x"), Notify::new("a", "x"));
        assert_ne!(first.dispatch_id, second.dispatch_id);
        assert!(posthouse_wire::delivery::is_dispatch_id(first.dispatch_id.as_str()));
        assert_eq!(first.dispatch_id.as_str().as_bytes()[14], b'4');
    }
}
