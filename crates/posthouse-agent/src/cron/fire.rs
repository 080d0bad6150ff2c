//! A fire comes in: is it genuine, whose is it, and who runs it?

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use posthouse_wire::JobId;
use posthouse_wire::cron::{FireAt, FireBody, Fired};
use serde_json::{Value, json};

use super::{Cron, Trigger};
use crate::jobs::{Claimed, Lost};

/// When a fire may be brought again that we cannot take at present.
const DRAINING: Duration = Duration::from_secs(1);
const TROUBLED: Duration = Duration::from_secs(5);
/// The most that a queued fire waits before it is brought again. The run before it may end any time.
const QUEUED: Duration = Duration::from_secs(15);

/// What to say to whoever brought a fire.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    /// For the header `Retry-After`, in whole seconds.
    pub retry_after: Option<Duration>,
    /// JSON.
    pub body: Value,
}

/// What became of a fire.
enum Taken {
    /// Nothing more is to be done about it.
    Settled(Fired),
    /// It should be brought again.
    Later { why: &'static str, after: Duration },
}

impl Cron {
    /// The fire endpoint as a function over what came: `POST {callback}/api/cron/fire`. Nothing of the body
    /// is acted upon before the proof is judged, and which check failed is never told.
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

    /// A fire that came down the agent's own line, which has proved itself.
    pub async fn fired(&self, fire: FireBody) -> (u16, Fired) {
        match self.take(&fire.job_id, fire.fire_at.as_ref()).await {
            Taken::Settled(fired) => (status(fired), fired),
            // The word beside a refusal is read by nobody.
            Taken::Later { .. } => (503, Fired::Stopped),
        }
    }

    /// In a task of its own: a caller who hangs up while we claim must not leave a claim that nobody runs.
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
            // The portal counts an arm as done that was answered for, and goes on to the next time it knows
            // by itself.
            let answered = fire_at.as_ref().filter(|_| matches!(taken, Taken::Settled(_)));
            cron.0.memory.lock().took(&job, answered.map(FireAt::text));
            cron.ask();
            taken
        });
        taking.await.unwrap_or(Taken::Later { why: "the fire could not be taken", after: TROUBLED })
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
            // The portal remembers it for us: what waits in our memory would die with us.
            Ok(Claimed::Lost(Lost::Queued { until })) => {
                let left = Duration::try_from(until.duration_since(self.now())).unwrap_or_default();
                let after = left.clamp(Duration::from_secs(1), QUEUED);
                return Taken::Later { why: "the last run still goes on", after };
            }
            Err(fault) => {
                tracing::error!(job.id = %job, %fault, "could not claim a fire");
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

/// A time that cannot be read counts as none, since a stock portal's need not be there at all.
fn read(body: &[u8]) -> Option<(JobId, Option<FireAt>)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let job = body["job_id"].as_str().filter(|job| !job.is_empty())?;
    let fire_at = body["fire_at"].as_str().and_then(|text| FireAt::parse(text).ok());
    Some((JobId::from(job), fire_at))
}
