//! One run of a job, from the claim to the mark.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::Cron;
use crate::jobs::{ClaimLease, Fault, Job, JobClaim, MarkResult, RunOutcome};

pub(super) type OnJob = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Pauses before repeated calls of a failing store.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(10)];

/// A job that is to run now.
#[derive(Clone, Debug)]
pub struct Run {
    claim: JobClaim,
}

impl Run {
    /// The job as it was claimed. Its next run is already the one after this.
    pub fn job(&self) -> &Job {
        self.claim.job()
    }

    /// Due time of the run. `None` for a run outside the schedule.
    pub fn fire_at(&self) -> Option<Timestamp> {
        self.claim.fire_at()
    }
}

/// Result of the work.
enum RunEnd {
    Ran(Result<(), String>),
    /// The last check before the run said no.
    Withdrawn,
    /// Another replica may be running it.
    Lost,
}

impl Cron {
    /// Starts the claimed run in its own task.
    pub(super) fn spawn_run(&self, claim: JobClaim) {
        let cron = self.clone();
        self.0.runs.spawn(async move { cron.run(claim).await });
    }

    /// Returns false if the job's next fire should not run right after this one.
    pub(super) async fn run(&self, claim: JobClaim) -> bool {
        let inner = &self.0;
        let lease =
            ClaimLease::keep(Arc::clone(&inner.store), claim.clone(), inner.store_settings.timepiece.clone());
        let end = tokio::select! {
            biased;
            () = lease.lost() => RunEnd::Lost,
            // Recorded as a failure, so that the owner of the job sees why it has no result, and the claim
            // is released.
            () = inner.cut.cancelled() => RunEnd::Ran(Err("the agent was stopped during the run".to_owned())),
            end = self.work(&claim) => end,
        };
        let job = claim.job().id();
        let goes_on = match end {
            RunEnd::Lost => {
                tracing::warn!(job.id = %job, "stopped a run whose claim was lost");
                false
            }
            RunEnd::Withdrawn => false,
            RunEnd::Ran(result) => self.mark(&claim, result).await,
        };
        drop(lease);
        self.ask();
        goes_on
    }

    async fn work(&self, claim: &JobClaim) -> RunEnd {
        let inner = &self.0;
        // Waits while the lease is held, so that no one else claims a run that has not started yet.
        let _place = match &inner.places {
            Some(places) => places.acquire().await.ok(),
            None => None,
        };
        match self.persevere("dispatch", || inner.store.dispatch(claim)).await {
            Ok(true) => {}
            Ok(false) => return RunEnd::Withdrawn,
            Err(fault) => {
                tracing::error!(job.id = %claim.job().id(), %fault, "job did not run: the job store failed");
                return RunEnd::Withdrawn;
            }
        }
        // A panic ends only its own run.
        let work = AssertUnwindSafe(async { (inner.on_job)(Run { claim: claim.clone() }).await });
        RunEnd::Ran(work.catch_unwind().await.unwrap_or_else(|_| Err("the job panicked".to_owned())))
    }

    async fn mark(&self, claim: &JobClaim, result: Result<(), String>) -> bool {
        let job = claim.job().id();
        let outcome = match result {
            Ok(()) => RunOutcome::ok(),
            Err(why) => {
                tracing::warn!(job.id = %job, "run failed: {why}");
                RunOutcome::failed(why)
            }
        };
        match self.persevere("mark", || self.0.store.mark(claim, outcome.clone())).await {
            Ok(MarkResult::Kept(_)) => true,
            Ok(MarkResult::Removed) => false,
            Ok(MarkResult::Fenced) => {
                tracing::warn!(job.id = %job, "run ended after its claim had been lost; its result is not recorded");
                false
            }
            Err(fault) => {
                tracing::error!(job.id = %job, %fault, "cannot record the result of a run");
                false
            }
        }
    }

    /// Repeats a failed call of the store: an unrecorded run is worse than a late one.
    async fn persevere<'a, T, W>(&self, verb: &str, ask: impl Fn() -> W) -> Result<T, Fault>
    where
        W: Future<Output = Result<T, Fault>> + 'a,
    {
        for pause in PAUSES {
            match ask().await {
                Err(fault) => tracing::warn!(verb, %fault, "the job store failed; trying again"),
                done => return done,
            }
            self.0.store_settings.timepiece.after(pause).await;
        }
        ask().await
    }
}
