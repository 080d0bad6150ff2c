//! Missed due times: decides by the job's policy which are made up for and which are skipped.

use ledger::Arm;
use posthouse_wire::cron::{FireAt, Missed};

/// Decision about an arm that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MissedDecision {
    /// Fire it.
    Fire,
    /// Skip its time and the times in `also`. Continue with the next known time, if there is one.
    PassOver { also: Vec<FireAt>, next: Option<FireAt>, then: Vec<FireAt> },
}

/// A fire that is less late than this is not missed: the server is busy, but was not down.
const IN_TIME_US: i64 = 1_000_000;

/// Decides at the first attempt only. Retries always go on.
pub(crate) fn decide(arm: &Arm, now_us: i64) -> MissedDecision {
    let late = |time: &FireAt| now_us.saturating_sub(time.due_us());
    let jitter_us = i64::from(arm.policy.jitter) * 1_000_000;
    if arm.attempts > 0 || late(&arm.fire_at) <= IN_TIME_US.saturating_add(jitter_us) {
        return MissedDecision::Fire;
    }
    let times: Vec<&FireAt> = std::iter::once(&arm.fire_at).chain(&arm.then).collect();
    let goes_on_with = match arm.policy.missed {
        // The first time that is still inside the window, or in the future.
        Missed::Skip | Missed::All => {
            times.iter().position(|time| late(time) <= arm.policy.window_us()).unwrap_or(times.len())
        }
        // The latest time that has passed; the arm's own if no later one has.
        Missed::Once => times.iter().rposition(|time| late(time) >= 0).unwrap_or(0),
    };
    if goes_on_with == 0 {
        return MissedDecision::Fire;
    }
    let mut rest = arm.then.clone();
    let also: Vec<FireAt> = rest.drain(..(goes_on_with - 1).min(arm.then.len())).collect();
    let next = (!rest.is_empty()).then(|| rest.remove(0));
    MissedDecision::PassOver { also, next, then: rest }
}
