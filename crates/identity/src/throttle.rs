//! Throttling of failed logins: wrong credentials get slower answers, and then none.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_kit::network;
use moka::sync::Cache;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::GatewayId;

use crate::Metrics;

/// Above this number per minute the answer is delayed.
const SLOW_AFTER: u32 = 10;
/// Above this number per minute credentials are refused unchecked.
const BAR_AFTER: u32 = 100;
/// Longest delay. A stock agent waits up to ten seconds for its upgrade.
const SLOWEST: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);
/// The longest gateway id that is counted, in bytes; ours are shorter. The id is the peer's own word, so without a limit
/// a peer could fill the memory with long ones.
const LONGEST_ID: usize = 256;

/// Slows down whoever presents wrong credentials. Clones share their counts.
#[derive(Clone)]
pub struct Throttle {
    failures: Arc<FailedAttempts>,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
}

impl Throttle {
    pub(crate) fn new(metrics: Arc<Metrics>, timepiece: Timepiece) -> Self {
        Self { failures: Arc::default(), metrics, timepiece }
    }

    /// Counts one more failure of this address and waits for the resulting delay. Returns false, without delay, when
    /// there were too many. `why` is a metric label.
    pub(crate) async fn slow_down(&self, address: Option<IpAddr>, why: &'static str) -> bool {
        let pause = self.failures.pause(None, address, self.timepiece.instant());
        self.metrics.count_token(if pause.is_some() { why } else { "barred" });
        self.timepiece.after(pause.unwrap_or_default()).await;
        pause.is_some()
    }

    /// The same for an agent that connects. It is also counted by the gateway id that its token names.
    pub(crate) async fn slow_down_gateway(
        &self,
        gateway: Option<GatewayId>,
        address: Option<IpAddr>,
    ) -> bool {
        let pause = self.failures.pause(gateway, address, self.timepiece.instant());
        self.timepiece.after(pause.unwrap_or_default()).await;
        pause.is_some()
    }
}

/// Counts of failures in the last minute, by gateway id and by address.
struct FailedAttempts {
    by_gateway: Cache<GatewayId, FailureCount>,
    by_address: Cache<IpAddr, FailureCount>,
}

/// Number of failures in the minute that began at `since`.
#[derive(Clone, Copy)]
struct FailureCount {
    since: Instant,
    count: u32,
}

impl Default for FailedAttempts {
    fn default() -> Self {
        Self {
            by_gateway: Cache::builder().max_capacity(10_000).time_to_idle(2 * MINUTE).build(),
            by_address: Cache::builder().max_capacity(10_000).time_to_idle(2 * MINUTE).build(),
        }
    }
}

impl FailedAttempts {
    /// Counts one more failure and returns how long to delay its answer. Returns `None` when there were too many from
    /// that address.
    fn pause(&self, gateway: Option<GatewayId>, address: Option<IpAddr>, now: Instant) -> Option<Duration> {
        if self.is_barred(address, now) {
            return None;
        }
        let count = self.count(gateway, address, now);
        let pause = Duration::from_millis(250) * count.saturating_sub(SLOW_AFTER);
        (count <= BAR_AFTER).then_some(pause.min(SLOWEST))
    }

    fn count(&self, gateway: Option<GatewayId>, address: Option<IpAddr>, now: Instant) -> u32 {
        let gateway = gateway.filter(|gateway| gateway.as_str().len() <= LONGEST_ID);
        let by_gateway = gateway.map_or(0, |gateway| one_more(&self.by_gateway, gateway, now));
        let by_address = address.map_or(0, |address| one_more(&self.by_address, network(address), now));
        by_gateway.max(by_address)
    }

    /// Barred by address only: a gateway id is not secret, and anyone who knows it could lock its agent out.
    fn is_barred(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let failures = address.and_then(|address| self.by_address.get(&network(address)));
        failures.is_some_and(|failures| failures.count > BAR_AFTER && now.since(failures.since) < MINUTE)
    }
}

fn one_more<K: Hash + Eq + Send + Sync + 'static>(of: &Cache<K, FailureCount>, key: K, now: Instant) -> u32 {
    let upserted = of.entry(key).and_upsert_with(|found| match found.map(moka::Entry::into_value) {
        Some(failures) if now.since(failures.since) < MINUTE => {
            FailureCount { count: failures.count.saturating_add(1), ..failures }
        }
        _ => FailureCount { since: now, count: 1 },
    });
    upserted.into_value().count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_gateway_and_by_address() {
        let (failures, now) = (FailedAttempts::default(), Instant::default());
        let (here, there): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        for expected in 1..=BAR_AFTER + 1 {
            assert_eq!(failures.count(Some("gw".into()), Some(here), now), expected);
        }
        assert!(failures.is_barred(Some(here), now));
        assert!(!failures.is_barred(Some(there), now));
        assert_eq!(failures.count(Some("gw".into()), Some(there), now), BAR_AFTER + 2);
        assert!(!failures.is_barred(Some(here), now + MINUTE));
    }

    #[test]
    fn failures_of_one_ipv6_network_are_counted_together() {
        let (failures, now) = (FailedAttempts::default(), Instant::default());
        let address = |text: &str| Some(text.parse().unwrap());
        for host in 0..=BAR_AFTER {
            failures.count(None, address(&format!("2001:db8::1:{host:x}")), now);
        }
        assert!(failures.is_barred(address("2001:db8::2"), now));
        assert!(!failures.is_barred(address("2001:db8:0:1::2"), now));
    }

    #[test]
    fn a_gateway_id_that_is_too_long_is_not_kept() {
        let (failures, now) = (FailedAttempts::default(), Instant::default());
        for length in [LONGEST_ID, LONGEST_ID + 1] {
            failures.count(Some("x".repeat(length).into()), Some([127, 0, 0, 1].into()), now);
        }
        failures.by_gateway.run_pending_tasks();
        failures.by_address.run_pending_tasks();
        assert_eq!(failures.by_gateway.entry_count(), 1);
        assert_eq!(
            failures.count(None, Some([127, 0, 0, 1].into()), now),
            3,
            "both count against the address"
        );
    }

    #[test]
    fn a_gateway_that_is_refused_every_half_minute_is_never_slowed_down() {
        let failures = FailedAttempts::default();
        for dial in 0..1_000 {
            let now = Instant::default() + Duration::from_secs(dial * 30);
            assert!(failures.count(Some("gw".into()), Some([127, 0, 0, 1].into()), now) <= 2);
        }
    }
}
