//! The stand-in's own clock.

/// Milliseconds since 1970. A platform is an external party with its own clock, so this is the only place
/// in this crate that reads the system clock.
#[expect(clippy::disallowed_methods, reason = "a platform has a clock of its own, and knows no Timepiece")]
pub(super) fn unix_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Seconds since 1970, as the Bot API writes dates.
pub(super) fn unix_s() -> i64 {
    unix_ms() / 1000
}
