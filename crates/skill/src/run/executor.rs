//! The executor: runs the targets of a skill in order, and their operations one after the other.
//!
//! Blocks do not recurse: open `if` and `foreach` blocks are frames on a stack of the executor. Only a skill that runs
//! another skill nests, and the policy bounds that depth. The executor waits only for its host, and it yields after a
//! bounded amount of work, so a run can be dropped at any time.

mod agents;
mod ambient;
mod compose;
mod dispatch;
mod exchange;
mod files;
mod frames;
mod local;
mod outputs;
mod secrets;
mod shell;
mod time_limits;
mod trace_log;
mod yielding;

use std::sync::Arc;

use self::compose::{ChildSkills, ChildTraces};
use self::frames::{BoundVariable, Frame, Loop, LoopItems, Step};
use self::time_limits::{RunDeadline, SkillTimeout};
use self::trace_log::{TraceBytes, TraceLog};
pub use self::yielding::WorkMeter;
use super::context::RunContext;
use super::host::SkillHost;
use super::limits::{RunLimits, too_large};
use super::mutation_gate::check_mutation;
use super::outcome::{FallbackRecord, SkillOutcome, UncertainEffect};
use super::prepare::PreparedSkill;
use super::run_error::{ErrorClass, ErrorRecord, RunError};
use super::shared_memory::ReservedMemory;
use super::substitute::Scope;
use super::value::SkillValue;
use super::variables::Variables;
use crate::syntax::tree::{OpKind, ResultBinding, SkillOp, SkillTarget, SkillTree};

/// Runs a skill. Errors of operations are in the outcome; an error here means that the run has no outcome.
pub async fn run_skill(
    host: &dyn SkillHost,
    skill: &PreparedSkill,
    context: &RunContext,
) -> Result<SkillOutcome, RunError> {
    let shared = SharedRun::default();
    let mut executor = Executor::new(host, skill, context, &shared, None)?;
    let mut errors = Vec::new();
    let ended = executor.run_targets(&mut errors).await;
    let mut uncertain = Vec::new();
    let deadline_exceeded = ended.is_err();
    if let Err(error) = ended {
        if let Some(cut) = error.cut.as_ref().filter(|cut| cut.is_uncertain) {
            let target = error.target.clone();
            uncertain.push(UncertainEffect { target, op_kind: cut.op_kind, op: cut.label.clone() });
        }
        errors.push(ErrorRecord::new(error, &"run".into(), None));
    }
    let mut outcome = executor.finish(errors, deadline_exceeded, uncertain).await?;
    let (child_traces, left_out) = shared.child_traces.take();
    outcome.child_traces = child_traces;
    outcome.untraced += left_out;
    Ok(outcome)
}

/// What a run shares with the skills that it runs.
#[derive(Default)]
struct SharedRun {
    work: WorkMeter,
    children: ChildSkills,
    child_traces: ChildTraces,
    trace_bytes: TraceBytes,
}

/// One running skill.
struct Executor<'r> {
    host: &'r dyn SkillHost,
    shared: &'r SharedRun,
    context: &'r RunContext,
    skill: &'r PreparedSkill,
    tree: &'r SkillTree,
    name: Arc<str>,
    deadline: Option<RunDeadline>,
    timeout: SkillTimeout,
    variables: Variables,
    memory: ReservedMemory,
    transcript: Vec<Arc<String>>,
    transcript_bytes: usize,
    fallbacks: Vec<FallbackRecord>,
    fallback_bytes: usize,
    last_bound: Option<BoundVariable<'r>>,
    trace: TraceLog,
    /// The target that runs, and the variable that shows its result.
    target: Arc<str>,
    target_output: Arc<str>,
}

impl<'r> Executor<'r> {
    fn new(
        host: &'r dyn SkillHost,
        skill: &'r PreparedSkill,
        context: &'r RunContext,
        shared: &'r SharedRun,
        inherited: Option<RunDeadline>,
    ) -> Result<Self, RunError> {
        let tree = &*skill.tree;
        let variables = ambient::initial_variables(host, skill, context);
        let scope = Scope { variables: &variables, limits: &context.policy.limits, work: &shared.work };
        let deadline = RunDeadline::tightest(host, &scope, &context.policy, tree, inherited)?;
        Ok(Self {
            host,
            shared,
            context,
            skill,
            tree,
            name: tree.header.name.as_deref().unwrap_or("(anonymous)").into(),
            deadline,
            timeout: SkillTimeout::new(tree),
            variables,
            memory: ReservedMemory::new(context.policy.memory.clone()),
            transcript: Vec::new(),
            transcript_bytes: 0,
            fallbacks: Vec::new(),
            fallback_bytes: 0,
            last_bound: None,
            trace: TraceLog::default(),
            target: "run".into(),
            target_output: "run.output".into(),
        })
    }

    /// Runs the targets. Only the deadline of the run is an error here.
    async fn run_targets(&mut self, errors: &mut Vec<ErrorRecord>) -> Result<(), RunError> {
        let skill = self.skill;
        for index in &skill.order {
            let target: &'r SkillTarget = &skill.tree.targets[*index];
            self.target = target.name.as_str().into();
            self.target_output = format!("{}.output", target.name).into();
            let last = match self.run_block(&target.ops).await {
                Ok(last) => last,
                Err(error) if error.ends_run() => return Err(error),
                Err(error) => {
                    errors.push(ErrorRecord::new(error, &self.target, None));
                    let Some(block) = &target.error_block else { break };
                    match self.run_block(block).await {
                        Ok(last) => last,
                        Err(error) if error.ends_run() => return Err(error),
                        Err(error) => {
                            errors.push(ErrorRecord::new(error, &self.target, Some("else")));
                            None
                        }
                    }
                }
            };
            let value = last.as_ref().and_then(|bound| self.variables.get(bound.name()).cloned());
            self.variables.set(&self.target_output, value);
            self.last_bound = last.or(self.last_bound.take());
        }
        Ok(())
    }

    /// Runs a list of operations with everything inside them.
    async fn run_block(&mut self, ops: &'r [SkillOp]) -> Result<Option<BoundVariable<'r>>, RunError> {
        let mut frames = vec![Frame::new(ops)];
        while let Some(frame) = frames.last_mut() {
            let Some(op) = frame.ops.get(frame.next) else {
                if frame.begin_round(&mut self.variables) {
                    self.shared.work.note_round();
                    if let Err(error) = self.pause_if_due().await {
                        self.leave_frames(&frames, &error);
                        return Err(error);
                    }
                    continue;
                }
                let last = self.end_frame(&mut frames);
                match frames.last_mut() {
                    Some(outer) => outer.last = last.or(outer.last.take()),
                    None => return Ok(last),
                }
                continue;
            };
            frame.next += 1;
            match self.step(op).await {
                Ok(Step::Done(last)) => frame.last = last.or(frame.last.take()),
                Ok(Step::Enter(inner)) => frames.push(inner),
                Err(error) => {
                    self.leave_frames(&frames, &error);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Gives up the open blocks. A loop that fails keeps its variables, so that the error block can read them.
    fn leave_frames(&mut self, frames: &[Frame<'r>], error: &RunError) {
        for frame in frames.iter().rev() {
            if let Some(looping) = &frame.looping {
                self.variables.release(looping.weight);
            }
            if let Some((op, started)) = frame.opened_by {
                self.record(op, started, Some(error));
            }
        }
    }

    /// Pauses if there was enough work since the last pause. Time passes in a pause, so the run may be over behind it.
    async fn pause_if_due(&self) -> Result<(), RunError> {
        if self.shared.work.pause_if_due().await {
            self.remaining_time()?;
        }
        Ok(())
    }

    /// Closes the innermost block. A loop forgets the variables that it added.
    fn end_frame(&mut self, frames: &mut Vec<Frame<'r>>) -> Option<BoundVariable<'r>> {
        let frame = frames.pop()?;
        if let Some(looping) = frame.looping {
            self.variables.release(looping.weight);
            self.variables.forget_newer_than(looping.mark);
        }
        if let Some((op, started)) = frame.opened_by {
            self.record(op, started, None);
        }
        frame.last
    }

    /// Runs one operation, or opens its block.
    async fn step(&mut self, op: &'r SkillOp) -> Result<Step<'r>, RunError> {
        let kind = op.kind.word();
        self.shared.work.count(self.limits().operations).map_err(|error| error.of(kind))?;
        self.pause_if_due().await.map_err(|error| error.of(kind))?;
        check_mutation(self.tree, op, &self.target)?;
        let started = if self.context.is_traced { self.host.unix_millis() } else { 0 };
        let result = match self.run_without_host(op) {
            Some(result) => result,
            // Few operations need the host, so only these allocate a future.
            None => Box::pin(self.run_with_host(op)).await.map(Step::Done),
        };
        let result = result.and_then(|step| self.hold_memory().map(|()| step));
        match result {
            Ok(Step::Enter(frame)) => Ok(Step::Enter(Frame { opened_by: Some((op, started)), ..frame })),
            Ok(done) => {
                self.record(op, started, None);
                Ok(done)
            }
            Err(error) => {
                let error = error.of(kind);
                self.record(op, started, Some(&error));
                Err(error)
            }
        }
    }

    /// Runs an operation that needs nothing from the host. `None` if it does.
    fn run_without_host(&mut self, op: &'r SkillOp) -> Option<Result<Step<'r>, RunError>> {
        Some(match &op.kind {
            OpKind::Set(set) => self.set(set).map(|bound| Step::Done(Some(bound))),
            OpKind::Append(append) => self.append(append).map(|bound| Step::Done(Some(bound))),
            OpKind::Emit(emit) => self.emit_template(&emit.text, "").map(|()| Step::Done(None)),
            OpKind::Reason(text) => self.emit_template(text, "Reason: ").map(|()| Step::Done(None)),
            OpKind::If(choice) => self.choose(choice),
            OpKind::Foreach(foreach) => self.begin_loop(foreach),
            OpKind::Inline(inline) => Err(compose::missing_skill(&inline.skill, "inline", &self.target)),
            outside if !self.context.allows_effects() => Err(effects_refused(outside.word())),
            OpKind::Dispatch(dispatch) => {
                self.dispatch_without_host(dispatch)?.map(|bound| Step::Done(Some(bound)))
            }
            _ => return None,
        })
    }

    async fn run_with_host(&mut self, op: &'r SkillOp) -> Result<Option<BoundVariable<'r>>, RunError> {
        match &op.kind {
            OpKind::Dispatch(dispatch) => self.dispatch(dispatch).await.map(Some),
            OpKind::Shell(shell) => self.shell(shell).await.map(Some),
            OpKind::FileRead(read) => self.read_file(read).await.map(Some),
            OpKind::FileWrite(write) => self.write_file(write).await.map(|()| None),
            OpKind::Notify(notify) => self.notify(notify).await.map(Some),
            OpKind::Exchange(exchange) => self.exchange(exchange).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Counts what the skill holds towards the budget that it shares. The run counts the traces of all its skills.
    fn hold_memory(&mut self) -> Result<(), RunError> {
        let traces = if self.context.depth == 0 { self.shared.trace_bytes.taken() } else { 0 };
        let held = self.variables.weight() + self.transcript_bytes + self.fallback_bytes + traces;
        self.memory.hold(held)
    }

    fn limits(&self) -> &'r RunLimits {
        &self.context.policy.limits
    }

    fn scope(&self) -> Scope<'_> {
        Scope { variables: &self.variables, limits: self.limits(), work: &self.shared.work }
    }

    fn emit(&mut self, text: Arc<String>) -> Result<(), RunError> {
        let limit = self.limits().transcript;
        self.transcript_bytes += text.len() + 1;
        if self.transcript_bytes > limit {
            return Err(too_large("the transcript", limit));
        }
        self.shared.work.note(text.len());
        self.transcript.push(text);
        Ok(())
    }

    fn joined_transcript(&self) -> Arc<String> {
        let mut out = String::with_capacity(self.transcript_bytes);
        for (index, text) in self.transcript.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            out.push_str(text);
        }
        Arc::new(out)
    }

    /// Binds the result of an operation to the result of its target, and to the variable after the arrow.
    fn bind(&mut self, binding: &'r ResultBinding, value: SkillValue) -> Result<BoundVariable<'r>, RunError> {
        self.shared.work.note(value.weight());
        self.variables.set(&self.target_output, Some(value.clone()));
        let bound = match &binding.variable {
            Some(variable) => {
                self.variables.set(variable, Some(value));
                BoundVariable::Variable(variable)
            }
            None => BoundVariable::Output(Arc::clone(&self.target_output)),
        };
        self.variables.check(self.limits().variables)?;
        Ok(bound)
    }

    /// Binds a fallback and records why.
    fn bind_fallback(
        &mut self,
        binding: &'r ResultBinding,
        op_kind: &'static str,
        value: SkillValue,
        reason: String,
    ) -> Result<BoundVariable<'r>, RunError> {
        let limit = self.limits().fallback_records;
        self.fallback_bytes += reason.len() + value.weight() + self.target.len();
        if self.fallback_bytes > limit {
            return Err(too_large("the set of fallback records", limit));
        }
        let target = Arc::clone(&self.target);
        self.fallbacks.push(FallbackRecord { target, op_kind, value: value.clone(), reason });
        self.bind(binding, value)
    }
}

/// The error for an operation with effects in a skill without authority.
fn effects_refused(op_kind: &str) -> RunError {
    let message = format!("secured mode refuses '{op_kind}': the skill has no verified approval");
    RunError::new(ErrorClass::SecuredModeEffect, message)
        .with_remedy("Have the skill reviewed and approved, or preview it in mechanical mode")
}
