//! The rendering for people: a paragraph of sentences for each target.

use super::BoundedText;
use super::declared_values::DeclaredValues;
use crate::run::{PreparedSkill, RunError, utf16_length};
use crate::syntax::tree::{OpKind, SkillOp};

pub fn render(skill: &PreparedSkill, values: &DeclaredValues<'_>) -> Result<String, RunError> {
    let tree = &*skill.tree;
    let mut out = BoundedText::new();
    out.line(&["# ", tree.header.name.as_deref().unwrap_or("(unnamed)")])?;
    if let Some(description) = tree.header.description.as_deref().filter(|text| !text.is_empty()) {
        out.line(&["\n", description])?;
    }
    if values.all().next().is_some() {
        let inputs: Vec<String> =
            values.all().map(|(name, value)| format!("{name} = {}", value.to_js_string())).collect();
        out.line(&["\n**Inputs:** ", &inputs.join("; ")])?;
    }
    if let Some(template) = &tree.template {
        out.line(&["\n**Tells the user:** ", &values.text(template.text())?])?;
    }
    for index in &skill.order {
        let target = &tree.targets[*index];
        out.line(&["\n## ", &target.name, "\n"])?;
        let mut sentences = Sentences { skill, values, text: BoundedText::new() };
        if !target.dependencies.is_empty() {
            sentences.add(&["Runs after ", &target.dependencies.join(", "), "."])?;
        }
        sentences.block(&target.ops)?;
        out.push(&sentences.text.text)?;
        if let Some(block) = &target.error_block {
            let mut sentences = Sentences { skill, values, text: BoundedText::new() };
            sentences.block(block)?;
            out.line(&["\n**On failure:** ", &sentences.text.text])?;
        }
    }
    Ok(out.text)
}

/// Sentences with one blank between them.
struct Sentences<'s> {
    skill: &'s PreparedSkill,
    values: &'s DeclaredValues<'s>,
    text: BoundedText,
}

impl Sentences<'_> {
    fn block(&mut self, ops: &[SkillOp]) -> Result<(), RunError> {
        ops.iter().try_for_each(|op| self.op(op))
    }

    fn add(&mut self, parts: &[&str]) -> Result<(), RunError> {
        if !self.text.text.is_empty() && !self.text.text.ends_with(' ') {
            self.text.push(" ")?;
        }
        parts.iter().try_for_each(|part| self.text.push(part))
    }

    /// Adds the beginning of a sentence that the sentences of a block continue.
    fn open(&mut self, parts: &[&str], ops: &[SkillOp]) -> Result<(), RunError> {
        self.add(parts)?;
        self.text.push(" ")?;
        self.block(ops)
    }

    fn op(&mut self, op: &SkillOp) -> Result<(), RunError> {
        // Every line is resolved, shown or not: its filters must work on the declared values.
        let body = match &op.kind {
            OpKind::Set(_) => String::new(),
            _ => self.values.text(self.skill.tree.body(op))?,
        };
        let binds = |joint: &str| match op.binding().and_then(|binding| binding.variable.as_ref()) {
            Some(variable) => format!("{joint}binds to $({variable})"),
            None => String::new(),
        };
        match &op.kind {
            OpKind::Set(set) => self.add(&["Sets variable ", &set.variable, " to ", set.value.text(), "."]),
            OpKind::Append(append) => {
                self.add(&["Appends ", append.value.text(), " to list $(", &append.variable, ")."])
            }
            OpKind::Emit(_) => self.add(&["Reports back to the user: ", &body, "."]),
            OpKind::Reason(_) => self.add(&["Reasons through: ", &body, "."]),
            OpKind::Dispatch(dispatch) => {
                let (connector, dot) = dispatch.connector.as_deref().map_or(("", ""), |name| (name, "."));
                self.add(&["Calls a tool: ", connector, dot, &body, "."])
            }
            OpKind::Shell(_) => self.add(&["Runs a shell command: ", &body, "."]),
            OpKind::FileRead(read) => {
                let path = self.values.text(read.path.text())?;
                self.add(&["Reads file ", &path, &binds("; "), "."])
            }
            OpKind::FileWrite(write) => {
                let path = self.values.text(write.path.text())?;
                let length = utf16_length(write.content.text()).to_string();
                self.add(&["Writes file ", &path, " (", &length, " chars)."])
            }
            OpKind::Notify(notify) => {
                let agent = self.values.text(notify.agent.text())?;
                let message = match notify.message {
                    Some(_) => "with explicit message",
                    None => "with the skill's joined emissions",
                };
                let connectors = restricted(notify.connectors.as_deref());
                self.add(&[
                    "Notifies agent ",
                    &agent,
                    " ",
                    message,
                    " via AgentConnector dispatch",
                    &connectors,
                    ".",
                ])
            }
            OpKind::Exchange(exchange) => {
                let agent = self.values.text(exchange.agent.text())?;
                let connectors = restricted(exchange.connectors.as_deref());
                self.add(&[
                    "Asks agent ",
                    &agent,
                    " and waits for the answer",
                    &connectors,
                    &binds("; "),
                    ".",
                ])
            }
            OpKind::Inline(inline) => self.add(&["Invokes skill ", &inline.skill, &binds("; "), "."]),
            OpKind::Foreach(foreach) => {
                let list = self.values.text(&foreach.list)?;
                let parts = ["For each `", &foreach.variable, "` in ", &list, " (loop-local scope), runs:"];
                self.open(&parts, &foreach.body)
            }
            OpKind::If(choice) => {
                for (index, branch) in choice.branches.iter().enumerate() {
                    let label = if index == 0 { "If " } else { "Otherwise if " };
                    self.open(&[label, &branch.text, ", runs:"], &branch.body)?;
                }
                match &choice.otherwise {
                    Some(otherwise) => self.open(&["Otherwise, runs:"], otherwise),
                    None => Ok(()),
                }
            }
        }
    }
}

fn restricted(connectors: Option<&[String]>) -> String {
    connectors.map_or(String::new(), |names| format!(" (restricted to: {})", names.join(", ")))
}
