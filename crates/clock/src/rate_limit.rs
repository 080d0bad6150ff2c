//! Rate limit of cron requests per agent.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_time::Instant;
use posthouse_wire::InstanceId;

/// Rate limit per instance. It allows a burst, because a stock agent reconciles all its jobs when it starts.
pub(crate) struct RateLimit {
    budgets: Cache<InstanceId, Budget>,
    /// Cost of one request, as time.
    cost: Duration,
    /// Size of a full budget, as time.
    full: Duration,
}

/// What one instance has used of its budget.
#[derive(Clone, Copy)]
struct Budget {
    /// Time at which the budget is full again.
    full_at: Instant,
    /// The latest time of a request. Requests that run in parallel may read the clock in one order and get here in
    /// the other. An earlier time must not make the budget look emptier than it is.
    latest: Instant,
}

impl RateLimit {
    pub fn new(per_second: u32, at_once: u32) -> Self {
        let cost = Duration::from_secs(1) / per_second.max(1);
        let full = cost * at_once.max(1);
        // An evicted entry counts as a full budget, so entries stay at least until the budget is full.
        let remembered = full + Duration::from_secs(10);
        Self { budgets: Cache::builder().max_capacity(100_000).time_to_idle(remembered).build(), cost, full }
    }

    /// Takes one request from the budget. False if the budget is empty.
    pub fn admits(&self, instance: &InstanceId, now: Instant) -> bool {
        let mut admitted = true;
        self.budgets.entry_by_ref(instance).and_upsert_with(|found| {
            let found = found.map_or(Budget { full_at: now, latest: now }, moka::Entry::into_value);
            let latest = found.latest.max(now);
            let full_at = found.full_at.max(latest);
            admitted = full_at + self.cost <= latest + self.full;
            Budget { full_at: if admitted { full_at + self.cost } else { full_at }, latest }
        });
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provisioning_paces_at_50_per_second_but_allows_a_burst_of_1000() {
        let limit = RateLimit::new(50, 1000);
        let (heron, now) = (InstanceId::new("inst_heron"), Instant::default());
        let admitted = |now| (0..2000).filter(|_| limit.admits(&heron, now)).count();
        assert_eq!(admitted(now), 1000);
        assert_eq!(admitted(now + Duration::from_millis(100)), 5);
        assert_eq!(admitted(now + Duration::from_millis(1100)), 50);
        assert!(limit.admits(&InstanceId::new("inst_wren"), now));
        assert_eq!(admitted(now + Duration::from_secs(60)), 1000);
    }
    #[test]
    fn a_request_that_read_the_clock_before_another_but_is_counted_after_it_is_admitted() {
        let limit = RateLimit::new(1_000_000, 1000);
        let (heron, early) = (InstanceId::new("inst_heron"), Instant::default());
        assert!(limit.admits(&heron, early + Duration::from_millis(20)));
        assert!(limit.admits(&heron, early));
    }
}
