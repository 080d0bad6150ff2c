//! Checks of a fire token's claims. Pure: the keys and the time are arguments.

use posthouse_time::Moment;
use posthouse_wire::cron::PURPOSE;
use posthouse_wire::jwt::{CompactToken, KeySet};
use serde_json::{Map, Value};

/// Allowed difference in seconds between the portal's clock and this one.
const LEEWAY: f64 = 30.0;

/// The claims of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims(Map<String, Value>);

impl Claims {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A claim that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}

/// The claims of a fire token that is signed by one of `keys`, issued for this agent and valid now. `None`
/// for any other text. An empty audience or an empty set of keys refuses everything.
pub fn check_claims(
    token: &str,
    expected_audience: &str,
    keys: &KeySet,
    issuer: Option<&str>,
    now: Moment,
) -> Option<Claims> {
    let token = FireToken::read(token)?;
    if token.holds(expected_audience, issuer, now) { token.judged_by(keys) } else { None }
}

/// A parsed fire token. Its signature has not been checked.
pub(super) struct FireToken<'a>(CompactToken<'a>);

impl<'a> FireToken<'a> {
    /// `None` for a text that is not a token, or one that no key could make valid.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        CompactToken::read(text).map(Self)
    }

    /// The id of the key that signed it, as the token states it.
    pub(super) fn kid(&self) -> Option<&str> {
        self.0.kid.as_deref()
    }

    /// Like [`check_claims`], for a token whose shape and claims have been checked.
    pub(super) fn judged_by(self, keys: &KeySet) -> Option<Claims> {
        keys.signed(&self.0).then_some(Claims(self.0.claims))
    }

    /// Whether its claims are valid, provided that the signature is.
    pub(super) fn holds(&self, expected_audience: &str, issuer: Option<&str>, now: Moment) -> bool {
        let now = now.millis() as f64 / 1000.0;
        self.addresses(expected_audience)
            && self.comes_from(issuer)
            && self.seconds("exp").is_some_and(|exp| exp > now - LEEWAY)
            && self.reached("nbf", now)
            && self.reached("iat", now)
            && self.text_or_absent("sub")
            && self.text_or_absent("jti")
            && self.0.claims.get("purpose").is_some_and(|purpose| purpose == PURPOSE)
    }

    fn addresses(&self, expected: &str) -> bool {
        !expected.is_empty()
            && match self.0.claims.get("aud") {
                Some(Value::String(audience)) => audience == expected,
                Some(Value::Array(several)) => {
                    several.iter().all(Value::is_string)
                        && several.iter().any(|audience| audience == expected)
                }
                _ => false,
            }
    }

    fn comes_from(&self, issuer: Option<&str>) -> bool {
        match issuer.filter(|issuer| !issuer.is_empty()) {
            Some(issuer) => self.0.claims.get("iss").is_some_and(|claimed| claimed == issuer),
            None => true,
        }
    }

    /// Fractions are cut off, as stock does. A number in a text does not count as a number.
    fn seconds(&self, name: &str) -> Option<f64> {
        self.0.claims.get(name)?.as_f64().map(f64::trunc)
    }

    fn reached(&self, name: &str, now: f64) -> bool {
        !self.0.claims.contains_key(name) || self.seconds(name).is_some_and(|at| at <= now + LEEWAY)
    }

    fn text_or_absent(&self, name: &str) -> bool {
        self.0.claims.get(name).is_none_or(Value::is_string)
    }
}
