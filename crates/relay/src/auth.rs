//! Authentication of connecting agents, and throttling after failed attempts.
//!
//! The decision uses the header only, because a stock agent must be refused before its first frame.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use moka::sync::Cache;
use posthouse_time::Instant;
use posthouse_wire::GatewayId;
use posthouse_wire::token;
use vault::{CredentialCheck, Holder};

use crate::{Fault, Relay};

/// The client address of a request, after trusted proxies. The server adds it to every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(pub IpAddr);

/// The part of an address that counts as one peer. An IPv6 host usually has all 2^64 addresses of its network.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// Result of checking a connection attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Welcome(Holder),
    /// Close 4401 with this reason, after this pause.
    Refused {
        reason: &'static str,
        pause: Duration,
    },
    /// Too many refusals: answered without an upgrade.
    Barred,
}

/// Counts of refusals in the last minute, by gateway id and by address.
pub(crate) struct Refusals {
    by_gateway: Cache<GatewayId, Tally>,
    by_address: Cache<IpAddr, Tally>,
}

/// Number of refusals in the minute that began at `since`.
#[derive(Clone, Copy)]
struct Tally {
    since: Instant,
    count: u32,
}

/// Above this number per minute the close is delayed.
const SLOW_AFTER: u32 = 10;
/// Above this number per minute the upgrade is refused.
const BAR_AFTER: u32 = 100;
/// Longest delay. A stock agent waits up to ten seconds for its upgrade.
const SLOWEST: Duration = Duration::from_secs(5);
const MINUTE: Duration = Duration::from_secs(60);

impl Default for Refusals {
    fn default() -> Self {
        Self {
            by_gateway: Cache::builder().max_capacity(10_000).time_to_idle(2 * MINUTE).build(),
            by_address: Cache::builder().max_capacity(10_000).time_to_idle(2 * MINUTE).build(),
        }
    }
}

impl Refusals {
    /// Counts one more refusal and returns how long to delay its answer. Returns `None` when there were too many
    /// from that address.
    pub fn pause(
        &self,
        gateway: Option<GatewayId>,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Option<Duration> {
        if self.is_barred(address, now) {
            return None;
        }
        let count = self.count(gateway, address, now);
        let pause = Duration::from_millis(250) * count.saturating_sub(SLOW_AFTER);
        (count <= BAR_AFTER).then_some(pause.min(SLOWEST))
    }

    fn count(&self, gateway: Option<GatewayId>, address: Option<IpAddr>, now: Instant) -> u32 {
        let by_gateway = gateway.map_or(0, |gateway| one_more(&self.by_gateway, gateway, now));
        let by_address = address.map_or(0, |address| one_more(&self.by_address, network(address), now));
        by_gateway.max(by_address)
    }

    /// Barred by address only: a gateway id is not secret, and anyone who knows it could lock its agent out.
    fn is_barred(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let tally = address.and_then(|address| self.by_address.get(&network(address)));
        tally.is_some_and(|tally| tally.count > BAR_AFTER && now.since(tally.since) < MINUTE)
    }
}

fn one_more<K: Hash + Eq + Send + Sync + 'static>(of: &Cache<K, Tally>, key: K, now: Instant) -> u32 {
    let upserted = of.entry(key).and_upsert_with(|found| match found.map(moka::Entry::into_value) {
        Some(tally) if now.since(tally.since) < MINUTE => {
            Tally { count: tally.count.saturating_add(1), ..tally }
        }
        _ => Tally { since: now, count: 1 },
    });
    upserted.into_value().count
}

/// The only `Authorization` header. `None` when there are several, because a proxy in front may have checked another
/// one than we would.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut presented = headers.get_all(AUTHORIZATION).iter();
    presented.next().filter(|_| presented.next().is_none())
}

/// The token of an `Authorization: Bearer` header.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = authorization(headers)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Relay {
    pub(crate) async fn judge(&self, headers: &HeaderMap, caller: Option<Caller>) -> Result<Verdict, Fault> {
        let address = caller.map(|caller| caller.0);
        let now = self.0.timepiece.instant();
        let presented = bearer(headers).unwrap_or_default();
        let leeway = i64::try_from(self.0.config.token_leeway.0.as_secs()).unwrap_or(i64::MAX);
        let reason = match self.0.keyring.judge(presented).await? {
            CredentialCheck::Good(holder) => return Ok(Verdict::Welcome(holder)),
            // A laptop that slept between making the token and connecting must not disable itself permanently.
            CredentialCheck::Expired { holder, late_seconds } if late_seconds <= leeway => {
                return Ok(Verdict::Welcome(holder));
            }
            CredentialCheck::Expired { .. } => "expired",
            CredentialCheck::Refused => "unauthorized",
        };
        // Counted only after the check: many agents may share one address, and one must not lock out the others.
        Ok(match self.0.refusals.pause(token::claimed_gateway(presented), address, now) {
            Some(pause) => Verdict::Refused { reason, pause },
            None => Verdict::Barred,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_gateway_and_by_address() {
        let (refusals, now) = (Refusals::default(), Instant::default());
        let (here, there): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        for expected in 1..=BAR_AFTER + 1 {
            assert_eq!(refusals.count(Some("gw".into()), Some(here), now), expected);
        }
        assert!(refusals.is_barred(Some(here), now));
        assert!(!refusals.is_barred(Some(there), now));
        assert_eq!(refusals.count(Some("gw".into()), Some(there), now), BAR_AFTER + 2);
        assert!(!refusals.is_barred(Some(here), now + MINUTE));
    }

    #[test]
    fn refusals_of_one_ipv6_network_are_counted_together() {
        let (refusals, now) = (Refusals::default(), Instant::default());
        let address = |text: &str| Some(text.parse().unwrap());
        for host in 0..=BAR_AFTER {
            refusals.count(None, address(&format!("2001:db8::1:{host:x}")), now);
        }
        assert!(refusals.is_barred(address("2001:db8::2"), now));
        assert!(!refusals.is_barred(address("2001:db8:0:1::2"), now));
        assert_ne!(network([192, 0, 2, 1].into()), network([192, 0, 2, 2].into()));
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), IpAddr::from([192, 0, 2, 1]));
    }

    #[test]
    fn a_gateway_that_is_refused_every_half_minute_is_never_slowed_down() {
        let refusals = Refusals::default();
        for dial in 0..1_000 {
            let now = Instant::default() + Duration::from_secs(dial * 30);
            assert!(refusals.count(Some("gw".into()), Some([127, 0, 0, 1].into()), now) <= 2);
        }
    }

    #[test]
    fn two_authorization_headers_are_refused() {
        let mut headers = HeaderMap::new();
        headers.append(AUTHORIZATION, "Bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), Some("abc"));
        headers.append(AUTHORIZATION, "Bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), None, "even if they say the same");
    }

    #[test]
    fn only_a_bearer_token_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer(&headers), None);
        headers.insert(AUTHORIZATION, "bearer abc".parse().unwrap());
        assert_eq!(bearer(&headers), Some("abc"));
        headers.insert(AUTHORIZATION, "Basic abc".parse().unwrap());
        assert_eq!(bearer(&headers), None);
    }
}
