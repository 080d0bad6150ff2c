//! When a fire that failed is tried again, and when it is given up.

use std::time::Duration;

use ledger::Arm;
use posthouse_time::Moment;

use crate::config::{Config, micros};

/// Pauses after the first failures, in seconds; the last one goes on. The first is short because a
/// machine that is waking refuses its first connection.
const PAUSES: [u64; 9] = [1, 2, 4, 8, 15, 30, 60, 120, 300];
/// What an agent may ask for at most.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// The instant of the next attempt, in microseconds; nothing when it is given up.
pub(crate) fn next(config: &Config, arm: &Arm, asked: Option<Duration>, now: Moment) -> Option<i64> {
    let give_up = match arm.then.is_empty() {
        true => config.give_up_after.0,
        false => config.give_up_for_next_after.0,
    };
    // An alarm is never given up: no sign of life would ever bring it back.
    if !arm.is_alarm() && arm.failing_since.is_some_and(|since| now.since(since) >= give_up) {
        return None;
    }
    let step = usize::try_from(arm.attempts).unwrap_or(usize::MAX).min(PAUSES.len() - 1);
    let pause = asked.map_or(Duration::from_secs(PAUSES[step]), |asked| asked.min(LONGEST_ASKED));
    Some(now.millis().saturating_mul(1000).saturating_add(scattered(pause, arm)))
}

/// Within a tenth either way, so that those who failed together do not come back together. Drawn from the
/// arm and its attempt: the same failure always waits the same time, which is what a test can hold.
fn scattered(pause: Duration, arm: &Arm) -> i64 {
    let seed = (arm.key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(arm.attempts) << 32;
    let draw = i64::try_from(mixed(seed) % 2001).unwrap_or(1000) - 1000;
    let pause = micros(pause);
    pause + pause / 10 * draw / 1000
}

/// A number that looks like chance, from one that does not (SplitMix64's last step).
pub(crate) fn mixed(seed: u64) -> u64 {
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}
