//! Errors of the post: faults of the server, and refusals of requests, replies and connectors.

use identity::OverQuota;
use ledger::LimitReached;
use posthouse_wire::delivery::DeliveryFailed;

use crate::connector::ConnectorError;

/// A fault of the server. Nothing was accepted, and the caller may retry.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    #[error(transparent)]
    Vault(#[from] vault::Fault),
    #[error(transparent)]
    Identity(#[from] identity::Fault),
    #[error(transparent)]
    Relay(#[from] relay::Fault),
    #[error(transparent)]
    Clock(#[from] clock::Fault),
}

/// Why a request of a program is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// A field of the request is wrong.
    #[error("`{field}` {why}")]
    Malformed { field: &'static str, why: String },
    /// A text of the request is too long.
    #[error("`{field}` is longer than {most} bytes")]
    TooLong { field: &'static str, most: usize },
    /// A question was addressed to a session.
    #[error("an exchange is with an agent, not with a session: the address must not contain `@`")]
    ExchangeAddress,
    #[error(transparent)]
    Failed(#[from] DeliveryFailed),
    /// A stored question could not be put to the agent.
    #[error("{0}")]
    Unanswered(DeliveryFailed),
    /// No connector of the agent can carry an answer back.
    #[error("{0}")]
    NotImplemented(String),
    #[error("the correlation id belongs to another question")]
    CorrelationInUse,
    /// A quota of the tenant is used up.
    #[error("{0}")]
    OverQuota(&'static str),
    /// The agent or its tenant gets too many messages.
    #[error("{}", too_many_messages(.0))]
    TooManyMessages(OverQuota),
    /// The agent's inbox is full.
    #[error("{}", full(*.0))]
    InboxFull(LimitReached),
    /// Unknown, removed, or of another tenant. One variant, so that the answer does not reveal which.
    #[error("not found")]
    Absent,
    /// The question was not answered before its deadline.
    #[error("no answer within {timeout_ms} ms")]
    TimedOut { timeout_ms: i64 },
    /// A fault of the server.
    #[error("the server cannot do this now")]
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for Refused {
    fn from(fault: F) -> Self {
        Refused::Fault(fault.into())
    }
}

impl From<ConnectorError> for Refused {
    fn from(error: ConnectorError) -> Self {
        match error {
            ConnectorError::Failed(failed) => Refused::Failed(failed),
            ConnectorError::NotImplemented { .. } => Refused::NotImplemented(error.to_string()),
            ConnectorError::Fault(fault) => Refused::Fault(fault),
        }
    }
}

impl Refused {
    pub fn malformed(field: &'static str, why: impl Into<String>) -> Self {
        Refused::Malformed { field, why: why.into() }
    }
}

/// The tenant has reached its storage limit.
pub(crate) const STORAGE_FULL: &str = "the tenant has used up its storage: nothing was stored; send it again after old messages \
    and receipts were removed, or ask the operator to raise the limit";

fn too_many_messages(over: &OverQuota) -> String {
    let (whose, value, seconds) = (over.whose(), over.value, over.retry_seconds());
    format!(
        "the {whose} may get {value} messages per minute: nothing was stored; send it again after {seconds} s"
    )
}

fn full(full: LimitReached) -> &'static str {
    match full {
        LimitReached::Inbox => {
            "the agent's inbox is full: nothing was stored; send it again after the agent has read some of it"
        }
        LimitReached::Share => {
            "this credential has used up its share of the agent's inbox: nothing was stored; send it again after \
            the agent has read some of it"
        }
        LimitReached::Tenant => STORAGE_FULL,
    }
}

/// Why an answer sent by HTTP is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReplyRefused {
    /// The reply token is unknown, or its question has ended or belongs to another agent.
    #[error("no open question has this reply token")]
    Absent,
    #[error("the question was already answered")]
    Answered,
    #[error("the signature does not match the body")]
    BadSignature,
    #[error("`{field}` {why}")]
    Malformed { field: &'static str, why: String },
    #[error("the answer is longer than {most} bytes")]
    TooLong { most: usize },
    #[error("the server cannot do this now")]
    Fault(Fault),
}

/// Why a connector is not created.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectorNotCreated {
    #[error("`{field}` {why}")]
    Malformed { field: String, why: String },
    #[error("a connector with this name exists already")]
    Taken,
    /// The configuration of the server does not allow it.
    #[error("{0}")]
    NotAllowed(String),
    #[error("the connector is not healthy: {0}")]
    Unhealthy(String),
    #[error("the server cannot do this now")]
    Fault(Fault),
}
