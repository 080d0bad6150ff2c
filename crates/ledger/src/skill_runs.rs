//! Runs of skills: those that wait, those that run, and the records of those that have ended.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{DispatchId, RunId, TenantId};

use crate::Fault;
use crate::trace::TenantDispatch;

/// Runs of a tenant that are kept. The oldest ended ones are deleted.
pub const RUNS_OF_A_TENANT: i64 = 5000;
/// Runs of a tenant that may wait.
pub const QUEUED_RUNS: u32 = 1000;
/// How often a run is begun that may be repeated.
pub const RUN_ATTEMPTS: u32 = 3;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunState {
    Queued,
    Running,
    Succeeded,
    /// It ended with errors, or could not begin.
    Failed,
    Cancelled,
    /// The server stopped during the run. It is not repeated, because its effects may have happened.
    Interrupted,
}

impl RunState {
    pub const ALL: [Self; 6] =
        [Self::Queued, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled, Self::Interrupted];

    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }

    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// A run as it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    pub id: RunId,
    pub tenant: TenantId,
    pub skill: String,
    pub version: Option<String>,
    /// What started it, for example `cron`, `event` or `agent`.
    pub source: String,
    pub trigger_name: String,
    pub trigger_id: Option<String>,
    /// The client that asked for it, or the trigger.
    pub caller: String,
    pub fired: Moment,
    /// Inputs as JSON, for a run that waits.
    pub inputs: Option<String>,
    /// Whether it may be begun again after a crash, because it has no effects.
    pub repeatable: bool,
    /// The message that led to it, as its event says.
    pub cause: Option<DispatchId>,
}

/// A stored run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    pub number: i64,
    pub run: NewRun,
    pub state: RunState,
    pub attempts: u32,
    pub started: Option<Moment>,
    pub ended: Option<Moment>,
    /// The class and message of its first error.
    pub error: Option<String>,
    /// The trace, as JSON. Lists leave it out.
    pub record: Option<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    pub state: RunState,
    pub version: Option<String>,
    pub ended: Moment,
    pub error: Option<String>,
    pub record: Option<String>,
}

/// Tenants and skills that have no place for another run now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusyRuns {
    pub tenants: Vec<TenantId>,
    /// Skills by their tenants.
    pub skills: Vec<(TenantId, String)>,
}

/// Filter of a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub skill: Option<String>,
    pub state: Option<RunState>,
    /// Only runs that a trigger started.
    pub triggered: bool,
    pub since: Option<Moment>,
    /// Only runs that this client asked for.
    pub caller: Option<String>,
}

#[async_trait]
pub trait SkillRuns: Send + Sync {
    /// Stores a run that begins now. An id that is known changes nothing.
    async fn begin_run(&self, run: NewRun) -> Result<(), Fault>;
    /// Stores a run that waits. False if the tenant has too many of them. An id that is known changes nothing.
    async fn queue_run(&self, run: NewRun) -> Result<bool, Fault>;
    /// Begins the oldest waiting run of the first tenant after `after`, in the order of ids, that has one. Runs of busy
    /// tenants and skills are passed over. After the last tenant the first one follows. So tenants take turns.
    async fn next_run(&self, after: &TenantId, busy: &BusyRuns) -> Result<Option<StoredRun>, Fault>;
    /// Notes that a run is about to have an effect. From then on it is not begun again, whatever was known about it.
    async fn note_effect(&self, tenant: &TenantId, run: &RunId) -> Result<(), Fault>;
    /// Notes that a run is about to send a dispatch, so that its receipt leads to the run whatever happens.
    async fn note_dispatch(&self, tenant: &TenantId, run: &RunId, dispatch: &DispatchId)
    -> Result<(), Fault>;
    /// Ends a run. One that has ended stays as it is.
    async fn end_run(&self, tenant: &TenantId, id: &RunId, end: EndedRun) -> Result<(), Fault>;
    /// Cancels a run that waits. False if it does not wait.
    async fn cancel_queued_run(&self, tenant: &TenantId, id: &RunId, now: Moment) -> Result<bool, Fault>;
    /// Called at the start of the server. Runs that a crash interrupted wait again if they may be repeated and were not
    /// begun too often. All others end as interrupted. The result counts both.
    async fn take_over_runs(&self, now: Moment) -> Result<(usize, usize), Fault>;
    /// The number of runs of all tenants that wait.
    async fn queued_runs(&self) -> Result<u64, Fault>;
    async fn run(&self, tenant: &TenantId, id: &RunId) -> Result<Option<StoredRun>, Fault>;
    /// Newest first, before the run with this number, without records.
    async fn runs(
        &self,
        of: &TenantId,
        filter: RunFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<StoredRun>, Fault>;
    /// Newest first: runs that have ended, with their records.
    async fn run_records(
        &self,
        of: &TenantId,
        filter: RunFilter,
        limit: u32,
    ) -> Result<Vec<StoredRun>, Fault>;
    /// Runs that sent this dispatch, without records.
    async fn runs_of_dispatch(&self, dispatch: &TenantDispatch) -> Result<Vec<StoredRun>, Fault>;
    /// Runs that this dispatch led to, oldest first, without records.
    async fn runs_caused_by(&self, dispatch: &TenantDispatch, limit: u32) -> Result<Vec<StoredRun>, Fault>;
    /// The dispatch that led to a run.
    async fn cause_of_run(&self, id: &RunId) -> Result<Option<TenantDispatch>, Fault>;
    /// The dispatches that a run sent.
    async fn dispatches_of_run(&self, id: &RunId) -> Result<Vec<TenantDispatch>, Fault>;
}
