//! Log of refusals by full inboxes: one line per interval, however many entries were refused.

use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::Instant;
use posthouse_wire::InstanceId;

/// Shortest time between two log lines.
const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(crate) struct FullInboxes(Mutex<Unreported>);

#[derive(Default)]
struct Unreported {
    entries: u64,
    next_line: Option<Instant>,
}

impl FullInboxes {
    pub fn refused(&self, last: &InstanceId, now: Instant) {
        if let Some(entries) = self.count(now) {
            tracing::warn!(entries, last.instance.id = %last, "refused entries because inboxes are full");
        }
    }

    /// Counts one refusal. Returns the number to report, if a log line is due.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut unreported = self.0.lock();
        unreported.entries += 1;
        if unreported.next_line.is_some_and(|next| now < next) {
            return None;
        }
        unreported.next_line = Some(now + INTERVAL);
        Some(std::mem::take(&mut unreported.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_log_line_per_interval_not_per_entry() {
        let (full, start) = (FullInboxes::default(), Instant::default());
        assert_eq!(full.count(start), Some(1), "the first refusal is reported at once");
        for second in 0..60 {
            assert_eq!(full.count(start + Duration::from_secs(second)), None);
        }
        assert_eq!(full.count(start + INTERVAL), Some(61));
    }
}
