//! Due time of a job: the text as the agent wrote it, and the instant that it means.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A due time. Agents compare the text byte for byte, so it is kept next to the instant and never rewritten.
#[derive(Clone, PartialEq, Eq)]
pub struct FireAt {
    text: Arc<str>,
    due_us: i64,
}

/// Reason why a text is not a due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTime {
    #[error("is not an ISO 8601 date and time with an offset")]
    Unreadable,
    #[error("is longer than 64 characters")]
    TooLong,
}

impl FireAt {
    /// Reads ISO 8601 with `Z` or a numeric offset. Without an offset the instant would be ambiguous.
    pub fn parse(text: &str) -> Result<Self, BadTime> {
        if text.len() > 64 {
            return Err(BadTime::TooLong);
        }
        // A zone name in brackets could contradict the offset.
        if text.contains('[') || !text.contains(['T', 't', ' ']) {
            return Err(BadTime::Unreadable);
        }
        let instant: Timestamp = text.parse().map_err(|_| BadTime::Unreadable)?;
        // A time between two microseconds is due at the later one, so that it is never early.
        let (micros, rest) = (instant.as_nanosecond().div_euclid(1000), instant.as_nanosecond() % 1000);
        let due_us = i64::try_from(micros + i128::from(rest != 0)).map_err(|_| BadTime::Unreadable)?;
        Ok(Self { text: text.into(), due_us })
    }

    /// Writes the instant as agents do: UTC as `+00:00`, with microseconds unless they are zero.
    pub fn from_micros(due_us: i64) -> Self {
        let instant = Timestamp::from_microsecond(due_us).unwrap_or(Timestamp::MAX);
        let digits = if due_us.rem_euclid(1_000_000) == 0 { 0 } else { 6 };
        let text = format!("{instant:.digits$}");
        Self { text: text.replace('Z', "+00:00").into(), due_us: instant.as_microsecond() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Microseconds since the Unix epoch.
    pub fn due_us(&self) -> i64 {
        self.due_us
    }

    /// The first whole millisecond that is not before the due time.
    pub fn due_ms(&self) -> i64 {
        self.due_us.div_euclid(1000) + i64::from(self.due_us.rem_euclid(1000) != 0)
    }
}

impl fmt::Display for FireAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for FireAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl Serialize for FireAt {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for FireAt {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_stays_and_the_instant_is_what_it_means() {
        for (text, due_us) in [
            ("2026-06-18T12:34:56.123456+00:00", 1_781_786_096_123_456),
            ("2026-06-18T12:34:56Z", 1_781_786_096_000_000),
            ("2026-06-18T14:34:56+02:00", 1_781_786_096_000_000),
            ("2026-06-18T12:34:56.1234561Z", 1_781_786_096_123_457),
            ("1969-12-31T23:59:59.5Z", -500_000),
        ] {
            let due = FireAt::parse(text).unwrap();
            assert_eq!((due.text(), due.due_us()), (text, due_us));
        }
        assert_eq!(FireAt::parse("2026-06-18T12:34:56.000001Z").unwrap().due_ms(), 1_781_786_096_001);
    }

    #[test]
    fn what_names_no_instant_is_no_due_time() {
        for text in [
            "",
            "2026-06-18",
            "2026-06-18T12:34:56",
            "tomorrow",
            "2026-02-30T00:00:00Z",
            "2026-06-18T25:00:00Z",
            "1781786096",
            "2026-06-18T12:34:56+02:00[Europe/Berlin]",
        ] {
            assert_eq!(FireAt::parse(text), Err(BadTime::Unreadable), "{text}");
        }
        assert_eq!(FireAt::parse(&"2".repeat(65)), Err(BadTime::TooLong));
    }

    #[test]
    fn our_own_texts_are_those_that_agents_write() {
        assert_eq!(FireAt::from_micros(1_781_786_096_123_456).text(), "2026-06-18T12:34:56.123456+00:00");
        assert_eq!(FireAt::from_micros(1_781_786_096_000_000).text(), "2026-06-18T12:34:56+00:00");
    }
}
