//! What the portal asks of the agent, and how the agent answers.

use serde::{Deserialize, Serialize};

use super::{FireAt, Overlap, Policy};
use crate::{InstanceId, JobId, ScheduleId};

/// The one thing that a fire token is good for.
pub const PURPOSE: &str = "cron_fire";

/// Whom a fire token is addressed to.
pub fn audience(instance: &InstanceId) -> String {
    format!("agent:{instance}")
}

/// The body of a fire. Stock agents read the job alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FireBody {
    pub job_id: JobId,
    /// Nothing only where an outside caller left it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fire_at: Option<FireAt>,
    /// Only for agents that sent a policy: what they wished for an overlap.
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

/// What a fire token says. `job_id`, `fire_at` and `schedule_id` bind it to one call; stock agents do
/// not look at them, ours do.
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

/// What an agent says about a fire that it took (any 2xx), by the `status` of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fired {
    /// It runs.
    Accepted,
    /// There is no such job.
    Gone,
    /// Its operator has stopped it; jobs are armed again at its next start.
    Stopped,
    /// It had this fire before.
    Duplicate,
    /// The last run still goes on, and the job wants no second beside it.
    Overlap,
}

impl Fired {
    /// Reads the body of a 2xx. Any 2xx ends the arm, so what is unreadable counts as accepted.
    pub fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
        }
        let answer = serde_json::from_slice::<Answer>(body);
        answer.map_or(Self::Accepted, |answer| Self::of(&answer.status))
    }

    /// The meaning of a `status`; a word that we do not know is a success all the same.
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
