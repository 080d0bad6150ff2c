//! `Span`: a duration as written in the configuration, such as `15m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `250ms`, `4s`, `15m`, `24h` or `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    pub const fn millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a duration: write a number followed by ms, s, m, h or d");
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(digits);
        let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(factor).map(Self::millis).ok_or_else(wrong)
    }
}

/// Uses the largest unit that is exact.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (unit, factor) =
            UNITS.iter().rev().find(|(_, factor)| millis % factor == 0 && millis > 0).unwrap_or(&UNITS[1]);
        write!(f, "{}{unit}", millis / factor)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_back_as_they_were_written() {
        for text in ["250ms", "4s", "90s", "15m", "24h", "7d", "0s"] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span, span.to_string().parse().unwrap(), "{text}");
        }
        assert_eq!(Span::seconds(86_400).to_string(), "1d");
        for wrong in ["", "4", "s", "-4s", "4 s", "4y", "99999999999999999999d"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }
}
