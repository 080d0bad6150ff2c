//! Runs of skills in the server: the approval gate, the run itself, its record, and cancelling.
//!
//! - A stored skill runs only if the approval gate passes. A refusal is recorded in the audit log.
//! - A text that was given, and not stored, has effects only if its caller could have approved it.
//! - Every run has a record before it begins. It ends with the outcome, or as interrupted.

use std::collections::HashMap;
use std::sync::Arc;

use ledger::{EndedRun, NewRun, RunState, SkillRuns};
use parking_lot::Mutex;
use post::{Caller, Post};
use posthouse_time::Timepiece;
use posthouse_wire::{RunId, TenantId};
use serde_json::Value;
use skill::{
    ErrorClass, PreparedSkill, RunContext, RunError, RunTrigger, SkillObject, SkillOutcome, SkillValue,
    run_skill,
};
use tokio_util::sync::CancellationToken;

use super::admission::AdmittedSkill;
use super::agent_messages::AgentMessages;
use super::memory_budget::MemoryBudget;
use super::run_host::RunHost;
use super::run_report::{self, RecordedRun, RefusedName, RunRefusal};
use super::run_skills::RunSkills;
use super::run_slots::RunSlots;
use super::run_turns::{runs_at_once, too_many_runs};
use super::skill_threads::{NoTurn, SkillThreads};
use super::tenant_resources::{TenantResources, TenantRunSetup};
use crate::fault::Fault;
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
    pub(super) threads: SkillThreads,
    memory: MemoryBudget,
    /// Runs that can be cancelled.
    running: Mutex<HashMap<RunId, (TenantId, CancellationToken)>>,
    closing: CancellationToken,
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
    /// The record of a run that waited. `None`: the run gets a new one.
    pub queued: Option<RunId>,
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
        Self(Arc::new(RunsInner {
            parts,
            memory: MemoryBudget::new(of_a_tenant, of_the_server),
            slots: RunSlots::default(),
            threads: SkillThreads::default(),
            running: Mutex::default(),
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
        let setup = self.resources().of(&by.tenant).await?;
        let (queued, is_mechanical) = (order.queued.clone(), order.is_mechanical);
        let slot = match self.slot(&by.tenant, &setup) {
            Some(slot) => slot,
            // Its event or time was accepted, so it waits.
            None if queued.is_some() => tokio::select! {
                slot = self.0.slots.wait_for(&by.tenant, runs_at_once(&setup)) => slot,
                () = self.0.closing.cancelled() => return Err(Fault::Io("the server is shutting down".to_owned())),
            },
            None => return self.refuse(by, queued, is_mechanical, too_many_runs()).await,
        };
        let (runs, caller) = (self.clone(), by.clone());
        let work = async move {
            let _slot = slot;
            runs.execute_in_turn(&caller, order, &setup).await
        };
        match self.0.threads.run(&by.tenant, work).await {
            Ok(report) => report,
            Err(NoTurn::Full) => self.refuse(by, queued, is_mechanical, too_many_runs()).await,
            Err(NoTurn::Broken) => Err(Fault::Io("a run of a skill broke off".to_owned())),
        }
    }

    async fn execute_in_turn(
        &self,
        by: &Caller,
        order: RunOrder,
        setup: &TenantRunSetup,
    ) -> Result<RunReport, Fault> {
        let refuse = |refusal| self.refuse(by, order.queued.clone(), order.is_mechanical, refusal);
        let admitted = match self.admit(by, &order, setup).await? {
            Ok(admitted) => admitted,
            Err(refusal) => return refuse(refusal).await,
        };
        let prepared = PreparedSkill::new(&admitted.host, Arc::clone(&admitted.tree), &order.inputs).await;
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(thrown) => {
                self.log_refused(by, &admitted.host).await?;
                let name = admitted.refused_name(&order);
                return refuse(RunRefusal::of(&thrown, name)).await;
            }
        };
        let id = match &order.queued {
            Some(id) => id.clone(),
            None => self.begin(by, &order, &admitted).await?,
        };
        admitted.host.begins(&id, self.records());
        let token = self.0.closing.child_token();
        self.0.running.lock().insert(id.clone(), (by.tenant.clone(), token.clone()));
        let running = RunningEntry { runs: self, id: &id };
        let context = self.context(by, &order, &admitted, setup);
        let ended = tokio::select! {
            biased;
            () = token.cancelled() => None,
            outcome = run_skill(&admitted.host, &prepared, &context) => Some(outcome),
        };
        drop(running);
        let report = self.finish(by, &order, &admitted, &id, ended).await?;
        self.log_refused(by, &admitted.host).await?;
        Ok(report)
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
        policy.memory = Some(self.0.memory.of(&by.tenant));
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
    async fn begin(&self, by: &Caller, order: &RunOrder, admitted: &AdmittedSkill) -> Result<RunId, Fault> {
        let now = self.timepiece().now();
        let id = RunId::mint(now.millis());
        let run = NewRun {
            id: id.clone(),
            tenant: by.tenant.clone(),
            skill: admitted.name.clone(),
            version: admitted.version.clone(),
            source: order.trigger.source.to_string(),
            trigger_name: order.trigger.name.to_string(),
            trigger_id: order.trigger.trigger_id.as_deref().map(str::to_owned),
            caller: by.client.to_string(),
            fired: now,
            inputs: None,
            repeatable: false,
            cause: None,
        };
        self.records().begin_run(run).await?;
        Ok(id)
    }

    async fn finish(
        &self,
        by: &Caller,
        order: &RunOrder,
        admitted: &AdmittedSkill,
        id: &RunId,
        ended: Option<Result<SkillOutcome, RunError>>,
    ) -> Result<RunReport, Fault> {
        let now = self.timepiece().now();
        let sent = admitted.host.sent();
        let (state, error, record, envelope) = match ended {
            Some(Ok(outcome)) => {
                let recorded = RecordedRun {
                    id,
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
                let is_closing = self.0.closing.is_cancelled();
                let (state, why) = match is_closing {
                    true => (RunState::Interrupted, "the server stopped during the run"),
                    false => (RunState::Cancelled, "the run was cancelled"),
                };
                let class: Arc<str> = "RunCancelledError".into();
                let name = RefusedName::Known(admitted.name.clone());
                let refusal = RunRefusal { class, message: why.to_owned(), skill_name: name };
                (state, Some(why.to_owned()), None, refusal.envelope(order.is_mechanical))
            }
        };
        // A run that waited and may be repeated keeps its state at shutdown, so that it is begun again.
        if state != RunState::Interrupted || order.queued.is_none() {
            let version = admitted.version.clone();
            let end = EndedRun { state, version, ended: now, error, record };
            self.records().end_run(&by.tenant, id, end).await?;
        }
        Ok(RunReport { id: Some(id.clone()), envelope, state })
    }

    /// The report of a run that did not begin. One that waited ends as failed.
    async fn refuse(
        &self,
        by: &Caller,
        queued: Option<RunId>,
        is_mechanical: bool,
        refusal: RunRefusal,
    ) -> Result<RunReport, Fault> {
        if let Some(id) = &queued {
            let end = EndedRun {
                state: RunState::Failed,
                version: None,
                ended: self.timepiece().now(),
                error: Some(refusal.error()),
                record: None,
            };
            self.records().end_run(&by.tenant, id, end).await?;
        }
        let envelope = refusal.envelope(is_mechanical);
        Ok(RunReport { id: None, envelope, state: RunState::Failed })
    }

    /// Records the skills that were refused in the audit log.
    pub(super) async fn log_refused(&self, by: &Caller, host: &RunHost) -> Result<(), Fault> {
        for refused in host.skills().take_refused() {
            self.workshop().skills().log_refused_run(by, &refused.name, &refused.reason).await?;
        }
        Ok(())
    }

    /// Cancels a run of a tenant. A running one stops at once, and its commands are killed. False if there is no such
    /// run that waits or runs.
    pub async fn cancel(&self, tenant: &TenantId, id: &RunId) -> Result<bool, Fault> {
        let running = self.0.running.lock().get(id).filter(|(owner, _)| owner == tenant).cloned();
        if let Some((_, token)) = running {
            token.cancel();
            return Ok(true);
        }
        Ok(self.records().cancel_queued_run(tenant, id, self.timepiece().now()).await?)
    }
}

/// Removes a run from the list of running ones, also if its future is dropped.
struct RunningEntry<'r> {
    runs: &'r Runs,
    id: &'r RunId,
}

impl Drop for RunningEntry<'_> {
    fn drop(&mut self) {
        self.runs.0.running.lock().remove(self.id);
    }
}
