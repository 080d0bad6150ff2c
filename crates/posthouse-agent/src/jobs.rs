//! The agent's own jobs: kept where a restart finds them, each fire of them run by exactly one replica.
//!
//! [`JobStore`] is the verbs. [`JsonFile`] keeps the very file that a stock agent keeps, so that either may
//! read and write beside the other; [`Sqlite`] (feature `sqlite`) keeps a database. What a verb does to a
//! job is written once, in `rules`, and both obey it.
//!
//! A run goes `claim` → `dispatch` → the work → `mark`, with a [`Lease`] held meanwhile:
//!
//! - A claim is for one job *and* one fire time. Of any number of claimants one wins, and a fire time that
//!   was settled stays lost, however late its duplicate comes.
//! - A claim that was won is on the disk before the caller hears of it.
//! - It lasts 60 s and is renewed every 20 s. Whoever lost it cannot mark: the token is asked for.
//!
//! Replicas whose clocks differ by less than 40 s keep each other's leases.

mod claim;
mod json;
mod record;
mod rules;
#[cfg(feature = "sqlite")]
mod sqlite;
mod verbs;
mod wish;

use std::time::Duration;

use async_trait::async_trait;
use jiff::{Timestamp, tz::TimeZone};
use posthouse_time::Timepiece;
use posthouse_wire::id::JobId;

use crate::cron::schedule::{Dialect, ScheduleFault};

pub use claim::{Claim, Claimed, Lease, Lost, Marked, Outcome, claim_in_turn};
pub use json::JsonFile;
pub use posthouse_wire::cron::{Missed, Overlap, Policy};
pub use record::{Job, Repeat, Skipped, State};
pub use rules::Due;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use wish::{Change, NewJob};

/// Where jobs are kept. Every verb is one transaction: another process sees all of it or nothing.
///
/// A verb about a job that is not there answers `None`, `false` or [`Lost::Gone`]; that is no fault.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Adds a job under an id of its own. A one-shot more than 120 s in the past is refused.
    async fn create(&self, wish: NewJob) -> Result<Job, Fault>;
    async fn get(&self, job: &JobId) -> Result<Option<Job>, Fault>;
    /// Every job, also those that are off, in the order they were added.
    async fn list(&self) -> Result<Vec<Job>, Fault>;
    /// Changes what was asked for and nothing else; a new schedule also finds a new next run.
    async fn update(&self, job: &JobId, change: Change) -> Result<Option<Job>, Fault>;
    async fn pause(&self, job: &JobId, reason: Option<&str>) -> Result<Option<Job>, Fault>;
    /// On again, with its next run counted from the present.
    async fn resume(&self, job: &JobId) -> Result<Option<Job>, Fault>;
    /// False if it was not there.
    async fn remove(&self, job: &JobId) -> Result<bool, Fault>;
    /// Makes the present its next run, and a paused job run again.
    async fn run_now(&self, job: &JobId) -> Result<Option<Job>, Fault>;

    /// Asks to be the one who runs this fire. `owner` is a name for people to read. Without a fire time the
    /// claim is for a run outside the schedule and loses to any run that goes on.
    async fn claim(&self, job: &JobId, fire_at: Option<Timestamp>, owner: &str) -> Result<Claimed, Fault>;
    /// Another 60 s. False: the claim is somebody else's or the job is gone, and the run should stop.
    async fn renew(&self, claim: &Claim) -> Result<bool, Fault>;
    /// The last word before the side effect. False: do not run. A one-shot is counted here, so that it runs
    /// at most as often as its limit says even if the process dies; asking twice counts once.
    async fn dispatch(&self, claim: &Claim) -> Result<bool, Fault>;
    /// How the run ended. Settles the fire time, lets the claim go, and finds the next run.
    async fn mark(&self, claim: &Claim, outcome: Outcome) -> Result<Marked, Fault>;

    /// What a ticker should run now, each with the fire time to claim it under. Repairs what it can of
    /// malformed records and passes over the rest.
    async fn due(&self, owner: &str) -> Result<Vec<Due>, Fault>;
    /// Held while a ticker collects and claims what is due; `None` while another one does. Between our own
    /// tickers claims suffice, but the stock one asks for no claim.
    async fn tick(&self) -> Result<Option<Tick>, Fault>;
}

/// What a store needs to know about its surroundings.
#[derive(Clone, Debug)]
pub struct Terms {
    pub timepiece: Timepiece,
    /// Where schedules are read and times are written; see [`crate::cron::schedule::zone`].
    pub zone: TimeZone,
    /// The grammar of schedules. A file that a stock agent shares wants the default.
    pub dialect: Dialect,
    /// How long a run may be silent. A one-shot that a ticker handed out is handed out again only after
    /// three times this, and never before half an hour. Default: 600 s; zero means no limit.
    pub inactivity: Duration,
}

impl Terms {
    pub fn new(timepiece: Timepiece, zone: TimeZone) -> Self {
        Self { timepiece, zone, dialect: Dialect::default(), inactivity: Duration::from_secs(600) }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.timepiece.now().millis()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// One ticker at a time. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Tick(#[expect(dead_code, reason = "closing the file is what unlocks it")] Option<std::fs::File>);

/// Why a verb could not be carried out. Nothing was changed, unless the disk failed while it was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    #[error("schedule: {0}")]
    Schedule(#[from] ScheduleFault),
    #[error("one-shot time {0} is more than 120 s in the past")]
    Past(String),
    #[error("job field `{0}` is not for changing")]
    Fixed(String),
    /// The stock agent goes on without the lock here; two writers who each believe in their own copy lose
    /// one of the two.
    #[error("job store is locked by another process for 30 s")]
    Locked,
    /// What is there is left as it is: a person may still mend it.
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
