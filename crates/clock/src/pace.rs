//! How often one agent may ask.

use moka::sync::Cache;
use posthouse_time::Moment;
use posthouse_wire::InstanceId;
use std::time::Duration;

/// Requests a second for each instance, with a second's worth in hand.
pub(crate) struct Pace {
    /// When the budget of an instance will be whole again, in microseconds: one number says it all.
    whole_at: Cache<InstanceId, i64>,
    cost_us: i64,
}

impl Pace {
    pub fn new(per_second: u32) -> Self {
        Self {
            whole_at: Cache::builder().max_capacity(100_000).time_to_idle(Duration::from_secs(10)).build(),
            cost_us: 1_000_000 / i64::from(per_second.max(1)),
        }
    }

    /// Takes one request from the budget; false when there is none left.
    pub fn admits(&self, instance: &InstanceId, now: Moment) -> bool {
        let now_us = now.millis().saturating_mul(1000);
        let mut admitted = true;
        self.whole_at.entry_by_ref(instance).and_upsert_with(|found| {
            let found = found.map_or(now_us, moka::Entry::into_value);
            // A clock set back must not lock anybody out for the length of the step.
            let whole_at = if found > now_us + 1_000_000 { now_us } else { found.max(now_us) };
            admitted = whole_at + self.cost_us <= now_us + 1_000_000;
            if admitted { whole_at + self.cost_us } else { whole_at }
        });
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_s_worth_at_once_then_as_time_passes() {
        let pace = Pace::new(50);
        let (heron, now) = (InstanceId::new("inst_heron"), Moment::from_seconds(1_000));
        let admitted = |now| (0..100).filter(|_| pace.admits(&heron, now)).count();
        assert_eq!(admitted(now), 50);
        assert_eq!(admitted(now + Duration::from_millis(100)), 5);
        assert!(pace.admits(&InstanceId::new("inst_wren"), now));
        assert_eq!(admitted(now - Duration::from_secs(3600)), 50);
    }
}
