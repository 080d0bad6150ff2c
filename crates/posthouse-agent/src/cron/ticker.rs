//! Local ticker: the loop in this process that runs due jobs.

use std::time::Duration;

use jiff::Timestamp;
use posthouse_time::Moment;
use posthouse_wire::JobId;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::schedule::{ScheduleKind, iso};
use super::{Cron, missed};
use crate::jobs::{ClaimRefusal, ClaimResult, DueJob, Fault, Job, JobChange, JobState};

/// Longest sleep, because another process may have edited the store.
const LONGEST: Duration = Duration::from_secs(60);
/// Sleep while a due job cannot run yet.
const SHORT: Duration = Duration::from_secs(1);
/// Sleep after a failure of the store.
const TROUBLED: Duration = Duration::from_secs(5);

/// Runs due jobs whenever one is due or something has changed, until stopped.
pub(super) async fn tick(cron: &Cron, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let sleep = pass(cron).await.unwrap_or_else(|fault| {
            tracing::error!(%fault, "the ticker cannot read the due jobs");
            Sleep { next: None, longest: TROUBLED }
        });
        let timepiece = &cron.0.store_settings.timepiece;
        let next = async {
            match sleep.next {
                Some(next) => timepiece.until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = cron.0.stirred.notified() => {}
            () = next => {}
            () = timepiece.after(sleep.longest) => {}
        }
    }
}

/// Time of the next pass: the next run by the wall clock, or after `longest`, whichever comes first.
struct Sleep {
    next: Option<Moment>,
    longest: Duration,
}

/// Runs due jobs and returns when to check again.
async fn pass(cron: &Cron) -> Result<Sleep, Fault> {
    // Read once: the next pass finds jobs that become due during this one.
    let seen = cron.now();
    // Held until everything is claimed, because a stock ticker on the same store does not use claims.
    let tick = cron.0.store.tick().await?;
    let mut waiting = tick.is_none();
    if tick.is_some() {
        for due in cron.0.store.due(&cron.0.owner).await? {
            waiting |= !begin(cron, due).await?;
        }
    }
    drop(tick);
    let jobs = cron.0.store.list().await?;
    let next = jobs.iter().filter_map(next_run).filter(|at| *at > seen).min();
    Ok(Sleep { next: next.map(moment), longest: if waiting { SHORT } else { LONGEST } })
}

/// Claims a due job and starts it. False: it waits for another run and stays due.
async fn begin(cron: &Cron, due: DueJob) -> Result<bool, Fault> {
    let (now, zone) = (cron.now(), &cron.0.store_settings.zone);
    let job = due.job.id();
    let policy = due.job.policy();
    let times = match due.job.schedule(zone) {
        Some(schedule) => missed::missed_runs(&policy, &schedule, due.fire_at, now, zone),
        None => vec![due.fire_at],
    };
    let Some((first, rest)) = times.split_first() else {
        pass_over(cron, &due, now).await?;
        return Ok(true);
    };
    match cron.0.store.claim(&job, Some(*first), &cron.0.owner).await? {
        ClaimResult::Won(claim) => {
            let (cron, rest) = (cron.clone(), rest.to_vec());
            let runs = cron.0.runs.clone();
            runs.spawn(async move {
                if cron.run(*claim).await {
                    make_up(&cron, &job, rest).await;
                }
            });
            Ok(true)
        }
        ClaimResult::Refused(ClaimRefusal::Queued { .. }) => Ok(false),
        ClaimResult::Refused(why) => {
            tracing::debug!(job.id = %job, ?why, "did not get the claim of a due job");
            Ok(true)
        }
    }
}

/// Runs the rest of a backlog, one after the other. Only this process knows the backlog: if it dies, the
/// rest is lost, as a stock agent's backlog always is.
async fn make_up(cron: &Cron, job: &JobId, times: Vec<Timestamp>) {
    for fire_at in times {
        if cron.0.closing.is_cancelled() {
            return;
        }
        match cron.0.store.claim(job, Some(fire_at), &cron.0.owner).await {
            Ok(ClaimResult::Won(claim)) => {
                if !cron.run(*claim).await {
                    return;
                }
            }
            Ok(ClaimResult::Refused(ClaimRefusal::Gone | ClaimRefusal::Off)) => return,
            // The trigger has run this time meanwhile.
            Ok(ClaimResult::Refused(_)) => {}
            Err(fault) => {
                tracing::error!(job.id = %job, %fault, "cannot claim a missed run; dropping the rest of the backlog");
                return;
            }
        }
    }
}

/// Skips a run that is too late by the job's policy. The job waits for its next time; a one-shot has none.
async fn pass_over(cron: &Cron, due: &DueJob, now: Timestamp) -> Result<(), Fault> {
    let zone = &cron.0.store_settings.zone;
    tracing::warn!(job.id = %due.job.id(), fire_at = %due.fire_at, "skipped a run that is too late");
    let schedule =
        due.job.schedule(zone).filter(|schedule| !matches!(schedule.kind(), ScheduleKind::Once { .. }));
    let change = match schedule.and_then(|schedule| schedule.after(now, zone)) {
        Some(next) => JobChange::new().field("next_run_at", iso(next, zone)),
        None => JobChange::new()
            .field("next_run_at", Value::Null)
            .field("enabled", false)
            .field("state", "completed")
            .field("last_error", "skipped: the agent came back too late for this run"),
    };
    cron.0.store.update(&due.job.id(), change).await.map(drop)
}

fn next_run(job: &Job) -> Option<Timestamp> {
    job.next_run_at().filter(|_| job.enabled() && job.state() != JobState::Paused)
}

/// The first whole millisecond that is not before `at`.
fn moment(at: Timestamp) -> Moment {
    let millis =
        at.as_nanosecond().div_euclid(1_000_000) + i128::from(at.subsec_nanosecond() % 1_000_000 != 0);
    Moment::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
