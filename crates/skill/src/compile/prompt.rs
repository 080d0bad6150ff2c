//! The rendering for agents: numbered steps, one bullet for each operation.

use super::BoundedText;
use super::declared_values::DeclaredValues;
use crate::run::{PreparedSkill, RunError, utf16_cut, utf16_length, utf16_preview};
use crate::syntax::tree::{FileWriteOp, IfOp, OpKind, ResultBinding, SkillOp, TextTemplate};

/// How many UTF-16 units of a message or a file are shown.
const SHOWN: usize = 40;

pub fn render(skill: &PreparedSkill, values: &DeclaredValues<'_>) -> Result<String, RunError> {
    let tree = &*skill.tree;
    let mut out = BoundedText::new();
    out.line(&["# Skill: ", tree.header.name.as_deref().unwrap_or("(unnamed)")])?;
    if let Some(description) = tree.header.description.as_deref().filter(|text| !text.is_empty()) {
        out.line(&[description])?;
    }
    out.line(&[""])?;
    if values.all().next().is_some() {
        out.line(&["## Resolved variables"])?;
        for (name, value) in values.all() {
            out.line(&["- ", name, " = ", &value.to_js_string()])?;
        }
        out.line(&[""])?;
    }
    if let Some(template) = &tree.template {
        out.line(&["## Tell the user:"])?;
        out.line(&[&values.text(template.text())?])?;
        out.line(&[""])?;
    }
    out.line(&["## Steps (topological order)"])?;
    let mut steps = Steps { skill, values, target: "", out };
    for (number, index) in (1_usize..).zip(&skill.order) {
        let target = &tree.targets[*index];
        steps.target = &target.name;
        steps.out.line(&[""])?;
        steps.out.line(&["### ", &number.to_string(), ". ", &target.name])?;
        if !target.dependencies.is_empty() {
            steps.out.push(&format!("  (after: {})", target.dependencies.join(", ")))?;
        }
        steps.block(&target.ops, 0)?;
        if let Some(block) = &target.error_block {
            steps.out.line(&[""])?;
            steps.out.line(&["**On failure of ", &target.name, ", do:**"])?;
            steps.block(block, 0)?;
        }
    }
    Ok(steps.out.text)
}

struct Steps<'s> {
    skill: &'s PreparedSkill,
    values: &'s DeclaredValues<'s>,
    target: &'s str,
    out: BoundedText,
}

impl Steps<'_> {
    fn block(&mut self, ops: &[SkillOp], depth: usize) -> Result<(), RunError> {
        ops.iter().try_for_each(|op| self.op(op, depth))
    }

    /// Adds a bullet, two spaces deeper for each open block.
    fn bullet(&mut self, depth: usize, parts: &[&str]) -> Result<(), RunError> {
        self.out.line(&["  ".repeat(depth).as_str(), "- "])?;
        parts.iter().try_for_each(|part| self.out.push(part))
    }

    fn op(&mut self, op: &SkillOp, depth: usize) -> Result<(), RunError> {
        let body = || self.values.text(self.skill.tree.body(op));
        match &op.kind {
            OpKind::Set(set) => {
                self.bullet(depth, &["Bind variable: ", &set.variable, " = ", set.value.text()])
            }
            OpKind::Append(append) => {
                // The line is not shown, but its filters must work as those of every line.
                body()?;
                self.bullet(depth, &["Append to $(", &append.variable, "): ", append.value.text()])
            }
            OpKind::Emit(_) => {
                let body = body()?;
                self.bullet(depth, &["Tell the user: ", &body])
            }
            OpKind::Reason(_) => {
                let body = body()?;
                self.bullet(depth, &["Reason: ", &body])
            }
            OpKind::Dispatch(dispatch) => {
                let (body, bound) = (body()?, self.bound(&dispatch.binding));
                let (connector, dot) = dispatch.connector.as_deref().map_or(("", ""), |name| (name, "."));
                self.bullet(depth, &["Call tool: ", connector, dot, &body, " — bind output to ", &bound])
            }
            OpKind::Shell(shell) => {
                let (body, bound) = (body()?, self.bound(&shell.binding));
                self.bullet(depth, &["Run shell: ", &body, " — bind output to ", &bound])
            }
            OpKind::FileRead(read) => {
                body()?;
                let (path, bound) = (self.values.text(read.path.text())?, self.bound(&read.binding));
                self.bullet(depth, &["Read file: ", &path, " — bind contents to ", &bound])
            }
            OpKind::FileWrite(write) => {
                body()?;
                self.file_write(write, depth)
            }
            OpKind::Notify(notify) => {
                body()?;
                let message = match &notify.message {
                    Some(message) => format!(" with message={}", self.shown_message(message)?),
                    None => " (uses joined emissions)".to_owned(),
                };
                let agent = self.values.text(notify.agent.text())?;
                let (via, bound) = (via(notify.connectors.as_deref()), self.bound(&notify.binding));
                self.bullet(depth, &["Notify agent: ", &agent, &message, &via, " — bind ACK to ", &bound])
            }
            OpKind::Exchange(exchange) => {
                body()?;
                let message = match &exchange.message {
                    Some(message) => format!(" with message={}", self.shown_message(message)?),
                    None => " (uses joined emissions)".to_owned(),
                };
                let agent = self.values.text(exchange.agent.text())?;
                let (via, bound) = (via(exchange.connectors.as_deref()), self.bound(&exchange.binding));
                self.bullet(depth, &["Ask agent: ", &agent, &message, &via, " — bind answer to ", &bound])
            }
            OpKind::Inline(inline) => {
                body()?;
                let bound = inline.binding.variable.as_ref();
                let bound = bound.map_or(String::new(), |name| format!(" — bind result to $({name})"));
                self.bullet(depth, &["Invoke skill: ", &inline.skill, &bound])
            }
            OpKind::Foreach(foreach) => {
                body()?;
                let list = self.values.text(&foreach.list)?;
                let variable = &foreach.variable;
                self.bullet(depth, &["For each `", variable, "` in ", &list, ", do (loop-local scope):"])?;
                self.block(&foreach.body, depth + 1)
            }
            OpKind::If(choice) => {
                body()?;
                self.choice(choice, depth)
            }
        }
    }

    fn choice(&mut self, choice: &IfOp, depth: usize) -> Result<(), RunError> {
        for (index, branch) in choice.branches.iter().enumerate() {
            let label = if index == 0 { "If " } else { "Otherwise if " };
            self.bullet(depth, &[label, &branch.text, ", do:"])?;
            self.block(&branch.body, depth + 1)?;
        }
        if let Some(otherwise) = &choice.otherwise {
            self.bullet(depth, &["Otherwise, do:"])?;
            self.block(otherwise, depth + 1)?;
        }
        Ok(())
    }

    fn file_write(&mut self, write: &FileWriteOp, depth: usize) -> Result<(), RunError> {
        let path = self.values.text(write.path.text())?;
        let content = write.content.text();
        let length = utf16_length(content).to_string();
        let preview = utf16_preview(content, SHOWN);
        self.bullet(depth, &["Write file: ", &path, " (", &length, " chars) — content: ", &preview])
    }

    /// The beginning of a message in quotes. The dots follow the length of the message as it is written.
    fn shown_message(&self, message: &TextTemplate) -> Result<String, RunError> {
        let dots = if utf16_length(message.text()) > SHOWN { "..." } else { "" };
        Ok(format!("\"{}{dots}\"", utf16_cut(&self.values.text(message.text())?, SHOWN)))
    }

    /// The variable that gets the result: the one behind the arrow, otherwise the result of the target.
    fn bound(&self, binding: &ResultBinding) -> String {
        match &binding.variable {
            Some(variable) => format!("$({variable})"),
            None => format!("$({}.output)", self.target),
        }
    }
}

fn via(connectors: Option<&[String]>) -> String {
    connectors.map_or(String::new(), |names| format!(" via [{}]", names.join(", ")))
}
