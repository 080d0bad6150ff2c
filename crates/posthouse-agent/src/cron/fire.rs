//! Incoming fires: verifying the proof, claiming the fire and starting the run.

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use posthouse_wire::JobId;
use posthouse_wire::cron::{FireAt, FireBody, Fired};
use serde_json::{Value, json};

use super::{Cron, Trigger};
use crate::jobs::{ClaimRefusal, ClaimResult};

/// Retry times for fires that cannot be accepted at present.
const DRAINING: Duration = Duration::from_secs(1);
const TROUBLED: Duration = Duration::from_secs(5);
/// Longest wait of a queued fire before its next delivery. The run before it may end at any time.
const QUEUED: Duration = Duration::from_secs(15);

/// HTTP answer to a fire.
#[derive(Clone, Debug, PartialEq)]
pub struct FireResponse {
    pub status: u16,
    /// For the header `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// JSON.
    pub body: Value,
}

/// What becomes of an incoming fire.
enum FireDecision {
    /// Nothing more is to be done.
    Done(Fired),
    /// The portal should deliver it again.
    Later { why: &'static str, after: Duration },
}

impl Cron {
    /// The fire endpoint (`POST {callback}/api/cron/fire`) as a function. Nothing in the body has an effect
    /// before the proof is verified. The answer never says which check failed.
    pub async fn fire(&self, headers: &HeaderMap, body: &[u8]) -> FireResponse {
        let verified = match &self.0.verifier {
            Some(verifier) => verifier.verify(headers, body).await,
            None => None,
        };
        let Some(verified) = verified else { return refused() };
        let Some((job, fire_at)) = read(body) else {
            return FireResponse {
                status: 400,
                retry_after: None,
                body: json!({ "error": "missing job_id" }),
            };
        };
        if !verified.is_for(&job, fire_at.as_ref()) {
            return refused();
        }
        match self.accept(&job, fire_at.as_ref()).await {
            FireDecision::Done(fired) => FireResponse {
                status: status(fired),
                retry_after: None,
                body: json!({ "status": fired.word(), "job_id": job }),
            },
            FireDecision::Later { why, after } => FireResponse {
                status: 503,
                retry_after: Some(after),
                body: json!({ "error": why, "job_id": job }),
            },
        }
    }

    /// A fire from the agent's own relay connection, which is already authenticated.
    pub async fn fired(&self, fire: FireBody) -> (u16, Fired) {
        match self.accept(&fire.job_id, fire.fire_at.as_ref()).await {
            FireDecision::Done(fired) => (status(fired), fired),
            // No one reads the word beside a refusal.
            FireDecision::Later { .. } => (503, Fired::Stopped),
        }
    }

    /// Runs in its own task: a caller that disconnects during the claim must not leave a claim that no one
    /// runs.
    async fn accept(&self, job: &JobId, fire_at: Option<&FireAt>) -> FireDecision {
        let (cron, job, fire_at) = (self.clone(), job.clone(), fire_at.cloned());
        let accepting = self.0.runs.spawn(async move {
            if cron.0.closing.is_cancelled() {
                return FireDecision::Later { why: "the agent is stopping", after: DRAINING };
            }
            if matches!(cron.0.trigger, Trigger::Off) {
                return FireDecision::Done(Fired::Stopped);
            }
            cron.0.known_arms.lock().claim_started(&job);
            let decision = cron.claim(&job, fire_at.as_ref()).await;
            // For the portal, an answered arm is done. It continues with the next time that it knows.
            let answered = fire_at.as_ref().filter(|_| matches!(decision, FireDecision::Done(_)));
            cron.0.known_arms.lock().claim_ended(&job, answered.map(FireAt::text));
            cron.ask();
            decision
        });
        accepting
            .await
            .unwrap_or(FireDecision::Later { why: "the fire could not be accepted", after: TROUBLED })
    }

    async fn claim(&self, job: &JobId, fire_at: Option<&FireAt>) -> FireDecision {
        let instant = fire_at.and_then(|fire_at| Timestamp::from_microsecond(fire_at.due_us()).ok());
        FireDecision::Done(match self.0.store.claim(job, instant, &self.0.owner).await {
            Ok(ClaimResult::Won(claim)) => {
                self.spawn_run(*claim);
                Fired::Accepted
            }
            Ok(ClaimResult::Refused(ClaimRefusal::Gone | ClaimRefusal::Off)) => Fired::Gone,
            Ok(ClaimResult::Refused(ClaimRefusal::Settled | ClaimRefusal::Held)) => Fired::Duplicate,
            Ok(ClaimResult::Refused(ClaimRefusal::Overlap)) => Fired::Overlap,
            // The portal keeps the fire. Kept in this process, it would be lost when the process dies.
            Ok(ClaimResult::Refused(ClaimRefusal::Queued { until })) => {
                let left = Duration::try_from(until.duration_since(self.now())).unwrap_or_default();
                let after = left.clamp(Duration::from_secs(1), QUEUED);
                return FireDecision::Later { why: "the last run is still in progress", after };
            }
            Err(fault) => {
                tracing::error!(job.id = %job, %fault, "cannot claim a fire");
                return FireDecision::Later { why: "the job store is not available", after: TROUBLED };
            }
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.store_settings.timepiece.now().millis())
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

fn refused() -> FireResponse {
    FireResponse { status: 401, retry_after: None, body: json!({ "error": "invalid fire token" }) }
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
