//! The clock's settings.

use std::time::Duration;

use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// `[clock]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long after its due time a fire is made. A stock agent that is called before its own clock has
    /// reached the due time loses the job for good, so this covers the difference between two machines'
    /// clocks. At most 2s. Default 100ms.
    pub guard: Span,
    /// How far ahead arms are held in memory. Default 15m.
    pub horizon: Span,
    /// Fires under way at once. Default 512.
    pub in_flight: usize,
    /// Fires under way at once to one agent. Default 8.
    pub in_flight_per_agent: usize,
    /// Fires under way at once to one host. Default 16.
    pub in_flight_per_host: usize,
    /// How long an agent has to answer a fire. Default 10s.
    pub attempt_timeout: Span,
    /// How long a fire is tried again before it is given up. Default 24h.
    pub give_up_after: Span,
    /// The same for a job whose next time is already known. Default 1h.
    pub give_up_for_next_after: Span,
    /// How long one node holds an arm before another may take it. Default 30s.
    pub lease: Span,
    /// Jobs that one agent may have armed. Default 1000.
    pub arms_per_agent: u32,
    /// Requests that one agent may make in a second. Default 50.
    pub requests_per_second: u32,
    /// What fire tokens are signed with: `ES256` or `RS256`. Default ES256.
    pub signing: vault::Algorithm,
    /// Whether agents that are slow to wake are poked ahead of their due time. Default false.
    pub pre_wake: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            guard: Span::millis(100),
            horizon: Span::seconds(15 * 60),
            in_flight: 512,
            in_flight_per_agent: 8,
            in_flight_per_host: 16,
            attempt_timeout: Span::seconds(10),
            give_up_after: Span::seconds(24 * 3600),
            give_up_for_next_after: Span::seconds(3600),
            lease: Span::seconds(30),
            arms_per_agent: 1000,
            requests_per_second: 50,
            signing: vault::Algorithm::Es256,
            pre_wake: false,
        }
    }
}

impl Config {
    /// Relations between settings that must hold, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.guard > Span::seconds(2) {
            return Err("clock.guard must be at most 2s".to_owned());
        }
        if self.lease.0 < self.attempt_timeout.0 + Duration::from_secs(5) {
            return Err("clock.lease must outlast clock.attempt_timeout by 5s".to_owned());
        }
        if self.horizon < Span::seconds(60) {
            return Err("clock.horizon must be at least 1m".to_owned());
        }
        if self.in_flight == 0 || self.in_flight_per_agent == 0 || self.in_flight_per_host == 0 {
            return Err("clock.in_flight and its shares must be at least 1".to_owned());
        }
        if self.arms_per_agent == 0 || self.requests_per_second == 0 {
            return Err("clock.arms_per_agent and clock.requests_per_second must be at least 1".to_owned());
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
