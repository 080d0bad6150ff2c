//! Limit for calls that Discord forbids: it blocks the whole server's address after ten thousand of them in ten minutes.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_time::{Instant, Timepiece};

use crate::platform_calls::CallRefusal;

/// Refusals of one kind after which it is no longer asked.
const MOST: u32 = 5;
const PERIOD: Duration = Duration::from_secs(60);

/// Recent refusals, by what they are counted for. Clones share one state.
#[derive(Clone)]
pub(super) struct RefusalLimit {
    counted: Cache<String, CountedRefusals>,
    timepiece: Timepiece,
}

#[derive(Clone)]
struct CountedRefusals {
    since: Instant,
    count: u32,
    last: CallRefusal,
}

impl RefusalLimit {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { counted: Cache::builder().max_capacity(50_000).build(), timepiece }
    }

    /// The last refusal, if there were too many in the last minute. The call is then not made.
    pub fn standing(&self, of: &str) -> Option<CallRefusal> {
        let counted = self.counted.get(of).filter(|counted| self.is_recent(counted))?;
        (counted.count >= MOST).then_some(counted.last)
    }

    pub fn note(&self, of: &str, refusal: &CallRefusal) {
        let known = self.counted.get(of).filter(|counted| self.is_recent(counted));
        let (since, count) =
            known.map_or_else(|| (self.timepiece.instant(), 0), |known| (known.since, known.count));
        let counted = CountedRefusals { since, count: count + 1, last: refusal.clone() };
        self.counted.insert(of.to_owned(), counted);
    }

    fn is_recent(&self, counted: &CountedRefusals) -> bool {
        self.timepiece.instant().since(counted.since) < PERIOD
    }
}
