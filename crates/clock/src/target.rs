//! Target of a fire: the agent's callback URL, its socket, or another plane.

use async_trait::async_trait;
use ledger::Arm;
use posthouse_wire::cron::Fired;
use std::time::Duration;

/// A target that can be called when an arm is due.
#[async_trait]
pub trait FireTarget: Send + Sync {
    /// Makes one attempt.
    async fn fire(&self, arm: &Arm) -> FireOutcome;

    /// Name of the host that the attempt puts load on. The number of concurrent attempts per host is limited.
    fn host(&self, arm: &Arm) -> String;
}

/// Outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FireOutcome {
    /// Any 2xx status: the target has accepted the fire.
    Accepted { status: u16, fired: Fired },
    /// Any other status.
    Refused { status: u16, retry_after: Option<Duration> },
    /// No answer.
    NoAnswer {
        why: String,
        /// True when the agent certainly did not get the call. Then the next attempt need not wait for the
        /// end of this one.
        nothing_was_sent: bool,
    },
}

impl FireOutcome {
    /// True when the agent seems not to be running: no answer, or a proxy in front of it answered 503.
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self, Self::NoAnswer { .. } | Self::Refused { status: 503, .. })
    }
}
