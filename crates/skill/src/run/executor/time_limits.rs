//! Time limits: of one operation, and of a whole run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::Executor;
use crate::run::context::RunPolicy;
use crate::run::host::SkillHost;
use crate::run::number::leading_integer;
use crate::run::run_error::{ErrorClass, RunError};
use crate::run::substitute::Scope;
use crate::run::value::SkillValue;
use crate::syntax::TimeLimit;
use crate::syntax::tree::{SkillTree, TextTemplate};

/// The time that a connector gets to end the effects of a call that was cut off.
const CLEAN_UP: Duration = Duration::from_secs(1);
/// Longer limits count as this one.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// When a run must end. Skills that it runs can only make it earlier.
#[derive(Clone, Debug)]
pub struct RunDeadline {
    /// On the clock that [`SkillHost::elapsed`] reads.
    at: Duration,
    budget: Duration,
    source: &'static str,
}

impl RunDeadline {
    /// The earliest of the inherited deadline, the operator's ceiling and the skill's own `# Deadline:`.
    pub fn tightest(
        host: &dyn SkillHost,
        scope: &Scope<'_>,
        policy: &RunPolicy,
        tree: &SkillTree,
        inherited: Option<Self>,
    ) -> Result<Option<Self>, RunError> {
        let now = host.elapsed();
        let of = |budget: Duration, source| Self { at: now.saturating_add(budget), budget, source };
        let ceiling = policy.max_duration.map(|budget| of(budget, "operator ceiling"));
        let own = match &tree.header.deadline {
            None => None,
            Some(TimeLimit::Seconds(seconds)) => Some(Duration::from_secs(*seconds)),
            Some(TimeLimit::Reference(text)) => {
                Some(positive_seconds(&scope.text(&TextTemplate::parse(text.as_str()))?, "# Deadline:")?)
            }
        };
        let own = own.map(|budget| of(budget, "# Deadline"));
        // If two are equal, the first in this order counts.
        let candidates = [inherited, ceiling, own].into_iter().flatten();
        Ok(candidates.reduce(|first, next| if next.at < first.at { next } else { first }))
    }

    fn exceeded(&self, target: Option<&Arc<str>>) -> RunError {
        let budget = match self.budget.as_millis() {
            millis if millis < 1000 => format!("{millis}ms"),
            millis => format!("{}s", (millis + 500) / 1000),
        };
        let message = format!("Run deadline exceeded: its budget of {budget} ({}) is over", self.source);
        let mut error = RunError::new(ErrorClass::RunDeadlineExceeded, message);
        error.target = target.cloned();
        error
    }
}

/// The `# Timeout:` of a skill.
pub enum SkillTimeout {
    Unset,
    Seconds(u64),
    Text(TextTemplate),
}

impl SkillTimeout {
    pub fn new(tree: &SkillTree) -> Self {
        match &tree.header.timeout {
            None => Self::Unset,
            Some(TimeLimit::Seconds(seconds)) => Self::Seconds(*seconds),
            Some(TimeLimit::Reference(text)) => Self::Text(TextTemplate::parse(text.as_str())),
        }
    }
}

/// The time limit of an operation, and the time that is left of the run.
pub struct AllowedTime {
    pub timeout: Duration,
    /// What is left of the run, if it has a deadline.
    remaining: Option<Duration>,
}

impl Executor<'_> {
    /// The time for an operation that begins now. `own` is its `timeout=` argument.
    pub(super) fn allowed_time(&self, own: Option<&SkillValue>) -> Result<AllowedTime, RunError> {
        let timeout = match (own, &self.timeout) {
            (Some(SkillValue::Number(seconds)), _) => duration(*seconds),
            (Some(SkillValue::Text(text)), _) if !text.is_empty() => positive_seconds(text, "timeout")?,
            (_, SkillTimeout::Unset) => self.context.policy.default_timeout,
            (_, SkillTimeout::Seconds(seconds)) => Duration::from_secs(*seconds),
            (_, SkillTimeout::Text(template)) => {
                positive_seconds(&self.scope().text(template)?, "# Timeout:")?
            }
        };
        let remaining = self.remaining_time()?;
        let timeout = timeout.min(LONGEST).min(remaining.unwrap_or(LONGEST));
        Ok(AllowedTime { timeout, remaining })
    }

    /// What is left of the run. It is an error if nothing is left.
    pub(super) fn remaining_time(&self) -> Result<Option<Duration>, RunError> {
        let Some(deadline) = &self.deadline else { return Ok(None) };
        match deadline.at.checked_sub(self.host.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => Ok(Some(left)),
            None => Err(deadline.exceeded(Some(&self.target))),
        }
    }

    /// Waits for a call, at most as long as allowed. `clean_up` names the connector if its calls can go on after they
    /// are dropped.
    pub(super) async fn within<T>(
        &self,
        allowed: &AllowedTime,
        op_kind: &'static str,
        clean_up: Option<&str>,
        call: Pin<Box<dyn Future<Output = T> + Send + '_>>,
    ) -> Result<T, RunError> {
        // A clean-up must end before the deadline too, so the call ends earlier.
        let reserve = allowed
            .remaining
            .filter(|_| clean_up.is_some())
            .map_or(Duration::ZERO, |left| left.min(CLEAN_UP));
        let cut = allowed.remaining.map(|left| left.saturating_sub(reserve));
        let wait = cut.map_or(allowed.timeout, |cut| cut.min(allowed.timeout));
        // The smaller bound decides which limit was reached. The clock does not, because a timer may fire early.
        let ends_run = cut.is_some_and(|cut| cut <= allowed.timeout);
        match select(call, self.host.sleep(wait)).await {
            Either::Left((result, _)) => return Ok(result),
            Either::Right(((), call)) => drop(call),
        }
        let Some(deadline) = self.deadline.as_ref().filter(|_| ends_run) else {
            let millis = allowed.timeout.as_millis();
            return Err(RunError::new(
                ErrorClass::OpTimeout,
                format!("'{op_kind}' timed out after {millis} ms"),
            )
            .with_remedy("Raise `timeout=` of the operation or `# Timeout:` of the skill"));
        };
        if let Some(connector) = clean_up.filter(|_| !reserve.is_zero()) {
            select(self.host.clean_up_tool(connector, reserve), self.host.sleep(reserve)).await;
        }
        Err(deadline.exceeded(None))
    }

    pub(super) fn deadline(&self) -> Option<RunDeadline> {
        self.deadline.clone()
    }
}

fn positive_seconds(text: &str, what: &str) -> Result<Duration, RunError> {
    match leading_integer(text) {
        Some(seconds) if seconds > 0.0 => Ok(duration(seconds)),
        _ => Err(RunError::plain(format!("'{what}' is '{text}', which is not a positive number of seconds"))),
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST)
}
