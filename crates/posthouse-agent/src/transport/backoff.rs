//! Reconnect back-off: pauses between connection attempts, and when to stop trying.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Longest pause after close 4409. Two processes with the same gateway id disconnect each other; long
/// pauses leave the other one connected.
const LONGEST_SUPERSEDED: Duration = Duration::from_secs(15 * 60);

/// Reason why one connection attempt, or the connection itself, ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// At the agent's own request.
    Stopped,
    /// Not reached, not accepted, or lost.
    Fell(super::Fault),
    /// Close 4401. `expired`: the token was valid but too old, which says nothing about the credential.
    Refused { expired: bool },
    /// Close 4409.
    Superseded,
}

/// Next step after an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReconnectStep {
    DialAfter(Duration),
    Stop,
    Revoked,
}

/// Remembers how the last attempts ended.
#[derive(Default)]
pub(super) struct Backoff {
    /// Attempts since the last handshake.
    failures: u32,
    superseded: u32,
    /// The server has accepted the agent at least once in this process.
    ever_accepted: bool,
    /// Refused once since the last acceptance.
    struck: bool,
}

impl Backoff {
    /// Decides from how an attempt ended, and from whether the server accepted the agent during it.
    pub(super) fn after(&mut self, end: &ConnectionEnd, accepted: bool) -> ReconnectStep {
        if accepted {
            self.failures = 0;
            self.struck = false;
            self.ever_accepted = true;
        }
        if *end != ConnectionEnd::Superseded {
            self.superseded = 0;
        }
        match end {
            ConnectionEnd::Stopped => ReconnectStep::Stop,
            // Before the first handshake the agent may simply not be provisioned yet. After one, a refusal
            // counts only if a fresh token is refused as well.
            ConnectionEnd::Refused { expired: false } if self.ever_accepted => {
                if self.struck {
                    return ReconnectStep::Revoked;
                }
                self.struck = true;
                ReconnectStep::DialAfter(jittered(FIRST))
            }
            ConnectionEnd::Superseded => {
                let pause = LONGEST * 2u32.saturating_pow(self.superseded.min(10));
                self.superseded += 1;
                ReconnectStep::DialAfter(jittered(pause.min(LONGEST_SUPERSEDED)))
            }
            ConnectionEnd::Refused { .. } | ConnectionEnd::Fell(_) => {
                let pause = FIRST * 2u32.saturating_pow(self.failures.min(10));
                self.failures += 1;
                ReconnectStep::DialAfter(jittered(pause.min(LONGEST)))
            }
        }
    }
}

/// Shortens the pause by up to a fifth, so that agents that were disconnected together do not all reconnect
/// together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1000;
    pause - pause.mul_f64(0.2 * (random as f64) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    fn fell() -> ConnectionEnd {
        ConnectionEnd::Fell(Fault::Fell("test".into()))
    }

    fn near(next: ReconnectStep, seconds: u64) {
        let ReconnectStep::DialAfter(pause) = next else {
            panic!("expected a redial after {seconds} s, got {next:?}")
        };
        let full = Duration::from_secs(seconds);
        assert!(pause <= full && pause >= full.mul_f64(0.8), "{pause:?} is not near {full:?}");
    }

    #[test]
    fn pauses_double_from_one_second_to_thirty_and_start_over_after_a_handshake() {
        let mut backoff = Backoff::default();
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            near(backoff.after(&fell(), false), seconds);
        }
        near(backoff.after(&fell(), true), 1);
    }

    #[test]
    fn a_refusal_before_any_handshake_is_tried_again_for_ever() {
        let mut backoff = Backoff::default();
        for seconds in [1, 2, 4, 8, 16, 30, 30, 30] {
            near(backoff.after(&ConnectionEnd::Refused { expired: false }, false), seconds);
        }
    }

    #[test]
    fn a_refusal_after_a_handshake_is_final_only_when_a_fresh_token_is_refused_too() {
        let mut backoff = Backoff::default();
        near(backoff.after(&ConnectionEnd::Refused { expired: false }, true), 1);
        near(backoff.after(&fell(), false), 1);
        assert_eq!(backoff.after(&ConnectionEnd::Refused { expired: false }, false), ReconnectStep::Revoked);

        let mut backoff = Backoff::default();
        near(backoff.after(&ConnectionEnd::Refused { expired: false }, true), 1);
        near(backoff.after(&fell(), true), 1);
        near(backoff.after(&ConnectionEnd::Refused { expired: false }, false), 1);
    }

    #[test]
    fn an_expired_token_is_never_final() {
        let mut backoff = Backoff::default();
        near(backoff.after(&ConnectionEnd::Refused { expired: true }, true), 1);
        for seconds in [2, 4, 8] {
            near(backoff.after(&ConnectionEnd::Refused { expired: true }, false), seconds);
        }
    }

    #[test]
    fn two_holders_of_one_place_do_not_throw_each_other_out_every_second() {
        let mut backoff = Backoff::default();
        for seconds in [30, 60, 120, 240, 480, 900, 900] {
            near(backoff.after(&ConnectionEnd::Superseded, true), seconds);
        }
        near(backoff.after(&fell(), true), 1);
        near(backoff.after(&ConnectionEnd::Superseded, true), 30);
    }
}
