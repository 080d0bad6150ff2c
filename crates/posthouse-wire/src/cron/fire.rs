//! Cron fires: the call of the server to the agent, the claims of its token, and the agent's answer.

use serde::{Deserialize, Serialize};

use super::{FireAt, Overlap, Policy};
use crate::{InstanceId, JobId, ScheduleId};

/// `purpose` claim of a fire token.
pub const PURPOSE: &str = "cron_fire";

/// `aud` claim of a fire token.
pub fn audience(instance: &InstanceId) -> String {
    format!("agent:{instance}")
}

/// Body of a fire. Stock agents read only the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FireBody {
    pub job_id: JobId,
    /// `None` only if an external caller left it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire_at: Option<FireAt>,
    /// The overlap rule of the job's policy. Absent if it is the default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: Overlap,
}

impl FireBody {
    pub fn new(job: JobId, fire_at: FireAt, policy: &Policy) -> Self {
        Self { job_id: job, fire_at: Some(fire_at), overlap: policy.overlap }
    }
}

fn is_default(overlap: &Overlap) -> bool {
    *overlap == Overlap::default()
}

/// Claims of a fire token. `job_id`, `fire_at` and `schedule_id` bind it to one call. Stock agents do not check
/// these three, SDK agents do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FireClaims {
    pub iss: String,
    pub aud: String,
    pub sub: String,
    pub purpose: String,
    pub iat: i64,
    pub nbf: i64,
    pub exp: i64,
    pub jti: String,
    pub job_id: JobId,
    pub fire_at: String,
    pub schedule_id: ScheduleId,
}

/// Answer of an agent to a fire that it accepted (any 2xx), from the `status` in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// The job runs.
    Accepted,
    /// The job does not exist.
    Gone,
    /// The agent's operator has stopped it. It arms its jobs again at its next start.
    Stopped,
    /// The agent already got this fire.
    Duplicate,
    /// The last run is still going, and the job's policy does not allow a second one.
    Overlap,
}

impl Fired {
    /// Reads the body of a 2xx answer. Any 2xx ends the arm, so an unreadable body counts as accepted.
    pub fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
        }
        let answer = serde_json::from_slice::<Answer>(body);
        answer.map_or(Self::Accepted, |answer| Self::of(&answer.status))
    }

    /// Reads a `status` word. An unknown word counts as accepted.
    pub fn of(word: &str) -> Self {
        match word {
            "gone" => Self::Gone,
            "gateway_stopped" => Self::Stopped,
            "duplicate" => Self::Duplicate,
            "overlap" => Self::Overlap,
            _ => Self::Accepted,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Gone => "gone",
            Self::Stopped => "gateway_stopped",
            Self::Duplicate => "duplicate",
            Self::Overlap => "overlap",
        }
    }
}
