//! Entries that waited too long: the line that marks one as late, and those that are not handed over any more.

use std::time::Duration;

use ledger::{Entry, StaleAction};
use posthouse_time::Instant;
use posthouse_wire::Event;
use posthouse_wire::event::{ContextLine, Speaker};

use crate::media::PreparedEvent;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Whether the entry is due to expire, so that it must not be handed over.
pub(super) fn is_expired(entry: &Entry, now: Instant) -> bool {
    entry.stale.is_some_and(|stale| stale.policy.action == StaleAction::Expire && now >= stale.due)
}

/// The event with a line that says how old it is, if its policy asks for one and it is late. `prepared` is the event
/// for the wire, if it is not the stored one.
pub(super) fn marked(entry: &Entry, prepared: Option<&PreparedEvent>, now: Instant) -> Option<PreparedEvent> {
    let stale = entry.stale.filter(|stale| stale.policy.action == StaleAction::Mark && now >= stale.due)?;
    let mut event: Event = serde_json::from_slice(prepared.unwrap_or(&entry.event)).ok()?;
    let age = ago(stale.policy.after + now.since(stale.due));
    event.context.push(ContextLine {
        text: format!("This message is late: it was written {age} ago."),
        source: Speaker { user_name: Some("Posthouse".to_owned()), ..Speaker::default() },
    });
    Some(PreparedEvent::from(event.to_json()))
}

/// A time in its two largest units.
fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    let (large, small) = match seconds {
        DAY.. => ((seconds / DAY, "d"), (seconds % DAY / HOUR, "h")),
        HOUR.. => ((seconds / HOUR, "h"), (seconds % HOUR / MINUTE, "min")),
        MINUTE.. => ((seconds / MINUTE, "min"), (0, "s")),
        _ => ((seconds, "s"), (0, "")),
    };
    match small.0 {
        0 => format!("{} {}", large.0, large.1),
        _ => format!("{} {} {} {}", large.0, large.1, small.0, small.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_its_two_largest_units() {
        for (seconds, told) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h"),
            (8045, "2 h 14 min"),
            (86_400, "1 d"),
            (86_400 * 3 + 7200, "3 d 2 h"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), told);
        }
    }
}
