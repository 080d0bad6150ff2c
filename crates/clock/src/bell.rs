//! What a fire rings: the agent's callback, its socket, or whatever else waits for a time.

use async_trait::async_trait;
use ledger::Arm;
use posthouse_wire::cron::Fired;
use std::time::Duration;

/// Whoever is to be called at a time.
#[async_trait]
pub trait Bell: Send + Sync {
    /// Makes one attempt.
    async fn ring(&self, arm: &Arm) -> Rung;

    /// What the attempt weighs on, for bounding how many go there at once.
    fn host(&self, arm: &Arm) -> String;
}

/// What one attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Any 2xx: it is over.
    Taken { status: u16, fired: Fired },
    /// An answer that is no success.
    Refused { status: u16, retry_after: Option<Duration> },
    /// No answer.
    Unheard {
        why: String,
        /// Whether the agent surely did not hear it: then the next attempt need not wait.
        nothing_was_sent: bool,
    },
}

impl Rung {
    /// The signs of a body that is not up: refused, or a front that says so.
    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self, Self::Unheard { .. } | Self::Refused { status: 503, .. })
    }
}
