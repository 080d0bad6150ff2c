//! What an agent wants when a fire is late, or comes while the last run still goes on. Fields of ours:
//! an agent that sends none gets what the contract promises.

use serde::{Deserialize, Serialize};

/// A job's wishes, sent with its provision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    pub missed: Missed,
    /// Seconds: how late a `skip` may still run, and how far back `all` reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    pub overlap: Overlap,
    /// Seconds over which fires of one instant are spread: each waits a share of its own.
    #[serde(skip_serializing_if = "is_zero")]
    pub jitter: u32,
}

/// What becomes of a fire that could not be made in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// Nothing: it is recorded as missed, and the next known time is waited for.
    Skip,
    /// It is made late; of several missed times only the latest.
    #[default]
    Once,
    /// Every missed time inside the window is made up for, oldest first.
    All,
}

/// What becomes of a fire while the last run still goes on. The agent knows, so the agent decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It is let go, and recorded.
    #[default]
    Skip,
    /// It runs when the last one has ended.
    Queue,
}

impl Policy {
    /// The window in microseconds; an hour when none was named.
    pub fn window_us(&self) -> i64 {
        i64::from(self.window.unwrap_or(3600)) * 1_000_000
    }
}

fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}
