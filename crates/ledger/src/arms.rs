//! What agents asked to be called about: one pending arm a job, and the history of what became of them.
//! Beside them alarms, which the house set for itself: no agent sees them.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::cron::{ArmedJob, FireAt, Policy, Proof};
use posthouse_wire::{InstanceId, JobId, ScheduleId, TenantId};

use crate::Fault;

/// An arm by its row. Every new schedule of a job gets a new one, so what was remembered of an older
/// finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArmKey(pub i64);

/// When an arm is to be looked at next, in microseconds, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    pub next_us: i64,
    pub key: ArmKey,
}

/// A wish to be called.
#[derive(Clone, Debug)]
pub struct NewArm {
    pub instance: InstanceId,
    pub job: JobId,
    pub schedule: ScheduleId,
    pub fire_at: FireAt,
    /// Nothing: down the agent's socket.
    pub callback: Option<String>,
    pub dedup: String,
    pub proof: Proof,
    pub policy: Policy,
    /// Times after this one, as far as the agent knows them.
    pub then: Vec<FireAt>,
    /// The due time, and the job's share of its jitter.
    pub next_us: i64,
}

/// A call that the house itself wants, about something of a tenant's.
#[derive(Clone, Debug)]
pub struct NewAlarm {
    /// What it rings.
    pub bell: String,
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
    /// Whose turn it takes. For an alarm `{bell}:{tenant}`, a name that no agent has.
    pub instance: InstanceId,
    /// What it rings, for an alarm; an agent is called back or down its socket.
    pub bell: Option<String>,
    pub job: JobId,
    pub schedule: ScheduleId,
    pub fire_at: FireAt,
    pub callback: Option<String>,
    pub dedup: String,
    pub proof: Proof,
    pub policy: Policy,
    pub then: Vec<FireAt>,
    pub state: ArmState,
    /// Attempts that failed.
    pub attempts: u32,
    pub next_us: i64,
    pub last_status: Option<u16>,
    pub last_error: Option<String>,
    pub created: Moment,
    /// When the first attempt failed: giving up counts from here.
    pub failing_since: Option<Moment>,
    /// Whether its agent's wake URL was poked in this series.
    pub poked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmState {
    Armed,
    /// Somebody holds it under a lease.
    Dispatching,
    /// Given up; it comes back with the next sign of life.
    Dead,
}

impl Arm {
    /// Whether the house set it for itself.
    pub fn is_alarm(&self) -> bool {
        self.bell.is_some()
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

/// What became of a wish to be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Armed {
    New {
        key: ArmKey,
        /// The arm of the same job that it replaced.
        superseded: Option<ArmKey>,
    },
    /// The same fire is pending already. Callback, policy and known times are brought up to date; a dead
    /// arm is armed again, due now.
    Same { schedule: ScheduleId, due: Due },
    /// The same fire was taken by the agent within the last 24 h, so there is nothing to do.
    Delivered { schedule: ScheduleId, at: Moment },
    /// The instance has as many pending arms as it may.
    OverQuota,
}

/// How an arm ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Taken: it runs.
    Delivered,
    /// The agent has no such job.
    Gone,
    /// The agent is stopped and let it go.
    Dropped,
    /// The agent had it before.
    Duplicate,
    /// The last run still goes on.
    Overlap,
    /// Too late, by the job's own policy.
    Missed,
    Superseded,
    Cancelled,
    /// Given up for a later time that is already known.
    Dead,
}

impl Fate {
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

    /// Whether the agent took it: then the same fire is not made again.
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Delivered | Self::Gone | Self::Dropped | Self::Duplicate | Self::Overlap)
    }
}

/// What one attempt came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The answer's status; nothing when there was no answer.
    pub status: Option<u16>,
    /// Why it was no success, in our own words.
    pub error: Option<String>,
    /// How long after the due time it was made.
    pub late_ms: i64,
    /// The agent may have heard it although nothing came back: the wait for the next attempt is not cut
    /// short by a sign of life, or the job might run twice.
    pub unsure: bool,
}

/// What becomes of an arm that somebody holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is over.
    Ended {
        fate: Fate,
        attempt: Attempt,
        /// Due times of this job that were passed over before it, each a line of history.
        missed: Vec<FireAt>,
        /// The next known time, armed in the same transaction.
        successor: Option<Successor>,
    },
    /// It failed and is tried again.
    Postponed { attempt: Attempt, next_us: i64, poked: bool },
    /// It failed for the last time and waits for a sign of life.
    Dead { attempt: Attempt },
    /// Nothing was tried: it is let go of as it was, due again at `next_us`.
    PutBack { next_us: i64 },
}

/// A further time of the same job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    pub schedule: ScheduleId,
    pub fire_at: FireAt,
    pub dedup: String,
    pub then: Vec<FireAt>,
    pub next_us: i64,
}

/// A line of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireLine {
    pub seq: i64,
    pub at: Moment,
    pub instance: InstanceId,
    pub job: JobId,
    pub schedule: ScheduleId,
    pub fire_at: String,
    /// `attempt` for one that failed, `revived`, `manual`, or a fate.
    pub what: String,
    pub status: Option<u16>,
    pub error: Option<String>,
    pub late_ms: Option<i64>,
    /// When it was to be tried next.
    pub next: Option<Moment>,
}

/// What to look for among pending arms.
#[derive(Clone, Debug, Default)]
pub struct ArmFilter {
    pub tenant: Option<TenantId>,
    pub instance: Option<InstanceId>,
    pub job: Option<JobId>,
    pub state: Option<ArmState>,
    /// Those after this one, in the order of their keys.
    pub after: Option<ArmKey>,
}

#[async_trait]
pub trait Arms: Send + Sync {
    /// Arms by (instance, job). See [`Armed`] for what repeating it does; `quota` bounds the pending arms
    /// of one instance, of which a replaced one is not one more.
    async fn arm(&self, new: NewArm, quota: u32, now: Moment) -> Result<Armed, Fault>;

    /// Ends the job's arm and forgets which of its fires were taken, so that arming it again always
    /// works. Nothing armed is fine. Returns the arm that ended.
    async fn cancel(&self, instance: &InstanceId, job: &JobId, now: Moment) -> Result<Option<ArmKey>, Fault>;

    /// Sets the alarm of a job of this bell and tenant, in place of one for another time; the same again
    /// changes nothing. It is not remembered once it rang, so setting it then rings again. `quota` bounds
    /// the alarms of one tenant. A tenant that is not there is a fault; one that goes takes them along.
    async fn set_alarm(&self, new: NewAlarm, quota: u32, now: Moment) -> Result<Armed, Fault>;

    /// Ends a pending alarm. None is fine. Returns the one that ended.
    async fn unset_alarm(&self, bell: &str, tenant: &TenantId, job: &JobId) -> Result<Option<ArmKey>, Fault>;

    /// What an instance has pending, by due time.
    async fn listing(&self, instance: &InstanceId, at_most: u32) -> Result<Vec<ArmedJob>, Fault>;

    /// Armed arms and alarms due before `until_us`, in order, after the one named: for filling the heap by pages.
    async fn due(&self, after: Due, until_us: i64, at_most: u32) -> Result<Vec<Due>, Fault>;

    /// Takes arms under a lease, in one transaction. Those that are not armed any more are left out.
    async fn claim(&self, keys: Vec<ArmKey>, owner: &str, lease_until: Moment) -> Result<Vec<Arm>, Fault>;

    /// Keeps what is held. Returns those that are no longer the owner's.
    async fn renew(&self, keys: Vec<ArmKey>, owner: &str, lease_until: Moment) -> Result<Vec<ArmKey>, Fault>;

    /// Lets go of a held arm as told, with its line of history, in one transaction. Returns what is due
    /// next of that job. Nothing is changed if it was cancelled, superseded or taken over meanwhile:
    /// that returns nothing, save that a fate in which the agent took it is remembered all the same.
    async fn settle(
        &self,
        key: ArmKey,
        owner: &str,
        settled: Settled,
        now: Moment,
    ) -> Result<Option<Due>, Fault>;

    /// Frees what was held by those who are gone: at the start whatever others than `owner` hold where no
    /// other house can be alive, otherwise what has outlived its lease. Each counts as a failed attempt,
    /// since nobody knows how it ended; those not yet due are just let go of. Returns what is due next.
    async fn free_orphans(&self, owner: &str, now: Moment, retry_us: i64) -> Result<Vec<Due>, Fault>;

    /// A sign of life: dead arms of the instance are armed again, due now, and those waiting for a retry
    /// need wait no longer, save where the agent may have heard the last attempt. Returns what is due.
    async fn revive(&self, instance: &InstanceId, now: Moment) -> Result<Vec<Due>, Fault>;

    /// One job's dead or waiting arm, tried again now. Nothing when none is pending.
    async fn redrive(&self, instance: &InstanceId, job: &JobId, now: Moment) -> Result<Option<Due>, Fault>;

    /// One job's pending arm.
    async fn pending(&self, instance: &InstanceId, job: &JobId) -> Result<Option<Arm>, Fault>;

    /// Agents' pending arms, by key.
    async fn arms(&self, filter: ArmFilter, at_most: u32) -> Result<Vec<Arm>, Fault>;

    /// How a schedule ended, if it has: for an outside scheduler that calls about an older one.
    async fn ending(&self, instance: &InstanceId, schedule: &ScheduleId) -> Result<Option<String>, Fault>;

    /// Newest first, before the line named.
    async fn history(
        &self,
        instance: &InstanceId,
        job: Option<&JobId>,
        before: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<FireLine>, Fault>;

    /// A line of history about something that is no arm: a fire by hand.
    async fn note_fire(
        &self,
        instance: &InstanceId,
        job: &JobId,
        fire_at: &FireAt,
        attempt: Attempt,
        now: Moment,
    ) -> Result<(), Fault>;

    /// How many arms and alarms there are in each state: armed (held ones among them), dead.
    async fn census(&self) -> Result<(u64, u64), Fault>;
}
