//! Arms: pending cron calls, at most one per job, and the history of ended ones. Also alarms: arms that the
//! server sets for itself and that no agent sees.

use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::cron::{ArmedJob, FireAt, FireProof, Policy};
use posthouse_wire::{InstanceId, JobId, ScheduleId, TenantId};

use crate::Fault;

/// Row key of an arm. Every new schedule of a job gets a new key, so a remembered key of an older schedule
/// finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArmKey(pub i64);

/// The time at which an arm is to be handled next, in microseconds, and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    pub next_us: i64,
    pub key: ArmKey,
}

/// A request to arm a job.
#[derive(Clone, Debug)]
pub struct NewArm {
    pub instance: InstanceId,
    pub job: JobId,
    pub schedule: ScheduleId,
    pub fire_at: FireAt,
    /// None: the fire goes over the agent's socket.
    pub callback: Option<String>,
    pub dedup: String,
    pub proof: FireProof,
    pub policy: Policy,
    /// Later fire times, as far as the agent knows them.
    pub then: Vec<FireAt>,
    /// The due time plus the jitter of this job.
    pub next_us: i64,
}

/// An alarm: a call that the server wants for itself, about something of a tenant.
#[derive(Clone, Debug)]
pub struct NewAlarm {
    /// Name of the target that is called.
    pub target: String,
    pub tenant: TenantId,
    pub job: JobId,
    pub schedule: ScheduleId,
    pub fire_at: FireAt,
}

/// A pending arm.
#[derive(Clone, Debug)]
pub struct Arm {
    pub key: ArmKey,
    pub tenant: TenantId,
    /// The agent whose turn it takes. For an alarm `{target}:{tenant}`, which is the name of no agent.
    pub instance: InstanceId,
    /// For an alarm, the name of its target. None for an agent, which is reached by its callback or its
    /// socket.
    pub target: Option<String>,
    pub job: JobId,
    pub schedule: ScheduleId,
    pub fire_at: FireAt,
    pub callback: Option<String>,
    pub dedup: String,
    pub proof: FireProof,
    pub policy: Policy,
    pub then: Vec<FireAt>,
    pub state: ArmState,
    /// Number of failed attempts.
    pub attempts: u32,
    pub next_us: i64,
    pub last_status: Option<u16>,
    pub last_error: Option<String>,
    pub created: Moment,
    /// Time of the first failed attempt. The time until the server gives up counts from here.
    pub failing_since: Option<Moment>,
    /// Whether the agent's wake URL was called in this series of attempts.
    pub poked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmState {
    Armed,
    /// A node holds it under a lease.
    Dispatching,
    /// Given up. The next sign of life from the agent revives it.
    Dead,
}

impl Arm {
    /// Whether the server set it for itself.
    pub fn is_alarm(&self) -> bool {
        self.target.is_some()
    }
}

impl ArmState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Armed => "armed",
            Self::Dispatching => "dispatching",
            Self::Dead => "dead",
        }
    }
}

/// Outcome of a request to arm a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Armed {
    New {
        key: ArmKey,
        /// The arm of the same job that it replaced.
        superseded: Option<ArmKey>,
    },
    /// The same fire is already pending. Its callback, policy and known times are updated. A dead arm is
    /// armed again and due now.
    Same { schedule: ScheduleId, due: Due },
    /// The agent accepted the same fire within the last 24 h, so there is nothing to do.
    Delivered { schedule: ScheduleId, at: Moment },
    /// The instance has reached its limit of pending arms.
    OverQuota,
}

/// The way in which an arm ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmFate {
    /// The agent accepted it and runs it.
    Delivered,
    /// The agent has no such job.
    Gone,
    /// The agent is stopped and dropped it.
    Dropped,
    /// The agent had received it before.
    Duplicate,
    /// The previous run has not ended.
    Overlap,
    /// Too late according to the job's own policy.
    Missed,
    Superseded,
    Cancelled,
    /// Given up because a later time of the job is already known.
    Dead,
}

impl ArmFate {
    pub fn word(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Gone => "gone",
            Self::Dropped => "dropped",
            Self::Duplicate => "duplicate",
            Self::Overlap => "overlap",
            Self::Missed => "missed",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
        }
    }

    /// Whether the agent accepted the fire. An accepted fire is not made again.
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Delivered | Self::Gone | Self::Dropped | Self::Duplicate | Self::Overlap)
    }
}

/// Result of one attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FireAttempt {
    /// Status of the response. None when there was no response.
    pub status: Option<u16>,
    /// Reason for the failure, in the server's own words.
    pub error: Option<String>,
    /// Delay of the attempt after the due time.
    pub late_ms: i64,
    /// The agent may have received it although no response came. A sign of life does not shorten the pause
    /// before the next attempt then, because the job could run twice.
    pub unsure: bool,
}

/// New state of an arm that the caller holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArmResult {
    /// The arm has ended.
    Ended {
        fate: ArmFate,
        attempt: FireAttempt,
        /// Skipped due times of this job before this one. Each gets a row of history.
        missed: Vec<FireAt>,
        /// The next known time. It is armed in the same transaction.
        successor: Option<Successor>,
    },
    /// The attempt failed and is repeated later.
    Postponed {
        attempt: FireAttempt,
        next_us: i64,
        /// The time from now until `next_us`. If the wall clock is set meanwhile, this pause counts.
        pause: Duration,
        poked: bool,
    },
    /// The last attempt failed. The arm waits for a sign of life.
    Dead { attempt: FireAttempt },
    /// No attempt was made. The arm is released unchanged, due at `next_us` if that is given.
    PutBack { next_us: Option<i64> },
}

/// A later time of the same job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    pub schedule: ScheduleId,
    pub fire_at: FireAt,
    pub dedup: String,
    pub then: Vec<FireAt>,
    pub next_us: i64,
}

/// A row of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireLine {
    /// Its number in the history of its agent. Later lines have higher numbers.
    pub number: i64,
    pub at: Moment,
    pub instance: InstanceId,
    pub job: JobId,
    pub schedule: ScheduleId,
    pub fire_at: String,
    /// `attempt` for a failed one, `revived`, `manual`, or a fate.
    pub what: String,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub late_ms: Option<i64>,
    /// Time of the next attempt.
    pub next: Option<Moment>,
}

/// Filter for pending arms.
#[derive(Clone, Debug, Default)]
pub struct ArmFilter {
    pub tenant: Option<TenantId>,
    pub instance: Option<InstanceId>,
    pub job: Option<JobId>,
    pub state: Option<ArmState>,
    /// Only arms with a greater key than this one.
    pub after: Option<ArmKey>,
}

#[async_trait]
pub trait Arms: Send + Sync {
    /// Arms a job, identified by (instance, job). [`Armed`] says what repeating it does. `quota` limits the
    /// pending arms of one instance; a replaced arm does not count twice.
    async fn arm(&self, new: NewArm, quota: u32, now: Moment) -> Result<Armed, Fault>;

    /// Ends the job's arm. It also forgets which fires of the job were accepted, so that the job can always
    /// be armed again. A job without an arm is fine. Returns the arm that ended.
    async fn cancel(&self, instance: &InstanceId, job: &JobId, now: Moment) -> Result<Option<ArmKey>, Fault>;

    /// Sets the alarm of a job for this target and tenant. It replaces an alarm for another time; repeating
    /// it changes nothing. An alarm is forgotten once it has fired, so setting it then fires it again.
    /// `quota` limits the alarms of one tenant. An unknown tenant is a fault. Alarms are deleted with their
    /// tenant.
    async fn set_alarm(&self, new: NewAlarm, quota: u32, now: Moment) -> Result<Armed, Fault>;

    /// Ends a pending alarm. A missing one is fine. Returns the alarm that ended.
    async fn unset_alarm(
        &self,
        target: &str,
        tenant: &TenantId,
        job: &JobId,
    ) -> Result<Option<ArmKey>, Fault>;

    /// Ends all pending alarms whose job begins with this text. Returns the alarms that ended.
    async fn unset_alarms(
        &self,
        target: &str,
        tenant: &TenantId,
        beginning: &str,
    ) -> Result<Vec<ArmKey>, Fault>;

    /// Pending arms of an instance, by due time.
    async fn listing(&self, instance: &InstanceId, at_most: u32) -> Result<Vec<ArmedJob>, Fault>;

    /// Armed arms and alarms that are due before `until_us`, in order, after the given one. The clock fills
    /// its heap with them page by page.
    async fn due(&self, after: Due, until_us: i64, at_most: u32) -> Result<Vec<Due>, Fault>;

    /// The tenants of these arms. Arms that are no longer armed are left out.
    async fn tenants(&self, keys: Vec<ArmKey>) -> Result<Vec<(ArmKey, TenantId)>, Fault>;

    /// Claims arms under a lease, in one transaction. Arms that are no longer armed are left out.
    async fn claim(&self, keys: Vec<ArmKey>, owner: &str, lease_until: Moment) -> Result<Vec<Arm>, Fault>;

    /// Extends the lease of held arms. Returns those that the owner no longer holds.
    async fn renew(&self, keys: Vec<ArmKey>, owner: &str, lease_until: Moment) -> Result<Vec<ArmKey>, Fault>;

    /// Releases a held arm as `settled` says and writes its row of history, in one transaction. Returns the
    /// next due time of that job. If the arm was meanwhile cancelled, superseded or claimed by another owner,
    /// nothing changes and the result is None. One exception: that the agent accepted the fire is stored all
    /// the same.
    async fn settle(
        &self,
        key: ArmKey,
        owner: &str,
        settled: ArmResult,
        now: Moment,
    ) -> Result<Option<Due>, Fault>;

    /// Releases arms whose holders are gone. A backend that only one server can have open releases whatever
    /// other owners than `owner` hold; a shared one releases what has outlived its lease. Each release counts
    /// as a failed attempt, because its result is unknown, and is retried after `pause`. Arms that are not
    /// yet due are released without an attempt. Returns what is due next.
    async fn free_orphans(&self, owner: &str, now: Moment, pause: Duration) -> Result<Vec<Due>, Fault>;

    /// Adjusts retries after the wall clock was set. The pauses of all retries stay the same, and none is
    /// longer than `longest`. No arm is due before its `fire_at`, however often it failed, and an arm that
    /// never failed keeps its time. Returns the arms whose due time changed.
    async fn move_retries(&self, now: Moment, longest: Duration) -> Result<Vec<Due>, Fault>;

    /// Handles a sign of life of an agent. Its dead arms are armed again and due now. Arms that wait for a
    /// retry are due now too, unless the agent may have received the last attempt. No arm is due before its
    /// `fire_at`. Returns what is due.
    async fn revive(&self, instance: &InstanceId, now: Moment) -> Result<Vec<Due>, Fault>;

    /// Makes the dead or waiting arm of one job due now, or at its `fire_at` if that is later. None when no
    /// arm is pending.
    async fn redrive(&self, instance: &InstanceId, job: &JobId, now: Moment) -> Result<Option<Due>, Fault>;

    /// The pending arm of one job.
    async fn pending(&self, instance: &InstanceId, job: &JobId) -> Result<Option<Arm>, Fault>;

    /// Pending arms of agents, by key.
    async fn arms(&self, filter: ArmFilter, at_most: u32) -> Result<Vec<Arm>, Fault>;

    /// The way in which a schedule ended, if it has. An external scheduler may call about an older schedule.
    async fn ending(&self, instance: &InstanceId, schedule: &ScheduleId) -> Result<Option<String>, Fault>;

    /// Newest first, before the line with the given number.
    async fn history(
        &self,
        instance: &InstanceId,
        job: Option<&JobId>,
        before: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<FireLine>, Fault>;

    /// Adds a row of history that belongs to no arm: a manual fire.
    async fn note_fire(
        &self,
        instance: &InstanceId,
        job: &JobId,
        fire_at: &FireAt,
        attempt: FireAttempt,
        now: Moment,
    ) -> Result<(), Fault>;

    /// Number of arms and alarms by state: armed (including held ones), dead.
    async fn count_by_state(&self) -> Result<(u64, u64), Fault>;
}
