//! The right to run one fire, and keeping it while the run lives.

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

/// How often a live run says so: two of them may fail before the claim is lost.
const BEAT: Duration = Duration::from_secs(20);
/// How often a queued fire looks whether its turn has come. The run before it may end on another machine,
/// so nobody could call.
const LOOK: Duration = Duration::from_millis(250);

/// The right to run one fire of one job.
#[derive(Clone, Debug)]
pub struct Claim {
    pub(super) job: Job,
    pub(super) fire_at: Option<Timestamp>,
    pub(super) token: String,
}

impl Claim {
    /// The job as it was claimed.
    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn fire_at(&self) -> Option<Timestamp> {
        self.fire_at
    }
}

/// The answer to a claim.
#[derive(Clone, Debug)]
pub enum Claimed {
    Won(Box<Claim>),
    Lost(Lost),
}

/// Why a claim was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No such job.
    Gone,
    /// Paused, or turned off.
    Off,
    /// This fire time has had its run.
    Settled,
    /// Somebody is running it.
    Held,
    /// The run of another fire time goes on, and the job lets such fires go. That is recorded, and settles
    /// this one.
    Overlap,
    /// The run of another fire time goes on, and the job has such fires wait: claim again when that lease
    /// has ended, which is no later than this unless it is renewed.
    Queued { until: Timestamp },
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Why it failed; nothing if it did not.
    pub error: Option<String>,
    /// Why its result could not be handed over, which is not a failed run.
    pub delivery_error: Option<String>,
}

impl Outcome {
    pub fn ok() -> Self {
        Self::default()
    }

    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), delivery_error: None }
    }
}

/// The answer to a mark.
#[derive(Clone, Debug)]
pub enum Marked {
    /// The job goes on; arm it again if it is on and has a next run.
    Kept(Box<Job>),
    /// That was its last run.
    Removed,
    /// The claim is somebody else's by now, or the job is gone. Nothing was changed.
    Fenced,
}

/// Renews a claim for as long as it is held. Drop it when the run has ended.
#[derive(Debug)]
pub struct Lease {
    lost: CancellationToken,
    beats: AbortHandle,
}

impl Lease {
    pub fn keep(store: Arc<dyn JobStore>, claim: Claim, timepiece: Timepiece) -> Self {
        let lost = CancellationToken::new();
        let beats = tokio::spawn(beat(store, claim, timepiece, lost.clone())).abort_handle();
        Self { lost, beats }
    }

    /// Returns once the claim is lost: another replica may be running this fire, so stop.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

async fn beat(store: Arc<dyn JobStore>, claim: Claim, timepiece: Timepiece, lost: CancellationToken) {
    let mut renewed = timepiece.now();
    loop {
        timepiece.after(BEAT).await;
        // Taken before the question: the lease that it grants began no earlier.
        let asked = timepiece.now();
        match store.renew(&claim).await {
            Ok(true) => renewed = asked,
            Ok(false) => break,
            Err(fault) => {
                warn!(job.id = %claim.job.id(), %fault, "could not renew the claim on a running job");
                // Past its end somebody else may hold it and we could not know.
                if timepiece.now().since(renewed) >= LEASE {
                    break;
                }
            }
        }
    }
    lost.cancel();
}

/// Claims a fire, waiting while the job has it queue behind an earlier run.
pub async fn claim_in_turn(
    store: &dyn JobStore,
    timepiece: &Timepiece,
    job: &JobId,
    fire_at: Option<Timestamp>,
    owner: &str,
) -> Result<Claimed, Fault> {
    loop {
        match store.claim(job, fire_at, owner).await? {
            Claimed::Lost(Lost::Queued { .. }) => timepiece.after(LOOK).await,
            decided => return Ok(decided),
        }
    }
}
