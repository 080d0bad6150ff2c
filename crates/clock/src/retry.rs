//! Retries of failed fires: pauses between attempts, and when a fire is given up.

use std::time::Duration;

use ledger::Arm;
use posthouse_time::Moment;

use crate::config::{Config, micros};

/// Pauses between attempts, in seconds; the last one repeats. The first is short because a machine that is
/// waking refuses its first connection.
const PAUSES: [u64; 9] = [1, 2, 4, 8, 15, 30, 60, 120, 300];
/// Longest pause that an agent can ask for with `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(300);
/// No retry is further ahead than this: the longest pause and a tenth.
pub(crate) const LONGEST: Duration = Duration::from_secs(330);

/// Time of the next attempt in microseconds, and the pause before it; `None` when the fire is given up. A retry
/// never comes before `fire_at`, also when the wall clock was set back during the attempt.
pub(crate) fn next(
    config: &Config,
    arm: &Arm,
    asked: Option<Duration>,
    now: Moment,
) -> Option<(i64, Duration)> {
    let give_up = match arm.then.is_empty() {
        true => config.give_up_after.0,
        false => config.give_up_for_next_after.0,
    };
    // An alarm is never given up, because no agent's sign of life would revive it.
    if !arm.is_alarm() && arm.failing_since.is_some_and(|since| now.since(since) >= give_up) {
        return None;
    }
    let step = usize::try_from(arm.attempts).unwrap_or(usize::MAX).min(PAUSES.len() - 1);
    let pause = asked.map_or(Duration::from_secs(PAUSES[step]), |asked| asked.min(LONGEST_ASKED));
    let pause_us = scattered(pause, arm);
    let next_us = now.millis().saturating_mul(1000).saturating_add(pause_us).max(arm.fire_at.due_us());
    Some((next_us, Duration::from_micros(u64::try_from(pause_us).unwrap_or(0))))
}

/// Varies a pause by up to a tenth, so that fires that failed together are not retried together. The variation
/// is derived from the arm and its attempt, so that it is the same in every run and tests can check it.
fn scattered(pause: Duration, arm: &Arm) -> i64 {
    let seed = (arm.key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(arm.attempts) << 32;
    let draw = i64::try_from(mixed(seed) % 2001).unwrap_or(1000) - 1000;
    let pause = micros(pause);
    pause + pause / 10 * draw / 1000
}

/// Hashes a number (the last step of SplitMix64).
pub(crate) fn mixed(seed: u64) -> u64 {
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}
