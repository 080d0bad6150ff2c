//! Rules of the job verbs: decisions over one record at a given time, without file or clock. Every backend
//! uses only these, so that all backends decide alike.

mod due;
mod fire;
mod lifecycle;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Job;
use crate::cron::schedule::{Schedule, ScheduleKind};

pub use due::DueJob;
pub(super) use due::due;
pub(super) use fire::{ClaimRequest, claim, dispatch, mark, renew};
pub(super) use lifecycle::{create, pause, resume, run_now, update};

/// The result of a rule, and what happens to the record.
#[derive(Debug)]
pub(super) struct RuleResult<T> {
    pub answer: T,
    pub change: RecordChange,
}

#[derive(Debug)]
pub(super) enum RecordChange {
    /// Nothing is written.
    Same,
    /// On disk before the result is returned.
    Keep(Job),
    /// Written, but may be lost if the machine crashes: the process that relied on it is lost then, too.
    Touch(Job),
    Remove,
}

impl RecordChange {
    pub(super) fn changes_nothing(&self) -> bool {
        matches!(self, RecordChange::Same)
    }
}

impl<T> RuleResult<T> {
    fn same(answer: T) -> Self {
        Self { answer, change: RecordChange::Same }
    }

    fn keep(answer: T, job: Job) -> Self {
        Self { answer, change: RecordChange::Keep(job) }
    }

    fn remove(answer: T) -> Self {
        Self { answer, change: RecordChange::Remove }
    }
}

/// The schedule of a recurring job.
fn recurring(job: &Job, zone: &TimeZone) -> Option<Schedule> {
    job.schedule(zone).filter(|schedule| !matches!(schedule.kind(), ScheduleKind::Once { .. }))
}

fn is_once(job: &Job) -> bool {
    job.field("schedule").and_then(|schedule| schedule.get("kind")).is_some_and(|kind| kind == "once")
}

/// Whether a one-shot with a limit has used all its runs.
fn is_spent(job: &Job) -> bool {
    let repeat = job.repeat();
    is_once(job) && repeat.times.is_some_and(|times| repeat.completed >= times)
}

/// Sets a recurring job to its first run after `base`. Leaves it unchanged if there is none, or if it runs
/// once.
fn advance(job: &mut Job, base: Timestamp, zone: &TimeZone) -> bool {
    let next = recurring(job, zone).and_then(|schedule| schedule.after(base, zone));
    if next.is_some() {
        job.set_time("next_run_at", next, zone);
    }
    next.is_some()
}
