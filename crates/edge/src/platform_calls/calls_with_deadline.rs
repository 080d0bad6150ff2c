//! Calls of one action, with its deadline and retries.

use std::time::Duration;

use posthouse_time::{Instant, Moment, Timepiece};

use super::failure::{CallFailure, CallRefusal, RefusalKind};

/// Subtracted from the deadline, so that the outcome is ready before it.
const MARGIN: Duration = Duration::from_millis(500);
/// Longest wait for a rate limit. Beyond it the agent gets the error, because it would stop waiting before we do.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Pause before the retry after a 5xx response.
const PAUSE_AFTER_SERVER_ERROR: Duration = Duration::from_millis(300);
/// Pause if a platform asks to wait and does not say how long.
const UNSAID_WAIT: Duration = Duration::from_secs(1);

/// Rule for repeating a failed call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RepeatRule {
    /// Never repeated: a moment later the call is useless.
    Never,
    /// For calls whose repeat would be visible. A call without a response is not repeated; one with a 5xx response is.
    IfNothingWasDone,
    /// As `IfNothingWasDone`, for platforms that may have carried out a call to which they respond with 5xx. Such a call
    /// is not repeated, and counts as one without a response.
    IfRefused,
    /// A repeat changes nothing, also because the platform recognises it by an idempotency key.
    Harmless,
}

/// The calls of one action.
pub struct CallsWithDeadline<'a> {
    timepiece: &'a Timepiece,
    end: Instant,
    /// Time of the first call that may have reached the platform.
    pub posted: Option<Moment>,
    /// The methods that were called, and how often.
    calls: Vec<(&'static str, u32)>,
}

impl<'a> CallsWithDeadline<'a> {
    pub fn new(timepiece: &'a Timepiece, deadline: Instant) -> Self {
        Self { timepiece, end: deadline - MARGIN, posted: None, calls: Vec::new() }
    }

    /// The calls that were made, such as `sendMessage x2, deleteMessage`. `None` if there were none.
    pub fn called(&self) -> Option<String> {
        let calls = self.calls.iter().map(|(method, times)| match times {
            1 => (*method).to_owned(),
            times => format!("{method} x{times}"),
        });
        let calls: Vec<String> = calls.collect();
        (!calls.is_empty()).then(|| calls.join(", "))
    }

    /// The time that is left.
    pub fn left(&self) -> Duration {
        self.end.since(self.timepiece.instant())
    }

    /// Makes a call, with retries, until there is a result, a final failure, or no time left. `attempt` gets the time
    /// that is left.
    pub async fn call<R, F: Future<Output = Result<R, CallFailure>>>(
        &mut self,
        method: &'static str,
        repeat: RepeatRule,
        mut attempt: impl FnMut(Duration) -> F,
    ) -> Result<R, CallFailure> {
        let mut spare = repeat != RepeatRule::Never;
        loop {
            let called = self.timepiece.now();
            let left = self.left();
            if left.is_zero() {
                return Err(CallFailure::Unreached("no time was left".to_owned()));
            }
            match self.calls.iter_mut().find(|(known, _)| *known == method) {
                Some((_, times)) => *times += 1,
                None => self.calls.push((method, 1)),
            }
            let failure = match attempt(left).await {
                Ok(result) => {
                    self.posted.get_or_insert(called);
                    return Ok(result);
                }
                Err(failure) => failure,
            };
            let failure = match failure {
                CallFailure::Refused(CallRefusal { kind: RefusalKind::ServerError, .. })
                    if repeat == RepeatRule::IfRefused =>
                {
                    CallFailure::Lost
                }
                failure => failure,
            };
            if !matches!(failure, CallFailure::Unreached(_)) {
                self.posted.get_or_insert(called);
            }
            let pause = match &failure {
                CallFailure::Refused(CallRefusal { kind: RefusalKind::RateLimited, retry_after, .. })
                    if repeat != RepeatRule::Never =>
                {
                    // This does not use up the one retry, because the platform has done nothing yet.
                    let wait = retry_after.unwrap_or(UNSAID_WAIT);
                    (wait <= LONGEST_WAIT).then_some(wait)
                }
                _ if !std::mem::take(&mut spare) => None,
                CallFailure::Refused(refused) => {
                    (refused.kind == RefusalKind::ServerError).then_some(PAUSE_AFTER_SERVER_ERROR)
                }
                CallFailure::Unreached(_) => Some(Duration::ZERO),
                CallFailure::Lost => (repeat == RepeatRule::Harmless).then_some(Duration::ZERO),
                CallFailure::TooLarge => None,
            };
            match pause {
                Some(pause) if pause < self.left() => self.timepiece.after(pause).await,
                _ => return Err(failure),
            }
        }
    }
}
