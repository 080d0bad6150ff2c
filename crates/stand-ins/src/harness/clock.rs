//! The clock of a stand-in: the system's, moved forward on demand.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

/// A platform has a clock of its own. A test moves it forward to let tokens expire and rate limits pass.
#[derive(Default)]
pub(super) struct PlatformClock {
    ahead_ms: AtomicI64,
}

impl PlatformClock {
    /// Milliseconds since 1970.
    #[expect(
        clippy::disallowed_methods,
        reason = "a platform has a clock of its own, and knows no Timepiece"
    )]
    pub fn unix_ms(&self) -> i64 {
        let system = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        system.saturating_add(self.ahead_ms.load(Ordering::Relaxed))
    }

    pub fn advance(&self, by: Duration) {
        self.ahead_ms.fetch_add(i64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }
}
