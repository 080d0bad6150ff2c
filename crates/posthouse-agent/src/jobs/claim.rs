//! Claims: the exclusive right to run one fire, renewed while the run is in progress.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use posthouse_time::Timepiece;
use posthouse_wire::id::JobId;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::record::LEASE;
use super::{Fault, Job, JobStore};

/// Interval of renewals. Two may fail before the claim is lost.
const BEAT: Duration = Duration::from_secs(20);
/// Interval of checks whether the wall clock was set back, and the step that counts as such.
const TICK: Duration = Duration::from_secs(1);
/// Interval at which a queued fire tries again. It polls, because the run before it may end on another
/// machine.
const LOOK: Duration = Duration::from_millis(250);

/// The right to run one fire of one job.
#[derive(Clone, Debug)]
pub struct JobClaim {
    pub(super) job: Job,
    pub(super) fire_at: Option<Timestamp>,
    pub(super) token: String,
}

impl JobClaim {
    /// The job as it was claimed.
    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn fire_at(&self) -> Option<Timestamp> {
        self.fire_at
    }
}

/// Result of a claim.
#[derive(Clone, Debug)]
pub enum ClaimResult {
    Won(Box<JobClaim>),
    Refused(ClaimRefusal),
}

/// Reason why a fire could not be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// No such job.
    Gone,
    /// Paused or disabled.
    Off,
    /// This fire time has already run.
    Settled,
    /// Another claimant is running it.
    Held,
    /// A run of another fire time is in progress, and the job's policy skips such fires. The skip is
    /// recorded and settles this fire.
    Overlap,
    /// A run of another fire time is in progress, and the job's policy queues such fires. Claim again when
    /// that lease has ended: at this time at the latest, unless it is renewed.
    Queued { until: Timestamp },
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOutcome {
    /// Why it failed; `None` on success.
    pub error: Option<String>,
    /// Why its result could not be delivered. That is not a failed run.
    pub delivery_error: Option<String>,
}

impl RunOutcome {
    pub fn ok() -> Self {
        Self::default()
    }

    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), delivery_error: None }
    }
}

/// Result of a mark.
#[derive(Clone, Debug)]
pub enum MarkResult {
    /// The job continues. Arm it again if it is enabled and has a next run.
    Kept(Box<Job>),
    /// That was its last run.
    Removed,
    /// Another claimant has the claim by now, or the job is gone. Nothing was changed.
    Fenced,
}

/// Renews a claim for as long as it is held. Drop it when the run has ended.
#[derive(Debug)]
pub struct ClaimLease {
    lost: CancellationToken,
    beats: AbortHandle,
}

impl ClaimLease {
    pub fn keep(store: Arc<dyn JobStore>, claim: JobClaim, timepiece: Timepiece) -> Self {
        let lost = CancellationToken::new();
        let beats = tokio::spawn(beat(store, claim, timepiece, lost.clone())).abort_handle();
        Self { lost, beats }
    }

    /// Returns when the claim is lost. Another replica may be running this fire, so the run should stop.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for ClaimLease {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

async fn beat(store: Arc<dyn JobStore>, claim: JobClaim, timepiece: Timepiece, lost: CancellationToken) {
    let mut renewed = timepiece.instant();
    loop {
        // The store has the lease's end as a wall time, which other machines read too. When the wall clock
        // is set, the lease looks lapsed or outdated. So it is renewed at once.
        tokio::select! {
            () = timepiece.after(BEAT) => {}
            () = timepiece.until(timepiece.now() + 2 * BEAT) => {}
            () = set_back(&timepiece) => {}
        }
        // Measured before the call, because the lease begins no earlier than this.
        let asked = timepiece.instant();
        match store.renew(&claim).await {
            Ok(true) => renewed = asked,
            Ok(false) => break,
            Err(fault) => {
                warn!(job.id = %claim.job.id(), %fault, "cannot renew the claim of a running job");
                // After the lease's end another claimant may hold the claim unnoticed.
                if timepiece.instant().since(renewed) >= LEASE {
                    break;
                }
            }
        }
    }
    lost.cancel();
}

/// Returns soon after the wall clock was set back.
async fn set_back(timepiece: &Timepiece) {
    let (wall, began) = timepiece.readings();
    loop {
        timepiece.after(TICK).await;
        // The expected wall time. A small difference does not count.
        let (now, instant) = timepiece.readings();
        if (wall + instant.since(began)).since(now) > TICK {
            return;
        }
    }
}

/// Claims a fire, and waits while the job's policy queues it behind an earlier run.
pub async fn claim_in_turn(
    store: &dyn JobStore,
    timepiece: &Timepiece,
    job: &JobId,
    fire_at: Option<Timestamp>,
    owner: &str,
) -> Result<ClaimResult, Fault> {
    loop {
        match store.claim(job, fire_at, owner).await? {
            ClaimResult::Refused(ClaimRefusal::Queued { .. }) => timepiece.after(LOOK).await,
            decided => return Ok(decided),
        }
    }
}
