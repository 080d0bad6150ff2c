//! Ends of runs: the outcome, a cancellation, the stop of the server, a refusal, or a failure of the server.

use ledger::{EndedRun, RunState};
use post::Caller;
use posthouse_time::Instant;
use posthouse_wire::{RunId, TenantId};
use skill::{RunError, SkillOutcome};

use super::active_runs::ActiveRun;
use super::admission::AdmittedSkill;
use super::run_report::{self, RecordedRun, RefusedName, RunRefusal};
use super::run_turns::TOO_MANY_RUNS;
use super::runs::{RunOrder, RunReport, RunText, Runs};
use crate::fault::Fault;
use crate::metrics::RefusedRun;

/// A run that is under way, for the metrics. Dropping it ends the count, whatever came of the run.
pub(super) struct RunningCount {
    runs: Runs,
    begun: Instant,
}

impl RunningCount {
    pub fn begin(runs: &Runs, source: &str) -> Self {
        runs.metrics().run_started(source);
        Self { runs: runs.clone(), begun: runs.timepiece().instant() }
    }
}

impl Drop for RunningCount {
    fn drop(&mut self) {
        let duration = self.runs.timepiece().instant().since(self.begun);
        self.runs.metrics().run_stopped(duration);
    }
}

impl Runs {
    /// Stores the end of a run and reports it. `None`: it was stopped.
    pub(super) async fn finish(
        &self,
        by: &Caller,
        order: &RunOrder,
        admitted: &AdmittedSkill,
        run: &ActiveRun,
        ended: Option<Result<SkillOutcome, RunError>>,
    ) -> Result<RunReport, Fault> {
        let now = self.timepiece().now();
        let sent = admitted.host.sent();
        let (state, error, record, envelope) = match ended {
            Some(Ok(outcome)) => {
                let recorded = RecordedRun {
                    id: &run.id,
                    skill_name: &admitted.name,
                    version: admitted.version.as_deref(),
                    trigger: &order.trigger,
                    owner: admitted.owner.clone(),
                    completed_at_ms: now.millis(),
                    sent: &sent,
                };
                let record = run_report::record(&recorded, &outcome);
                let envelope = run_report::envelope(&outcome, &admitted.tree, order.is_mechanical);
                let error = run_report::first_error(&outcome);
                let state = if error.is_some() { RunState::Failed } else { RunState::Succeeded };
                (state, error, Some(record), envelope)
            }
            Some(Err(thrown)) => {
                let refusal = RunRefusal::of(&thrown, admitted.refused_name(order));
                (RunState::Failed, Some(refusal.error()), None, refusal.envelope(order.is_mechanical))
            }
            None => {
                let (state, refusal) = self.stopped(run, RefusedName::Known(admitted.name.clone()));
                (state, Some(refusal.message.clone()), None, refusal.envelope(order.is_mechanical))
            }
        };
        let end = EndedRun { state, version: admitted.version.clone(), ended: now, error, record };
        self.end(by, run, end).await?;
        self.metrics().runs_ended(&order.trigger.source, state, 1);
        Ok(RunReport { id: Some(run.id.clone()), envelope, state })
    }

    /// Stores the end of a run. A queued run keeps its state at shutdown: the next start repeats it, or ends it as
    /// interrupted.
    async fn end(&self, by: &Caller, run: &ActiveRun, end: EndedRun) -> Result<(), Fault> {
        if end.state == RunState::Interrupted && run.queued.is_some() {
            return Ok(());
        }
        Ok(self.records().end_run(&by.tenant, &run.id, end).await?)
    }

    /// The end of a run that was cancelled, or that the server stops.
    fn stopped(&self, run: &ActiveRun, skill_name: RefusedName) -> (RunState, RunRefusal) {
        let (state, why) = match self.0.closing.is_cancelled() && !run.was_cancelled() {
            true => (RunState::Interrupted, "the server stopped during the run"),
            false => (RunState::Cancelled, "the run was cancelled"),
        };
        (state, RunRefusal { class: "RunCancelledError".into(), message: why.to_owned(), skill_name })
    }

    /// The report of a run that was stopped before its first operation.
    pub(super) async fn stop(
        &self,
        by: &Caller,
        order: &RunOrder,
        run: &ActiveRun,
    ) -> Result<RunReport, Fault> {
        let name = match &order.text {
            RunText::Stored(name) => RefusedName::Known(name.clone()),
            RunText::Given { .. } => RefusedName::Absent,
        };
        let (state, refusal) = self.stopped(run, name);
        let (ended, error) = (self.timepiece().now(), Some(refusal.message.clone()));
        self.end(by, run, EndedRun { state, version: None, ended, error, record: None }).await?;
        self.metrics().runs_ended(&order.trigger.source, state, 1);
        let id = run.queued.map(|_| run.id.clone());
        Ok(RunReport { id, envelope: refusal.envelope(order.is_mechanical), state })
    }

    /// The report of a run that did not begin. One that waited ends as failed.
    pub(super) async fn refuse(
        &self,
        by: &Caller,
        run: &ActiveRun,
        is_mechanical: bool,
        refusal: RunRefusal,
    ) -> Result<RunReport, Fault> {
        self.metrics().run_refused(match &*refusal.class {
            TOO_MANY_RUNS => RefusedRun::TooManyRuns,
            _ => RefusedRun::NotAdmitted,
        });
        let (state, error) = (RunState::Failed, Some(refusal.error()));
        if run.queued.is_some() {
            let end = EndedRun { state, version: None, ended: self.timepiece().now(), error, record: None };
            self.end(by, run, end).await?;
        }
        Ok(RunReport { id: None, envelope: refusal.envelope(is_mechanical), state })
    }

    /// Ends a run during which something of the server failed. It is not repeated: what it did is not known.
    pub(super) async fn break_off(&self, by: &Caller, source: &str, run: &ActiveRun) {
        self.metrics().runs_ended(source, RunState::Interrupted, 1);
        if let Err(fault) = self.records().end_run(&by.tenant, &run.id, self.broken_off()).await {
            tracing::error!(%fault, run = %run.id, "the end of a run could not be stored; it can be cancelled");
        }
    }

    fn broken_off(&self) -> EndedRun {
        EndedRun {
            state: RunState::Interrupted,
            version: None,
            ended: self.timepiece().now(),
            error: Some("the server failed during the run".to_owned()),
            record: None,
        }
    }

    /// Cancels a run of a tenant. A running one stops at once, and its commands are killed. False if there is no such
    /// run that waits or runs.
    pub async fn cancel(&self, tenant: &TenantId, id: &RunId) -> Result<bool, Fault> {
        let _claims = self.0.claims.lock().await;
        if self.0.active.cancel(tenant, id) {
            return Ok(true);
        }
        if self.records().cancel_queued_run(tenant, id, self.timepiece().now()).await? {
            self.metrics().runs_ended("", RunState::Cancelled, 1);
            return Ok(true);
        }
        // A run that is not under way and still counts as running is one whose end could not be stored.
        let found = self.records().run(tenant, id).await?;
        let is_lost = found.is_some_and(|run| run.state == RunState::Running);
        if is_lost {
            self.records().end_run(tenant, id, self.broken_off()).await?;
        }
        Ok(is_lost)
    }
}
