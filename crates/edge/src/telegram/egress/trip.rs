//! One order on its way: how long it may take, and what may be tried again.

use std::time::Duration;

use posthouse_time::Moment;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bots::Bot;
use crate::telegram::Telegram;
use crate::telegram::api::{Failure, Refused};

/// Kept back from the deadline, so that the outcome is there before it.
const MARGIN: Duration = Duration::from_millis(500);
/// A longer wait is the agent's to decide on: it stops listening before it would be over.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// Before a server that failed is asked once more.
const BREATH: Duration = Duration::from_millis(300);

/// When a failed call may be made once more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Worth nothing a moment later.
    Never,
    /// A second time would show. Telegram knows no idempotency keys, so a lost answer stays lost.
    IfNothingWasDone,
    /// A second time changes nothing.
    Harmless,
}

pub(super) struct Trip<'a> {
    pub telegram: &'a Telegram,
    pub bot: &'a Bot,
    /// When Telegram was first called.
    pub posted: Option<Moment>,
    end: Moment,
}

impl<'a> Trip<'a> {
    pub fn new(telegram: &'a Telegram, bot: &'a Bot, deadline: Moment) -> Self {
        Self { telegram, bot, posted: None, end: deadline - MARGIN }
    }

    /// Calls until there is an answer, it is clear that there will be none, or time is up.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &impl Serialize,
        again: Again,
    ) -> Result<R, Failure> {
        let clock = &self.telegram.timepiece;
        let mut spare = again != Again::Never;
        loop {
            let called = clock.now();
            let left = self.end.since(called);
            if left.is_zero() {
                return Err(Failure::Unreached("no time was left".to_owned()));
            }
            let failure = match self.telegram.call(self.bot, method, params, left).await {
                Ok(result) => {
                    self.posted.get_or_insert(called);
                    return Ok(result);
                }
                Err(failure) => failure,
            };
            if !matches!(failure, Failure::Unreached(_)) {
                self.posted.get_or_insert(called);
            }
            let left = self.end.since(clock.now());
            let pause = match &failure {
                Failure::Refused(Refused { code: 429, retry_after, .. }) if again != Again::Never => {
                    // Not a repetition: the call was not made yet.
                    let wait = Duration::from_secs(retry_after.unwrap_or(1).max(1));
                    (wait <= LONGEST_WAIT).then_some(wait)
                }
                _ if !std::mem::take(&mut spare) => None,
                Failure::Refused(refused) => (refused.code >= 500).then_some(BREATH),
                Failure::Unreached(_) => Some(Duration::ZERO),
                Failure::Lost => (again == Again::Harmless).then_some(Duration::ZERO),
            };
            match pause {
                Some(pause) if pause < left => clock.after(pause).await,
                _ => return Err(failure),
            }
        }
    }
}
