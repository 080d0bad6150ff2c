//! Storage of the agent's own cron jobs. Jobs survive a restart, and exactly one replica runs each fire.
//!
//! [`JobStore`] is the trait. [`JsonFile`] uses the file of a stock agent, so that both can read and write
//! it side by side. [`SqliteFile`] (feature `sqlite`) uses a database. The module `rules` decides what a verb
//! does to a job; both stores use it.
//!
//! A run goes `claim` → `dispatch` → the work → `mark`, while a [`ClaimLease`] is held:
//!
//! - A claim is for one job *and* one fire time. One of any number of claimants wins. A settled fire time
//!   cannot be claimed again, however late its duplicate arrives.
//! - A claim is on disk before the caller gets it.
//! - A claim lasts 60 s and is renewed every 20 s. A run that has lost its claim cannot mark, because the
//!   store checks the claim's token.
//!
//! Leases work between replicas whose clocks differ by less than 40 s.

mod claim;
mod json;
mod new_job;
mod record;
mod rules;
#[cfg(feature = "sqlite")]
mod sqlite;
mod verbs;

use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, tz::TimeZone};
use posthouse_time::Timepiece;
use posthouse_wire::id::JobId;

use crate::cron::schedule::{Dialect, ScheduleFault};

pub use claim::{ClaimLease, ClaimRefusal, ClaimResult, JobClaim, MarkResult, RunOutcome, claim_in_turn};
pub use json::JsonFile;
pub use new_job::{JobChange, NewJob};
pub use posthouse_wire::cron::{Missed, Overlap, Policy};
pub use record::{Job, JobState, Repeat, Skipped};
pub use rules::DueJob;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteFile;

/// Storage of jobs. Every verb is one transaction: another process sees all of it or nothing.
///
/// A verb on an unknown job returns `None`, `false` or [`ClaimRefusal::Gone`], not a fault.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Adds a job under a new id. A one-shot more than 120 s in the past is refused.
    async fn create(&self, new: NewJob) -> Result<Job, Fault>;
    async fn get(&self, job: &JobId) -> Result<Option<Job>, Fault>;
    /// Every job, including disabled ones, in the order of creation.
    async fn list(&self) -> Result<Vec<Job>, Fault>;
    /// Changes only the given fields. A new schedule also sets a new next run.
    async fn update(&self, job: &JobId, change: JobChange) -> Result<Option<Job>, Fault>;
    async fn pause(&self, job: &JobId, reason: Option<&str>) -> Result<Option<Job>, Fault>;
    /// Enables the job, with its next run computed from now.
    async fn resume(&self, job: &JobId) -> Result<Option<Job>, Fault>;
    /// False if the job did not exist.
    async fn remove(&self, job: &JobId) -> Result<bool, Fault>;
    /// Sets the next run to now. A paused job is enabled again.
    async fn run_now(&self, job: &JobId) -> Result<Option<Job>, Fault>;

    /// Claims the right to run this fire. `owner` is a name for people to read. Without a fire time the
    /// claim is for a run outside the schedule; it loses to any run in progress.
    async fn claim(&self, job: &JobId, fire_at: Option<Timestamp>, owner: &str)
    -> Result<ClaimResult, Fault>;
    /// Extends the claim by 60 s. False: another replica holds the claim or the job is gone, and the run
    /// should stop.
    async fn renew(&self, claim: &JobClaim) -> Result<bool, Fault>;
    /// The last check before the side effect. False: do not run. A one-shot is counted here, so that it
    /// never runs more often than its limit even if the process dies. A second call counts once.
    async fn dispatch(&self, claim: &JobClaim) -> Result<bool, Fault>;
    /// Records how the run ended: settles the fire time, releases the claim and computes the next run.
    async fn mark(&self, claim: &JobClaim, outcome: RunOutcome) -> Result<MarkResult, Fault>;

    /// Jobs that a ticker should run now, each with the fire time to claim. Repairs malformed records if
    /// possible and skips the others.
    async fn due(&self, owner: &str) -> Result<Vec<DueJob>, Fault>;
    /// Lock that a ticker holds while it collects and claims due jobs; `None` while another one holds it.
    /// Claims are enough between our own tickers, but the stock ticker does not use claims.
    async fn tick(&self) -> Result<Option<Tick>, Fault>;
}

/// Settings that every store needs.
#[derive(Clone, Debug)]
pub struct JobStoreSettings {
    pub timepiece: Timepiece,
    /// Time zone of schedules and of written times; see [`crate::cron::schedule::zone`].
    pub zone: TimeZone,
    /// Grammar of schedules. A file shared with a stock agent needs the default.
    pub dialect: Dialect,
    /// Time that a run may be silent. A one-shot that a ticker has handed out is handed out again only
    /// after three times this, and never before half an hour. Default: 600 s; zero means no limit.
    pub inactivity: Duration,
}

impl JobStoreSettings {
    pub fn new(timepiece: Timepiece, zone: TimeZone) -> Self {
        Self { timepiece, zone, dialect: Dialect::default(), inactivity: Duration::from_secs(600) }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.timepiece.now().millis()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Lock for one ticker at a time, released on drop.
#[derive(Debug)]
pub struct Tick(#[expect(dead_code, reason = "closing the file is what unlocks it")] Option<std::fs::File>);

/// Reason why a verb failed. Nothing was changed, unless the disk failed during the write.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    #[error("schedule: {0}")]
    Schedule(#[from] ScheduleFault),
    #[error("one-shot time {0} is more than 120 s in the past")]
    Past(String),
    #[error("job field `{0}` cannot be changed")]
    Fixed(String),
    /// The stock agent continues without the lock in this case. Two writers that do so lose one of their
    /// changes.
    #[error("job store has been locked by another process for 30 s")]
    Locked,
    /// The file is left unchanged, so that a person can repair it.
    #[error("job store is unreadable: {0}")]
    Unreadable(String),
    #[error("job store: {0}")]
    Io(String),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Fault::Io(error.to_string())
    }
}
