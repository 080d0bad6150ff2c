//! What can go wrong, and what is refused.

use posthouse_wire::delivery::DeliveryFailed;

/// A fault of ours. Nothing was promised, and what was asked may be asked again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Ledger(#[from] ledger::Fault),
    #[error(transparent)]
    Vault(#[from] vault::Fault),
    #[error(transparent)]
    Relay(#[from] relay::Fault),
    #[error(transparent)]
    Clock(#[from] clock::Fault),
}

/// Why a program does not get what it asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refused {
    /// The request itself is wrong; the field it lies in, and why.
    #[error("`{field}` {why}")]
    Malformed { field: &'static str, why: String },
    /// Longer than it may be.
    #[error("`{field}` is longer than {most} bytes")]
    TooLong { field: &'static str, most: usize },
    /// A session cannot be asked, only an agent.
    #[error("an exchange is with an agent, not with a session: the address must not hold `@`")]
    ExchangeAddress,
    #[error(transparent)]
    Failed(#[from] DeliveryFailed),
    /// A question is on record and could not be put.
    #[error("{0}")]
    Unanswered(DeliveryFailed),
    /// The agent is known, and nothing can come back from it.
    #[error("{0}")]
    NotImplemented(String),
    #[error("the correlation id belongs to another question")]
    CorrelationInUse,
    /// As much as a tenant may have is there already.
    #[error("{0}")]
    OverQuota(&'static str),
    /// Never there, gone, or somebody else's. One variant on purpose.
    #[error("there is no such thing")]
    Absent,
    /// Nobody answered in time.
    #[error("no answer within {timeout_ms} ms")]
    TimedOut { timeout_ms: i64 },
    /// A fault of ours.
    #[error("the house cannot do this now")]
    Fault(Fault),
}

impl<F: Into<Fault>> From<F> for Refused {
    fn from(fault: F) -> Self {
        Refused::Fault(fault.into())
    }
}

impl Refused {
    pub fn malformed(field: &'static str, why: impl Into<String>) -> Self {
        Refused::Malformed { field, why: why.into() }
    }
}

/// Why an answer sent by HTTP is not taken.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReplyRefused {
    /// Unknown, finished or foreign.
    #[error("nobody waits for an answer here")]
    Absent,
    #[error("the question has been answered")]
    Answered,
    #[error("the signature does not fit")]
    BadSignature,
    #[error("`{field}` {why}")]
    Malformed { field: &'static str, why: String },
    #[error("the answer is longer than {most} bytes")]
    TooLong { most: usize },
    #[error("the house cannot do this now")]
    Fault(Fault),
}

/// Why a connector is not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unmade {
    #[error("`{field}` {why}")]
    Malformed { field: String, why: String },
    #[error("the name is taken")]
    Taken,
    /// The house itself has to allow it first.
    #[error("{0}")]
    NotAllowed(String),
    #[error("it is not healthy: {0}")]
    Unhealthy(String),
    #[error("the house cannot do this now")]
    Fault(Fault),
}
