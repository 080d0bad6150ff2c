//! Operations that need nothing from outside: `$set`, `$append`, `emit`, `if` and `foreach`.

use std::sync::Arc;

use super::{BoundVariable, Executor, Frame, Loop, LoopItems, Step};
use crate::run::json_text;
use crate::run::limits::too_large;
use crate::run::literal::{bracketed, coerce, split_list};
use crate::run::run_error::RunError;
use crate::run::value::SkillValue;
use crate::syntax::blanks::trim;
use crate::syntax::tree::{AppendOp, ForeachOp, IfOp, LoopOver, SetOp, TextPart, TextTemplate};

impl<'r> Executor<'r> {
    pub(super) fn set(&mut self, op: &'r SetOp) -> Result<BoundVariable<'r>, RunError> {
        let value = self.coerced(&op.value)?;
        self.shared.work.note(value.weight());
        self.variables.set(&op.variable, Some(value));
        self.variables.check(self.limits().variables)?;
        Ok(BoundVariable::Variable(&op.variable))
    }

    pub(super) fn append(&mut self, op: &'r AppendOp) -> Result<BoundVariable<'r>, RunError> {
        let variable = &*op.variable;
        // In these errors the target is the name of the variable.
        let fail = |message: String| {
            RunError::op_error(message).of("$append").in_target(&variable.into()).with_remedy(
                "Set the variable first: `$set NAME = []` for a list, `$set NAME = \"\"` for a text",
            )
        };
        let Some(existing) = self.variables.get(variable) else {
            return Err(fail(format!("`$append {variable}`: the variable has no value")));
        };
        let value = self.coerced(&op.value)?;
        self.shared.work.note(value.weight());
        if self.context.is_mechanical {
            let preview =
                format!("Would append to $({variable}): {} (mechanical: true preview).", value.rendered());
            self.emit(Arc::new(preview))?;
            return Ok(BoundVariable::Variable(variable));
        }
        let limit = self.limits().value;
        if existing.weight() + value.weight() > limit {
            return Err(too_large(&format!("the value of '{variable}'"), limit));
        }
        match existing {
            SkillValue::List(list) => {
                let weight = value.weight();
                list.push(value);
                self.variables.grow(weight);
            }
            SkillValue::Text(_) => {
                // Taking the text out of its variable leaves one owner, so it can grow in place.
                if let Some(SkillValue::Text(mut text)) = self.variables.take(variable) {
                    Arc::make_mut(&mut text).push_str(&value.rendered());
                    self.variables.set(variable, Some(SkillValue::Text(text)));
                }
            }
            other => {
                let kind = other.type_name();
                return Err(fail(format!("`$append {variable}` needs a list or a text, not {kind}")));
            }
        }
        self.variables.check(self.limits().variables)?;
        Ok(BoundVariable::Variable(variable))
    }

    /// The value of `$set` and `$append`.
    fn coerced(&self, template: &TextTemplate) -> Result<SkillValue, RunError> {
        match template.constant().and_then(bracketed) {
            // A list that is written in the skill is split where it stands.
            Some(inside) => Ok(split_list(inside)),
            None => self.scope().text(template).map(coerce),
        }
    }

    pub(super) fn emit_template(&mut self, template: &TextTemplate, prefix: &str) -> Result<(), RunError> {
        let text = self.scope().text(template)?;
        self.emit(if prefix.is_empty() { text } else { Arc::new(format!("{prefix}{text}")) })
    }

    /// Opens the first branch whose condition holds.
    pub(super) fn choose(&self, op: &'r IfOp) -> Result<Step<'r>, RunError> {
        let scope = self.scope();
        for branch in &op.branches {
            if scope.holds(&branch.condition)? {
                return Ok(Step::Enter(Frame::new(&branch.body)));
            }
        }
        Ok(match &op.otherwise {
            Some(block) => Step::Enter(Frame::new(block)),
            None => Step::Done(None),
        })
    }

    pub(super) fn begin_loop(&mut self, op: &'r ForeachOp) -> Result<Step<'r>, RunError> {
        let items = self.loop_items(&op.over)?;
        let weight = items.weight();
        self.variables.hold(weight, self.limits().variables)?;
        let mark = self.variables.mark();
        let looping = Some(Loop { variable: &op.variable, items, next: 0, mark, weight });
        // The frame starts at the end of a round, so that the executor begins the first one.
        Ok(Step::Enter(Frame { next: op.body.len(), looping, ..Frame::new(&op.body) }))
    }

    fn loop_items(&self, over: &LoopOver) -> Result<LoopItems, RunError> {
        let scope = self.scope();
        match over {
            LoopOver::Elements(elements) => {
                Ok(LoopItems::Owned(elements.iter().map(|element| (&**element).into()).collect()))
            }
            LoopOver::Value(reference) => {
                Ok(match self.variables.resolve(reference).map(|value| value.into_owned()) {
                    None | Some(SkillValue::Null) => LoopItems::Owned(Vec::new()),
                    Some(SkillValue::List(list)) => {
                        let length = list.len();
                        LoopItems::Shared(list, length)
                    }
                    Some(SkillValue::Text(text)) => {
                        scope.read(text.len())?;
                        items_of_text(text)
                    }
                    Some(other) => LoopItems::Owned(vec![other]),
                })
            }
            LoopOver::Text(template) => {
                let mut parts = template.parts();
                if let (Some(TextPart::Reference(reference)), None) = (parts.next(), parts.next())
                    && let value = scope.value(reference)?
                    && let SkillValue::List(list) = &*value
                {
                    scope.read(value.weight())?;
                    // The language defines `${REF}` as its JSON text here, so the loop works on copies.
                    return Ok(LoopItems::Owned(
                        list.with(|items| items.iter().map(SkillValue::detached).collect()),
                    ));
                }
                Ok(items_of_text(scope.text(template)?))
            }
        }
    }
}

/// A blank text has no items, a JSON list has its elements, and any other text is the only item.
fn items_of_text(text: Arc<String>) -> LoopItems {
    if trim(&text).is_empty() {
        return LoopItems::Owned(Vec::new());
    }
    match json_text::parse_list(&text) {
        Some(SkillValue::List(list)) => {
            let length = list.len();
            LoopItems::Shared(list, length)
        }
        _ => LoopItems::Owned(vec![SkillValue::Text(text)]),
    }
}
