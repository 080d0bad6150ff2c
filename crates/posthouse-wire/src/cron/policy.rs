//! Policy of a cron job for missed times, overlapping runs and jitter.
//!
//! These fields are an extension of the contract. An agent that sends none gets the contract's behaviour.

use serde::{Deserialize, Serialize};

/// Policy of a job, sent with its arm request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    pub missed: Missed,
    /// Seconds that a fire may be late with `skip`, and that `all` reaches back. Default one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    pub overlap: Overlap,
    /// Seconds over which fires of the same instant are spread. Each job has a fixed share of it.
    #[serde(skip_serializing_if = "is_zero")]
    pub jitter: u32,
}

/// Rule for due times that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// It does not fire. It is recorded as missed, and the job continues with the next known time.
    Skip,
    /// It fires late. Of several missed times only the latest fires.
    #[default]
    Once,
    /// Every missed time inside the window fires, oldest first.
    All,
}

/// Rule for a fire while the last run is still going. The agent applies it, because only the agent knows its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The fire is dropped and recorded.
    #[default]
    Skip,
    /// The job runs when the last run has ended.
    Queue,
}

impl Policy {
    /// The window in microseconds; one hour if none is set.
    pub fn window_us(&self) -> i64 {
        i64::from(self.window.unwrap_or(3600)) * 1_000_000
    }
}

fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}
