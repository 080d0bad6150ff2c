//! Skills that run skills: `$ execute_skill name="…"`.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;

use super::dispatch::fallback_of;
use super::secrets::Masks;
use super::{BoundVariable, Executor};
use crate::approval::ApprovalVerdict;
use crate::run::context::RunContext;
use crate::run::inlining::rejected;
use crate::run::json_text;
use crate::run::object::{ObjectBuilder, SkillObject};
use crate::run::prepare::PreparedSkill;
use crate::run::run_error::{ErrorClass, RunError};
use crate::run::store_check::lint_errors;
use crate::run::trace::ChildTrace;
use crate::run::value::SkillValue;
use crate::syntax::tree::{DispatchOp, SkillTree};

/// Parsed skills that a run keeps.
const KEPT: usize = 64;

/// The skills that a run has run, parsed. A skill that is run again is parsed again only if its text has changed.
#[derive(Default)]
pub struct ChildSkills(Mutex<HashMap<Arc<str>, Arc<ChildSkill>>>);

struct ChildSkill {
    source: Arc<str>,
    tree: Arc<SkillTree>,
    lint_errors: Vec<String>,
}

/// The traces of the skills that a run has run.
#[derive(Default)]
pub struct ChildTraces(Mutex<(Vec<ChildTrace>, u64)>);

impl ChildTraces {
    /// Keeps a trace. All traces together hold at most `limit` operations.
    fn add(&self, mut trace: ChildTrace, untraced: u64, limit: usize) {
        let (traces, left_out) = &mut *self.0.lock();
        let room = limit.saturating_sub(traces.iter().map(|trace| trace.ops.len() + 1).sum());
        *left_out += untraced + trace.ops.len().saturating_sub(room) as u64;
        if room > 0 {
            trace.ops.truncate(room);
            traces.push(trace);
        }
    }

    /// The traces, and how many operations they left out.
    pub fn take(&self) -> (Vec<ChildTrace>, u64) {
        std::mem::take(&mut *self.0.lock())
    }
}

impl<'r> Executor<'r> {
    pub(super) async fn execute_skill(
        &mut self,
        op: &'r DispatchOp,
        arguments: SkillObject,
        masks: &Masks,
    ) -> Result<BoundVariable<'r>, RunError> {
        let arguments = masks.marked_value(&arguments.into());
        let result = match arguments.as_object() {
            Some(arguments) => self.run_child(arguments).await,
            None => Err(RunError::plain("the call has no arguments")),
        };
        match (result, fallback_of(op)) {
            (Ok(envelope), _) => self.bind(&op.binding, envelope.into()),
            (Err(error), _) if error.ends_run() => Err(error),
            (Err(error), Some(value)) => self.bind_fallback(
                &op.binding,
                "$",
                value,
                format!("$ execute_skill failed: {}", error.message),
            ),
            (Err(error), None) => {
                Err(RunError::op_error(format!("`$ execute_skill` failed: {}", error.message))
                    .with_remedy("Read the error of the inner skill, or add `(fallback: …)`"))
            }
        }
    }

    /// Runs another skill inside this run. The future is boxed, because that skill can run further skills.
    fn run_child<'a>(
        &'a self,
        arguments: &'a SkillObject,
    ) -> Pin<Box<dyn Future<Output = Result<SkillObject, RunError>> + Send + 'a>> {
        Box::pin(async move {
            let name = child_name(arguments)?;
            let depth = self.context.depth + 1;
            let limit = self.context.policy.max_depth;
            if depth > limit {
                let message = format!("skills run each other deeper than {limit}; the last one is '{name}'");
                return Err(RunError::new(ErrorClass::RecursionDepthExceeded, message));
            }
            let Some(stored) = self.host.load_skill(&name).await? else {
                return Err(missing_skill(&name, "$ execute_skill", &self.target));
            };
            if let ApprovalVerdict::Refused(refusal) = self.host.check_approval(&stored.source) {
                return Err(rejected(&name, &refusal.to_string()));
            }
            let child = self.child_skill(&name, &stored.source).await;
            if !child.lint_errors.is_empty() {
                let message = format!("lint found errors: {}", child.lint_errors.join("; "));
                return Err(RunError::new(ErrorClass::LintFailure, message));
            }
            let skill =
                PreparedSkill::new(self.host, Arc::clone(&child.tree), &child_inputs(arguments)).await?;
            let context = RunContext {
                depth,
                entry_skill: self.context.entry_skill.clone().or_else(|| Some(Arc::clone(&self.name))),
                // The child has its own approval, which was checked above. That of the calling skill does not matter.
                has_authority: true,
                variables: Vec::new(),
                owner: stored.author.or_else(|| self.context.owner.clone()),
                ..self.context.clone()
            };
            let mut executor = Executor::new(self.host, &skill, &context, self.shared, self.deadline())?;
            let mut errors = Vec::new();
            executor.run_targets(&mut errors).await?;
            let mut outcome = executor.finish(errors, false, Vec::new()).await?;
            let header = &skill.tree.header;
            if context.is_traced {
                let skill_name = header.name.as_deref().unwrap_or(&name).into();
                let trace = ChildTrace { skill_name, depth, ops: std::mem::take(&mut outcome.trace) };
                self.shared.child_traces.add(trace, outcome.untraced, self.limits().traced_operations);
            }
            Ok(outcome.envelope(header.name.as_deref().unwrap_or(&name), &header.returns))
        })
    }

    /// The parsed and checked skill.
    async fn child_skill(&self, name: &str, source: &Arc<str>) -> Arc<ChildSkill> {
        let known = self.shared.children.0.lock().get(name).cloned();
        if let Some(known) = known.filter(|known| known.source == *source) {
            return known;
        }
        self.shared.work.note(source.len());
        let tree = SkillTree::parse(source);
        let lint_errors = lint_errors(self.host, &tree).await;
        let child = Arc::new(ChildSkill { source: Arc::clone(source), tree: Arc::new(tree), lint_errors });
        let mut children = self.shared.children.0.lock();
        if children.len() >= KEPT {
            children.clear();
        }
        children.insert(name.into(), Arc::clone(&child));
        child
    }
}

pub(super) fn missing_skill(name: &str, by: &str, target: &str) -> RunError {
    let message =
        format!("target '{target}' names the skill '{name}' by `{by}`, and no such skill is stored");
    RunError::new(ErrorClass::MissingSkillReference, message)
        .with_remedy("Store the skill, correct its name, or add `(fallback: …)` or an `else:` block")
}

/// The skill that a call names, by `name` or `skill_name`.
fn child_name(arguments: &SkillObject) -> Result<String, RunError> {
    let text = |name| arguments.get(name).and_then(SkillValue::as_text).filter(|text| !text.is_empty());
    match (text("name"), text("skill_name")) {
        (Some(name), Some(other)) if name != other => {
            Err(RunError::plain("`name` and `skill_name` name different skills; use one of them"))
        }
        (Some(name), _) | (None, Some(name)) => Ok(name.to_owned()),
        (None, None) => Err(RunError::plain("`$ execute_skill` needs `name=`")),
    }
}

/// The inputs of a child: the object `inputs`, then every other argument, all as text.
fn child_inputs(arguments: &SkillObject) -> SkillObject {
    let mut inputs = ObjectBuilder::default();
    let given = match arguments.get("inputs") {
        Some(SkillValue::Text(text)) => json_text::parse(text).ok(),
        other => other.cloned(),
    };
    let given = given.as_ref().and_then(SkillValue::as_object).into_iter().flat_map(SkillObject::iter);
    let others = arguments.iter().filter(|(name, _)| !matches!(&***name, "skill_name" | "inputs"));
    for (name, value) in given.chain(others) {
        inputs.set(Arc::clone(name), value.to_js_string().into_owned().into());
    }
    inputs.finish()
}
