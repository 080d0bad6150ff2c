//! Rules for claim, renew, dispatch and mark.

use jiff::Timestamp;
use posthouse_wire::cron::Overlap;
use serde_json::Value;

use super::{RecordChange, RuleResult, advance, is_once, is_spent, recurring};
use crate::jobs::record::{FireClaim, LEASE, Skipped, truthy};
use crate::jobs::{ClaimRefusal, ClaimResult, Job, JobClaim, JobStoreSettings, MarkResult, RunOutcome};

/// A request to claim a fire.
#[derive(Clone, Debug)]
pub(in crate::jobs) struct ClaimRequest {
    pub fire_at: Option<Timestamp>,
    pub owner: String,
    /// Made by the caller. It becomes the claim's token if the bid wins.
    pub token: String,
}

pub(in crate::jobs) fn claim(
    job: &Job,
    request: &ClaimRequest,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> RuleResult<ClaimResult> {
    let refused = |why| RuleResult::same(ClaimResult::Refused(why));
    if !job.is_live() {
        return refused(ClaimRefusal::Off);
    }
    if request.fire_at.is_some_and(|fire_at| job.is_settled(fire_at)) {
        return refused(ClaimRefusal::Settled);
    }
    let earlier = FireClaim::of(job);
    if let Some(held) = earlier.as_ref().filter(|claim| claim.is_held(now)) {
        // A stock claim has no fire time, so it may be for this one.
        let Some(fire_at) =
            request.fire_at.filter(|fire_at| held.token.is_some() && held.fire_at != Some(*fire_at))
        else {
            return refused(ClaimRefusal::Held);
        };
        return match job.policy().overlap {
            Overlap::Queue => refused(ClaimRefusal::Queued { until: held.until }),
            Overlap::Skip => RuleResult::keep(
                ClaimResult::Refused(ClaimRefusal::Overlap),
                let_go(job, fire_at, now, store_settings),
            ),
        };
    }

    let mut job = job.clone();
    // The earlier claim has lapsed without a mark. Its fire time is settled now, because nothing would
    // remember it after this claim has replaced it.
    if let Some(abandoned) = earlier.and_then(|claim| claim.fire_at)
        && request.fire_at != Some(abandoned)
    {
        job.settle(abandoned);
    }
    FireClaim {
        at: now,
        by: request.owner.clone(),
        token: Some(request.token.clone()),
        fire_at: request.fire_at,
        until: now + LEASE,
        dispatched: false,
    }
    .put(&mut job, &store_settings.zone);
    advance(&mut job, base(now, request.fire_at), &store_settings.zone);
    let claim = JobClaim { job: job.clone(), fire_at: request.fire_at, token: request.token.clone() };
    RuleResult::keep(ClaimResult::Won(Box::new(claim)), job)
}

/// Skips a fire that may not wait for the run before it. It is settled without a run, so that no duplicate
/// brings it back, and the job advances to the next one.
fn let_go(job: &Job, fire_at: Timestamp, now: Timestamp, store_settings: &JobStoreSettings) -> Job {
    let mut job = job.clone();
    job.settle(fire_at);
    job.note_skipped(Skipped { fire_at, at: now });
    advance(&mut job, base(now, Some(fire_at)), &store_settings.zone);
    job
}

/// Time from which the next run is computed. A fire may come early, or from a clock ahead of ours. Computed
/// from `now` alone, the occurrence that has just fired would be next again.
fn base(now: Timestamp, fire_at: Option<Timestamp>) -> Timestamp {
    fire_at.map_or(now, |fire_at| now.max(fire_at))
}

/// A claim that has lapsed can still be renewed if no one else has claimed the job.
pub(in crate::jobs) fn renew(
    job: &Job,
    claim: &JobClaim,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> RuleResult<bool> {
    let Some(mut held) = FireClaim::of(job).filter(|held| held.is_of(&claim.token)) else {
        return RuleResult::same(false);
    };
    let mut job = job.clone();
    // The stock agent computes a claim's age from `at`, so that is renewed as well.
    (held.at, held.until) = (now, now + LEASE);
    held.put(&mut job, &store_settings.zone);
    if let Some(Value::Object(run)) = job.fields.get_mut("run_claim")
        && run.get("by").and_then(Value::as_str) == Some(&held.by)
    {
        run.insert("at".to_owned(), crate::cron::schedule::iso(now, &store_settings.zone).into());
    }
    RuleResult { answer: true, change: RecordChange::Touch(job) }
}

pub(in crate::jobs) fn dispatch(
    job: &Job,
    claim: &JobClaim,
    store_settings: &JobStoreSettings,
) -> RuleResult<bool> {
    let Some(mut held) = FireClaim::of(job).filter(|held| held.is_of(&claim.token)) else {
        return RuleResult::same(false);
    };
    if held.dispatched || !is_once(job) || job.repeat().times.is_none() {
        return RuleResult::same(true);
    }
    // Counted before by a process that died before the end: the job has used its runs.
    if is_spent(job) {
        return RuleResult::remove(false);
    }
    let mut job = job.clone();
    job.set_completed(job.repeat().completed + 1);
    held.dispatched = true;
    held.put(&mut job, &store_settings.zone);
    RuleResult::keep(true, job)
}

pub(in crate::jobs) fn mark(
    job: &Job,
    claim: &JobClaim,
    outcome: &RunOutcome,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> RuleResult<MarkResult> {
    if FireClaim::of(job).is_none_or(|held| !held.is_of(&claim.token)) {
        return RuleResult::same(MarkResult::Fenced);
    }
    let mut job = job.clone();
    job.set_time("last_run_at", Some(now), &store_settings.zone);
    job.set("last_status", if outcome.error.is_none() { "ok" } else { "error" });
    job.set("last_error", outcome.error.clone());
    job.set("last_delivery_error", outcome.delivery_error.clone());
    job.set("fire_claim", Value::Null);
    if job.field("run_claim").is_some() {
        job.set("run_claim", Value::Null);
    }
    if let Some(fire_at) = claim.fire_at {
        job.settle(fire_at);
    }
    if job.field("repeat").is_some_and(truthy) {
        let repeat = job.repeat();
        // `dispatch` has already counted a one-shot with a limit.
        let counted = is_once(&job) && repeat.times.is_some() && repeat.completed > 0;
        let completed = repeat.completed + u64::from(!counted);
        if repeat.times.is_some_and(|times| completed >= times) {
            return RuleResult::remove(MarkResult::Removed);
        }
        job.set_completed(completed);
    }
    go_on(&mut job, base(now, claim.fire_at), store_settings);
    RuleResult::keep(MarkResult::Kept(Box::new(job.clone())), job)
}

/// Sets the state of a job after a run that was not its last by count.
fn go_on(job: &mut Job, base: Timestamp, store_settings: &JobStoreSettings) {
    if advance(job, base, &store_settings.zone) {
        if job.text("state") != Some("paused") {
            job.set("state", "scheduled");
        }
        return;
    }
    job.set("next_run_at", Value::Null);
    if recurring(job, &store_settings.zone).is_none() && !names_a_recurring_kind(job) {
        job.set("enabled", false);
        job.set("state", "completed");
        return;
    }
    // A recurring job is never disabled silently: its problem may be repaired.
    job.set("state", "error");
    if job.last_error().is_none() {
        job.set("last_error", "no next run could be found for this schedule");
    }
}

/// Works also if the rest of the schedule cannot be parsed.
fn names_a_recurring_kind(job: &Job) -> bool {
    let kind = job.field("schedule").and_then(|schedule| schedule.get("kind")).and_then(Value::as_str);
    matches!(kind, Some("cron" | "interval"))
}
