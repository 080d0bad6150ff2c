//! Who dials. Decided from the header alone: a stock agent must be refused before its first frame.

use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use moka::sync::Cache;
use posthouse_time::Moment;
use posthouse_wire::GatewayId;
use posthouse_wire::token;
use vault::{Holder, Standing};

use crate::{Fault, Relay};

/// The address a request came from, after trusted proxies; the house puts it on every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(pub IpAddr);

/// What the door decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Welcome(Holder),
    /// Close 4401 with this reason, after this pause.
    Refused {
        reason: &'static str,
        pause: Duration,
    },
    /// Too many refusals: not even an upgrade.
    Barred,
}

/// Refusals of the last minute, by gateway id and by address.
pub(crate) struct Refusals {
    by_gateway: Cache<GatewayId, Tally>,
    by_address: Cache<IpAddr, Tally>,
}

/// How many there were in the minute that began then.
#[derive(Clone, Copy)]
struct Tally {
    since: Moment,
    count: u32,
}

/// Past this many in a minute the close is delayed.
const SLOW_AFTER: u32 = 10;
/// Past this many there is no upgrade at all.
const BAR_AFTER: u32 = 100;
/// The client waits patiently up to ten seconds for its upgrade.
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
    /// Counts one more refusal and says how long it shall take. Nothing when there were too many from
    /// that address.
    pub fn pause(
        &self,
        gateway: Option<GatewayId>,
        address: Option<IpAddr>,
        now: Moment,
    ) -> Option<Duration> {
        if self.is_barred(address, now) {
            return None;
        }
        let count = self.count(gateway, address, now);
        let pause = Duration::from_millis(250) * count.saturating_sub(SLOW_AFTER);
        (count <= BAR_AFTER).then_some(pause.min(SLOWEST))
    }

    fn count(&self, gateway: Option<GatewayId>, address: Option<IpAddr>, now: Moment) -> u32 {
        let by_gateway = gateway.map_or(0, |gateway| one_more(&self.by_gateway, gateway, now));
        let by_address = address.map_or(0, |address| one_more(&self.by_address, address, now));
        by_gateway.max(by_address)
    }

    /// By address only, since a gateway's name is no secret: whoever knows it could lock its agent out.
    fn is_barred(&self, address: Option<IpAddr>, now: Moment) -> bool {
        let tally = address.and_then(|address| self.by_address.get(&address));
        tally.is_some_and(|tally| tally.count > BAR_AFTER && now.since(tally.since) < MINUTE)
    }
}

fn one_more<K: Hash + Eq + Send + Sync + 'static>(of: &Cache<K, Tally>, key: K, now: Moment) -> u32 {
    let upserted = of.entry(key).and_upsert_with(|found| match found.map(moka::Entry::into_value) {
        Some(tally) if now.since(tally.since) < MINUTE => {
            Tally { count: tally.count.saturating_add(1), ..tally }
        }
        _ => Tally { since: now, count: 1 },
    });
    upserted.into_value().count
}

/// The token of an `Authorization: Bearer` header.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Relay {
    pub(crate) async fn judge(&self, headers: &HeaderMap, caller: Option<Caller>) -> Result<Verdict, Fault> {
        let address = caller.map(|caller| caller.0);
        let now = self.0.timepiece.now();
        let presented = bearer(headers).unwrap_or_default();
        let leeway = i64::try_from(self.0.config.token_leeway.0.as_secs()).unwrap_or(i64::MAX);
        let reason = match self.0.keyring.judge(presented).await? {
            Standing::Good(holder) => return Ok(Verdict::Welcome(holder)),
            // A laptop that slept between minting and dialing must not disable itself for good.
            Standing::Expired { holder, late_seconds } if late_seconds <= leeway => {
                return Ok(Verdict::Welcome(holder));
            }
            Standing::Expired { .. } => "expired",
            Standing::Refused => "unauthorized",
        };
        // Only now: many agents may call from behind one address, and one of them must not lock out the rest.
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
        let (refusals, now) = (Refusals::default(), Moment::from_seconds(1_000));
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
    fn a_gateway_that_is_refused_every_half_minute_is_never_slowed_down() {
        let refusals = Refusals::default();
        for dial in 0..1_000 {
            let now = Moment::from_seconds(dial * 30);
            assert!(refusals.count(Some("gw".into()), Some([127, 0, 0, 1].into()), now) <= 2);
        }
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
