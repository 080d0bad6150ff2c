//! Incoming fires: verifying the proof, claiming the fire and starting the run.

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use posthouse_wire::JobId;
use posthouse_wire::cron::{FireAt, FireBody, Fired};
use serde_json::{Value, json};

use super::{Cron, Trigger};
use crate::jobs::{Claimed, Lost};

/// Retry times for fires that cannot be accepted at present.
const DRAINING: Duration = Duration::from_secs(1);
const TROUBLED: Duration = Duration::from_secs(5);
/// Longest wait of a queued fire before its next delivery. The run before it may end at any time.
const QUEUED: Duration = Duration::from_secs(15);

/// HTTP answer to a fire.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// For the header `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// JSON.
    pub body: Value,
}

/// Result of a fire.
enum Taken {
    /// Nothing more is to be done.
    Settled(Fired),
    /// The portal should deliver it again.
    Later { why: &'static str, after: Duration },
}

impl Cron {
    /// The fire endpoint (`POST {callback}/api/cron/fire`) as a function. Nothing in the body has an effect
    /// before the proof is verified. The answer never says which check failed.
    pub async fn fire(&self, headers: &HeaderMap, body: &[u8]) -> Answer {
        let verified = match &self.0.verifier {
            Some(verifier) => verifier.verify(headers, body).await,
            None => None,
        };
        let Some(verified) = verified else { return refused() };
        let Some((job, fire_at)) = read(body) else {
            return Answer { status: 400, retry_after: None, body: json!({ "error": "missing job_id" }) };
        };
        if !verified.is_for(&job, fire_at.as_ref()) {
            return refused();
        }
        match self.take(&job, fire_at.as_ref()).await {
            Taken::Settled(fired) => Answer {
                status: status(fired),
                retry_after: None,
                body: json!({ "status": fired.word(), "job_id": job }),
            },
            Taken::Later { why, after } => {
                Answer { status: 503, retry_after: Some(after), body: json!({ "error": why, "job_id": job }) }
            }
        }
    }

    /// A fire from the agent's own relay connection, which is already authenticated.
    pub async fn fired(&self, fire: FireBody) -> (u16, Fired) {
        match self.take(&fire.job_id, fire.fire_at.as_ref()).await {
            Taken::Settled(fired) => (status(fired), fired),
            // No one reads the word beside a refusal.
            Taken::Later { .. } => (503, Fired::Stopped),
        }
    }

    /// Runs in its own task: a caller that disconnects during the claim must not leave a claim that no one
    /// runs.
    async fn take(&self, job: &JobId, fire_at: Option<&FireAt>) -> Taken {
        let (cron, job, fire_at) = (self.clone(), job.clone(), fire_at.cloned());
        let taking = self.0.runs.spawn(async move {
            if cron.0.closing.is_cancelled() {
                return Taken::Later { why: "the agent is stopping", after: DRAINING };
            }
            if matches!(cron.0.trigger, Trigger::Off) {
                return Taken::Settled(Fired::Stopped);
            }
            cron.0.memory.lock().taking(&job);
            let taken = cron.claim(&job, fire_at.as_ref()).await;
            // For the portal, an answered arm is done. It continues with the next time that it knows.
            let answered = fire_at.as_ref().filter(|_| matches!(taken, Taken::Settled(_)));
            cron.0.memory.lock().took(&job, answered.map(FireAt::text));
            cron.ask();
            taken
        });
        taking.await.unwrap_or(Taken::Later { why: "the fire could not be accepted", after: TROUBLED })
    }

    async fn claim(&self, job: &JobId, fire_at: Option<&FireAt>) -> Taken {
        let instant = fire_at.and_then(|fire_at| Timestamp::from_microsecond(fire_at.due_us()).ok());
        Taken::Settled(match self.0.store.claim(job, instant, &self.0.owner).await {
            Ok(Claimed::Won(claim)) => {
                self.spawn_run(*claim);
                Fired::Accepted
            }
            Ok(Claimed::Lost(Lost::Gone | Lost::Off)) => Fired::Gone,
            Ok(Claimed::Lost(Lost::Settled | Lost::Held)) => Fired::Duplicate,
            Ok(Claimed::Lost(Lost::Overlap)) => Fired::Overlap,
            // The portal keeps the fire. Kept in this process, it would be lost when the process dies.
            Ok(Claimed::Lost(Lost::Queued { until })) => {
                let left = Duration::try_from(until.duration_since(self.now())).unwrap_or_default();
                let after = left.clamp(Duration::from_secs(1), QUEUED);
                return Taken::Later { why: "the last run is still in progress", after };
            }
            Err(fault) => {
                tracing::error!(job.id = %job, %fault, "cannot claim a fire");
                return Taken::Later { why: "the job store is not available", after: TROUBLED };
            }
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.terms.timepiece.now().millis()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

fn refused() -> Answer {
    Answer { status: 401, retry_after: None, body: json!({ "error": "invalid fire token" }) }
}

fn status(fired: Fired) -> u16 {
    if fired == Fired::Accepted { 202 } else { 200 }
}

/// A time that cannot be parsed counts as absent, because a stock portal need not send one.
fn read(body: &[u8]) -> Option<(JobId, Option<FireAt>)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let job = body["job_id"].as_str().filter(|job| !job.is_empty())?;
    let fire_at = body["fire_at"].as_str().and_then(|text| FireAt::parse(text).ok());
    Some((JobId::from(job), fire_at))
}
