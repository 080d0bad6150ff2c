//! Runs of skills in the server: the approval gate, the run itself, its record, and cancelling.
//!
//! - A stored skill runs only if the approval gate passes. A refusal is recorded in the audit log.
//! - A text that was given, and not stored, has effects only if its caller could have approved it.
//! - Every run has a record before it begins. It ends with the outcome, or as interrupted.

use std::sync::Arc;

use ledger::{BusyRuns, NewRun, RunState, SkillRuns, StoredRun};
use post::{Caller, Post};
use posthouse_time::Timepiece;
use posthouse_wire::{RunId, TenantId};
use serde_json::Value;
use skill::{ErrorClass, PreparedSkill, RunContext, RunTrigger, SkillObject, SkillValue, run_skill};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::active_runs::{ActiveRun, ActiveRuns, QueuedRun};
use super::admission::AdmittedSkill;
use super::agent_messages::AgentMessages;
use super::memory_budget::MemoryBudget;
use super::run_end::RunningCount;
use super::run_host::RunHost;
use super::run_report::{RefusedName, RunRefusal};
use super::run_skills::RunSkills;
use super::run_slots::RunSlots;
use super::run_turns::{runs_at_once, too_many_runs};
use super::skill_threads::{NoTurn, SkillThreads};
use super::tenant_resources::{TenantResources, TenantRunSetup};
use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::workshop::Workshop;

/// Dependencies of runs.
pub struct RunParts {
    pub workshop: Workshop,
    pub post: Post,
    pub records: Arc<dyn SkillRuns>,
    pub resources: Arc<TenantResources>,
    pub timepiece: Timepiece,
}

/// Runs skills. A cheap handle to clone.
#[derive(Clone)]
pub struct Runs(pub(super) Arc<RunsInner>);

pub(super) struct RunsInner {
    parts: RunParts,
    pub(super) slots: RunSlots,
    pub(super) threads: Arc<SkillThreads>,
    memory: MemoryBudget,
    pub(super) active: ActiveRuns,
    /// Held while a queued run is taken, so that a cancellation finds each run either in the queue or under way.
    pub(super) claims: Mutex<()>,
    pub(super) closing: CancellationToken,
}

/// What is to run, and for whom.
pub struct RunOrder {
    pub text: RunText,
    pub inputs: SkillObject,
    pub is_mechanical: bool,
    pub trigger: RunTrigger,
    /// Variables that the trigger sets.
    pub variables: Vec<(Arc<str>, SkillValue)>,
    /// The agent that asked for it, for messages of the skill.
    pub caller_agent: Option<String>,
}

/// The skill of a run.
pub enum RunText {
    Stored(String),
    Given {
        source: String,
        /// Whether its operations may have effects although nobody approved the text.
        with_effects: bool,
    },
}

/// What became of a run.
pub struct RunReport {
    /// `None` if it did not begin.
    pub id: Option<RunId>,
    pub envelope: Value,
    pub state: RunState,
}

impl Runs {
    pub fn new(parts: RunParts) -> Self {
        let (of_a_tenant, of_the_server) = parts.resources.memory();
        let threads = Arc::clone(parts.workshop.threads());
        Self(Arc::new(RunsInner {
            parts,
            memory: MemoryBudget::new(of_a_tenant, of_the_server),
            slots: RunSlots::default(),
            threads,
            active: ActiveRuns::default(),
            claims: Mutex::default(),
            closing: CancellationToken::new(),
        }))
    }

    pub fn resources(&self) -> &Arc<TenantResources> {
        &self.0.parts.resources
    }

    pub fn records(&self) -> &Arc<dyn SkillRuns> {
        &self.0.parts.records
    }

    pub fn post(&self) -> &Post {
        &self.0.parts.post
    }

    pub fn workshop(&self) -> &Workshop {
        &self.0.parts.workshop
    }

    pub(super) fn metrics(&self) -> &Metrics {
        self.0.parts.workshop.metrics()
    }

    pub fn timepiece(&self) -> &Timepiece {
        &self.0.parts.timepiece
    }

    pub fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    /// Ends all runs.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// The host of a run, or of a check, for a caller.
    pub async fn host(
        &self,
        by: &Caller,
        skill: &str,
        setup: &TenantRunSetup,
    ) -> Result<Result<RunHost, RunRefusal>, Fault> {
        let RunParts { workshop, post, .. } = &self.0.parts;
        let unusable = |message: String| RunRefusal::new(&ErrorClass::Plain, message, RefusedName::Absent);
        let policy = match workshop.skills().policy(by).await? {
            Ok(policy) => policy,
            Err(refusal) => return Ok(Err(unusable(refusal.to_string()))),
        };
        let data = match workshop.data().bridge(&by.tenant).await? {
            Ok(data) => Some(data),
            Err(refusal) => return Ok(Err(unusable(refusal.to_string()))),
        };
        let agents = match AgentMessages::of(post, &by.tenant, skill).await {
            Ok(agents) => Some(agents),
            Err(fault) => {
                tracing::error!(%fault, "the agents of a tenant cannot be read");
                return Ok(Err(unusable("the server cannot do this now".to_owned())));
            }
        };
        let skills = RunSkills::of_tenant(Arc::clone(workshop.skills()), by.clone(), policy);
        Ok(Ok(RunHost::new(Arc::clone(&setup.resources), skills, data, agents)))
    }

    /// Runs a skill to its end. The report is returned after the record was stored.
    pub async fn execute(&self, by: &Caller, order: RunOrder) -> Result<RunReport, Fault> {
        let id = RunId::mint(self.timepiece().now().millis());
        let run = self.0.active.add(&by.tenant, id, self.0.closing.child_token(), None);
        self.execute_active(by, order, run).await
    }

    /// Takes the next run from the queue. From then on it can be cancelled as one that is under way.
    pub(super) async fn claim(
        &self,
        after: &TenantId,
        busy: &BusyRuns,
    ) -> Result<Option<(StoredRun, ActiveRun)>, Fault> {
        let _claims = self.0.claims.lock().await;
        let next = self.records().next_run(after, busy).await?;
        Ok(next.map(|stored| {
            let queued = Some(QueuedRun { is_repeatable: stored.run.repeatable });
            let token = self.0.closing.child_token();
            let run = self.0.active.add(&stored.run.tenant, stored.run.id.clone(), token, queued);
            (stored, run)
        }))
    }

    /// Runs a skill to its end, in the run that is already listed as under way.
    pub(super) async fn execute_active(
        &self,
        by: &Caller,
        order: RunOrder,
        run: ActiveRun,
    ) -> Result<RunReport, Fault> {
        let (run, source) = (Arc::new(run), Arc::clone(&order.trigger.source));
        let report = self.execute_in_place(by, order, &run).await;
        // At shutdown the record stays as it is, and the next start decides what becomes of the run.
        if report.is_err() && !self.0.closing.is_cancelled() {
            self.break_off(by, &source, &run).await;
        }
        report
    }

    async fn execute_in_place(
        &self,
        by: &Caller,
        order: RunOrder,
        run: &Arc<ActiveRun>,
    ) -> Result<RunReport, Fault> {
        let setup = self.resources().of(&by.tenant).await?;
        let is_mechanical = order.is_mechanical;
        let slot = match self.slot(&by.tenant, &setup) {
            Some(slot) => slot,
            // Its event or time was accepted, so it waits.
            None if run.queued.is_some() => tokio::select! {
                biased;
                () = run.cancelled.cancelled() => return self.stop(by, &order, run).await,
                slot = self.0.slots.wait_for(&by.tenant, runs_at_once(&setup)) => slot,
            },
            None => return self.refuse(by, run, is_mechanical, too_many_runs()).await,
        };
        let (runs, caller, active) = (self.clone(), by.clone(), Arc::clone(run));
        let work = async move {
            let _slot = slot;
            runs.execute_in_turn(&caller, order, &setup, &active).await
        };
        // The queue bounds its runs, and one that it has begun is not refused.
        let ended = match run.queued {
            Some(_) => self.0.threads.run_accepted(&by.tenant, work).await,
            None => self.0.threads.run(&by.tenant, work).await,
        };
        match ended {
            Ok(report) => report,
            Err(NoTurn::Full) => self.refuse(by, run, is_mechanical, too_many_runs()).await,
            Err(NoTurn::Broken) => Err(Fault::Io("a run of a skill broke off".to_owned())),
        }
    }

    async fn execute_in_turn(
        &self,
        by: &Caller,
        order: RunOrder,
        setup: &TenantRunSetup,
        run: &ActiveRun,
    ) -> Result<RunReport, Fault> {
        // Stores outside of the server can take long, so it can be cancelled here too.
        let prepared = tokio::select! {
            biased;
            () = run.cancelled.cancelled() => return self.stop(by, &order, run).await,
            prepared = self.prepare(by, &order, setup) => prepared?,
        };
        let (admitted, prepared) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return self.refuse(by, run, order.is_mechanical, refusal).await,
        };
        match run.queued {
            None => self.begin(by, &order, &admitted, &run.id).await?,
            Some(QueuedRun { is_repeatable: true }) => {
                admitted.host.note_first_effect_of(&by.tenant, &run.id, self.records());
            }
            Some(QueuedRun { is_repeatable: false }) => {}
        }
        let _running = RunningCount::begin(self, &order.trigger.source);
        admitted.host.begins(&run.id, self.records());
        let context = self.context(by, &order, &admitted, setup);
        let ended = tokio::select! {
            biased;
            () = run.cancelled.cancelled() => None,
            outcome = run_skill(&admitted.host, &prepared, &context) => Some(outcome),
        };
        let report = self.finish(by, &order, &admitted, run, ended).await?;
        self.log_refused(by, &admitted.host).await?;
        Ok(report)
    }

    /// Everything before the first operation: the skill may run, its variables have values, and what it inlines is there.
    async fn prepare(
        &self,
        by: &Caller,
        order: &RunOrder,
        setup: &TenantRunSetup,
    ) -> Result<Result<(AdmittedSkill, PreparedSkill), RunRefusal>, Fault> {
        let admitted = match self.admit(by, order, setup).await? {
            Ok(admitted) => admitted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let prepared = PreparedSkill::new(&admitted.host, Arc::clone(&admitted.tree), &order.inputs).await;
        match prepared {
            Ok(prepared) => Ok(Ok((admitted, prepared))),
            Err(thrown) => {
                self.log_refused(by, &admitted.host).await?;
                Ok(Err(RunRefusal::of(&thrown, admitted.refused_name(order))))
            }
        }
    }

    fn context(
        &self,
        by: &Caller,
        order: &RunOrder,
        admitted: &AdmittedSkill,
        setup: &TenantRunSetup,
    ) -> RunContext {
        let mut policy = setup.settings.policy();
        policy.is_secured = admitted.is_secured;
        let memory = self.0.memory.of(&by.tenant);
        admitted.host.count_answers_in(&memory);
        policy.memory = Some(memory);
        let trigger_id = order.trigger.trigger_id.as_deref().map(str::to_owned);
        let trigger_id =
            trigger_id.unwrap_or_else(|| format!("{}:{}", order.trigger.source, order.trigger.name));
        let mode = setup.settings.trace_mode().unwrap_or(skill::TraceMode::On);
        RunContext {
            policy: Arc::new(policy),
            owner: admitted.owner.clone(),
            caller: order.caller_agent.as_deref().map(Into::into),
            trigger: Some(order.trigger.clone()),
            variables: order.variables.clone(),
            is_mechanical: order.is_mechanical,
            has_authority: admitted.has_authority,
            is_traced: mode.includes(&trigger_id, &admitted.name),
            ..RunContext::default()
        }
    }

    /// Stores that a run begins.
    async fn begin(
        &self,
        by: &Caller,
        order: &RunOrder,
        admitted: &AdmittedSkill,
        id: &RunId,
    ) -> Result<(), Fault> {
        let run = NewRun {
            id: id.clone(),
            tenant: by.tenant.clone(),
            skill: admitted.name.clone(),
            version: admitted.version.clone(),
            source: order.trigger.source.to_string(),
            trigger_name: order.trigger.name.to_string(),
            trigger_id: order.trigger.trigger_id.as_deref().map(str::to_owned),
            caller: by.client.to_string(),
            fired: self.timepiece().now(),
            inputs: None,
            repeatable: false,
            cause: None,
        };
        Ok(self.records().begin_run(run).await?)
    }

    /// Records the skills that were refused in the audit log.
    pub(super) async fn log_refused(&self, by: &Caller, host: &RunHost) -> Result<(), Fault> {
        for refused in host.skills().take_refused() {
            self.workshop().skills().log_refused_run(by, &refused.name, &refused.reason).await?;
        }
        Ok(())
    }
}
