//! Calls of one action, with its deadline and retries.

use std::time::Duration;

use posthouse_time::{Instant, Moment};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::prompts::InlineKeyboard;
use crate::bots::OpenedBot;
use crate::telegram::Telegram;
use crate::telegram::api::{ApiError, CallBody, Failure};
use crate::telegram::media::MediaForm;

/// Subtracted from the deadline, so that the outcome is ready before it.
const MARGIN: Duration = Duration::from_millis(500);
/// Longest wait for a rate limit. Beyond it the agent gets the error, because it would stop waiting before we do.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Pause before the retry after a 5xx response.
const BREATH: Duration = Duration::from_millis(300);

/// Rule for repeating a failed call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RepeatRule {
    /// Never repeated: a moment later the call is useless.
    Never,
    /// Repeated only if nothing was done. A repeat would be visible, and Telegram has no idempotency keys, so a call
    /// without a response is not repeated.
    IfNothingWasDone,
    /// A repeat changes nothing.
    Harmless,
}

pub(super) struct CallsWithDeadline<'a> {
    pub telegram: &'a Telegram,
    pub bot: &'a OpenedBot,
    /// Time of the first call that may have reached Telegram.
    pub posted: Option<Moment>,
    /// The buttons below the next message.
    pub keyboard: Option<InlineKeyboard>,
    /// The methods that were called, and how often.
    calls: Vec<(&'static str, u32)>,
    end: Instant,
}

impl<'a> CallsWithDeadline<'a> {
    pub fn new(telegram: &'a Telegram, bot: &'a OpenedBot, deadline: Instant) -> Self {
        Self { telegram, bot, posted: None, keyboard: None, calls: Vec::new(), end: deadline - MARGIN }
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

    /// Calls a method, with retries, until there is a result, a final failure, or no time left.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
        repeat: RepeatRule,
    ) -> Result<R, Failure> {
        self.ask_with(method, CallBody::Json(params), repeat).await
    }

    /// As [`CallsWithDeadline::ask`], with a file. The file is read again for each attempt.
    pub async fn send_form<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        form: &MediaForm,
    ) -> Result<R, Failure> {
        self.ask_with::<R, ()>(method, CallBody::Form(form), RepeatRule::IfNothingWasDone).await
    }

    async fn ask_with<R: DeserializeOwned, P: Serialize>(
        &mut self,
        method: &'static str,
        body: CallBody<'_, P>,
        repeat: RepeatRule,
    ) -> Result<R, Failure> {
        let clock = &self.telegram.timepiece;
        let mut spare = repeat != RepeatRule::Never;
        loop {
            let called = clock.now();
            let left = self.end.since(clock.instant());
            if left.is_zero() {
                return Err(Failure::Unreached("no time was left".to_owned()));
            }
            match self.calls.iter_mut().find(|(known, _)| *known == method) {
                Some((_, times)) => *times += 1,
                None => self.calls.push((method, 1)),
            }
            let failure = match self.telegram.call_with(self.bot, method, body, left).await {
                Ok(result) => {
                    self.posted.get_or_insert(called);
                    return Ok(result);
                }
                Err(failure) => failure,
            };
            if !matches!(failure, Failure::Unreached(_)) {
                self.posted.get_or_insert(called);
            }
            let left = self.end.since(clock.instant());
            let pause = match &failure {
                Failure::Refused(ApiError { code: 429, retry_after, .. }) if repeat != RepeatRule::Never => {
                    // This does not use up the one retry, because Telegram has done nothing yet.
                    let wait = Duration::from_secs(retry_after.unwrap_or(1).max(1));
                    (wait <= LONGEST_WAIT).then_some(wait)
                }
                _ if !std::mem::take(&mut spare) => None,
                Failure::Refused(refused) => (refused.code >= 500).then_some(BREATH),
                Failure::Unreached(_) => Some(Duration::ZERO),
                Failure::Lost => (repeat == RepeatRule::Harmless).then_some(Duration::ZERO),
            };
            match pause {
                Some(pause) if pause < left => clock.after(pause).await,
                _ => return Err(failure),
            }
        }
    }
}
