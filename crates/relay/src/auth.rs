//! Who dials. Decided from the header alone: a stock agent must be refused before its first frame.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use moka::sync::Cache;
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
    Refused { reason: &'static str, pause: Duration },
    /// Too many refusals: not even an upgrade.
    Barred,
}

/// Refusals of the last minute, by gateway id and by address.
pub(crate) struct Refusals {
    by_gateway: Cache<GatewayId, u32>,
    by_address: Cache<IpAddr, u32>,
}

/// Past this many in a minute the close is delayed.
const SLOW_AFTER: u32 = 10;
/// Past this many there is no upgrade at all.
const BAR_AFTER: u32 = 100;
/// The client waits patiently up to ten seconds for its upgrade.
const SLOWEST: Duration = Duration::from_secs(5);

impl Default for Refusals {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self {
            by_gateway: Cache::builder().max_capacity(10_000).time_to_live(minute).build(),
            by_address: Cache::builder().max_capacity(10_000).time_to_live(minute).build(),
        }
    }
}

impl Refusals {
    fn count(&self, gateway: Option<GatewayId>, address: Option<IpAddr>) -> u32 {
        let more = |count: Option<u32>| count.unwrap_or(0).saturating_add(1);
        let by_gateway = gateway.map_or(0, |gateway| {
            let count = more(self.by_gateway.get(&gateway));
            self.by_gateway.insert(gateway, count);
            count
        });
        let by_address = address.map_or(0, |address| {
            let count = more(self.by_address.get(&address));
            self.by_address.insert(address, count);
            count
        });
        by_gateway.max(by_address)
    }

    fn is_barred(&self, address: Option<IpAddr>) -> bool {
        address.is_some_and(|address| self.by_address.get(&address).is_some_and(|count| count > BAR_AFTER))
    }
}

/// The token of an `Authorization: Bearer` header.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Relay {
    pub(crate) async fn judge(&self, headers: &HeaderMap, caller: Option<Caller>) -> Result<Verdict, Fault> {
        let address = caller.map(|caller| caller.0);
        if self.0.refusals.is_barred(address) {
            return Ok(Verdict::Barred);
        }
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
        let count = self.0.refusals.count(token::claimed_gateway(presented), address);
        let pause = Duration::from_millis(250) * count.saturating_sub(SLOW_AFTER);
        Ok(Verdict::Refused { reason, pause: pause.min(SLOWEST) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_gateway_and_by_address() {
        let refusals = Refusals::default();
        let here: IpAddr = [127, 0, 0, 1].into();
        for expected in 1..=BAR_AFTER + 1 {
            assert_eq!(refusals.count(Some("gw".into()), Some(here)), expected);
        }
        assert!(refusals.is_barred(Some(here)));
        assert!(!refusals.is_barred(Some([127, 0, 0, 2].into())));
        assert_eq!(refusals.count(Some("gw".into()), Some([127, 0, 0, 2].into())), BAR_AFTER + 2);
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
