//! Real time: the only place of the benchmarks that reads the system clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds of the wall clock since the epoch. Fires are due by this clock and measured with it.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time, finer than the timepiece has it")]
pub fn wall_micros() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
}

#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Nanoseconds since the start; never 0, because 0 means "not yet".
    pub fn nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Returns when `at` has passed since the start.
    pub async fn until(&self, at: Duration) {
        tokio::time::sleep_until((self.0 + at).into()).await;
    }
}
