//! Log of refused token refreshes: one line per login and interval, however often its holder asks.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_time::Instant;
use posthouse_wire::LoginId;

/// Shortest time between two log lines about one login.
const INTERVAL: Duration = Duration::from_secs(600);

pub(crate) struct RefreshLog(Cache<LoginId, Instant>);

impl Default for RefreshLog {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(10_000).time_to_idle(INTERVAL).build())
    }
}

impl RefreshLog {
    /// Whether a log line about this login is due. If so, it counts as written.
    pub fn is_due(&self, login: &LoginId, now: Instant) -> bool {
        if self.0.get(login).is_some_and(|last| now < last + INTERVAL) {
            return false;
        }
        self.0.insert(login.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_log_line_per_login_and_interval_not_per_refresh() {
        let (log, start) = (RefreshLog::default(), Instant::default());
        let (one, other) = (LoginId::from("log_1"), LoginId::from("log_2"));
        assert!(log.is_due(&one, start), "the first is reported at once");
        for second in 0..600 {
            assert!(!log.is_due(&one, start + Duration::from_secs(second)));
        }
        assert!(log.is_due(&other, start), "whatever happens to another login");
        assert!(log.is_due(&one, start + INTERVAL));
    }
}
