//! What becomes of times that went by: the job's own policy decides.

use ledger::Arm;
use posthouse_wire::cron::{FireAt, Missed};

/// What to do about an arm whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Make the fire.
    Fire,
    /// Pass over its time and those named after it; go on with the next known one, if there is any.
    PassOver { also: Vec<FireAt>, next: Option<FireAt>, then: Vec<FireAt> },
}

/// Lateness below this is nobody's miss: the house is busy, not back from the dead.
const IN_TIME_US: i64 = 1_000_000;

/// Decides at the first attempt; a series under way goes on as it began.
pub(crate) fn decide(arm: &Arm, now_us: i64) -> Turn {
    let late = |time: &FireAt| now_us.saturating_sub(time.due_us());
    let jitter_us = i64::from(arm.policy.jitter) * 1_000_000;
    if arm.attempts > 0 || late(&arm.fire_at) <= IN_TIME_US.saturating_add(jitter_us) {
        return Turn::Fire;
    }
    let times: Vec<&FireAt> = std::iter::once(&arm.fire_at).chain(&arm.then).collect();
    let goes_on_with = match arm.policy.missed {
        // The first whose time is not too long past, or still to come.
        Missed::Skip | Missed::All => {
            times.iter().position(|time| late(time) <= arm.policy.window_us()).unwrap_or(times.len())
        }
        // The last whose time has come; this one, if no later one has.
        Missed::Once => times.iter().rposition(|time| late(time) >= 0).unwrap_or(0),
    };
    if goes_on_with == 0 {
        return Turn::Fire;
    }
    let mut rest = arm.then.clone();
    let also: Vec<FireAt> = rest.drain(..(goes_on_with - 1).min(arm.then.len())).collect();
    let next = (!rest.is_empty()).then(|| rest.remove(0));
    Turn::PassOver { also, next, then: rest }
}
