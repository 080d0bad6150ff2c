//! Settings of the clock (`[clock]`).

use std::time::Duration;

use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// Fires of one tenant in flight at once to one host.
pub(crate) const IN_FLIGHT_PER_HOST: usize = 16;

/// How long an agent has to answer a fire.
pub(crate) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a node's lease on an arm lasts before another node may take it. It outlasts an attempt, so that no
/// other node makes a second one meanwhile.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// `[clock]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Delay of every fire after its due time. It covers the difference between the clocks of two machines: a
    /// stock agent that is called before its own clock has reached the due time loses the job for good. At
    /// most 2s. Default 100ms.
    pub guard: Span,
    /// How far ahead arms are held in memory. Default 15m.
    pub horizon: Span,
    /// Fires in flight at once; a tenant alone gets at most half of them. Default 1024.
    pub in_flight: usize,
    /// Fires in flight at once to one agent. Default 8.
    pub in_flight_per_agent: usize,
    /// How long a fire is retried before it is given up. Default 24h.
    pub give_up_after: Span,
    /// The same for a job whose next due time is already known. Default 1h.
    pub give_up_for_next_after: Span,
    /// Jobs that one agent may have armed. Default 1000.
    pub arms_per_agent: u32,
    /// Requests per second of one agent, sustained. Default 50.
    pub requests_per_second: u32,
    /// Largest burst of requests of one agent: a stock agent reconciles all its jobs when it starts. Default 1000.
    pub requests_at_once: u32,
    /// Signature algorithm of fire tokens: `ES256` or `RS256`. Default ES256.
    pub signing: vault::Algorithm,
    /// Whether the wake URL of a slow agent is called ahead of its due time. Default false.
    pub pre_wake: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            guard: Span::millis(100),
            horizon: Span::seconds(15 * 60),
            in_flight: 1024,
            in_flight_per_agent: 8,
            give_up_after: Span::seconds(24 * 3600),
            give_up_for_next_after: Span::seconds(3600),
            arms_per_agent: 1000,
            requests_per_second: 50,
            requests_at_once: 1000,
            signing: vault::Algorithm::Es256,
            pre_wake: false,
        }
    }
}

impl Config {
    /// Checks relations between settings. The error says which one does not hold.
    pub fn check(&self) -> Result<(), String> {
        if self.guard > Span::seconds(2) {
            return Err("clock.guard must be at most 2s".to_owned());
        }
        if self.horizon < Span::seconds(60) {
            return Err("clock.horizon must be at least 1m".to_owned());
        }
        if self.in_flight == 0 || self.in_flight_per_agent == 0 {
            return Err("clock.in_flight and clock.in_flight_per_agent must be at least 1".to_owned());
        }
        if self.arms_per_agent == 0 || self.requests_per_second == 0 || self.requests_at_once == 0 {
            return Err(
                "clock.arms_per_agent, clock.requests_per_second and clock.requests_at_once must be at least 1".to_owned()
            );
        }
        Ok(())
    }

    pub(crate) fn guard_us(&self) -> i64 {
        micros(self.guard.0)
    }
}

pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
