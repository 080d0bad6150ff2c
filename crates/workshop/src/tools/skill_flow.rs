//! The steps of a skill in words, for somebody who decides whether to approve it.

use serde_json::{Value, json};
use skill::tree::{DispatchOp, OpKind, ResultBinding, ShellCommand, SkillOp, SkillTarget, SkillTree};

/// Steps of one target that are shown.
const STEPS: usize = 200;
/// Characters of a text that are shown.
const DETAIL: usize = 120;

/// The targets with their steps. `truncated` says that there are more.
pub fn flow(tree: &SkillTree) -> Value {
    let mut truncated = false;
    let lanes: Vec<Value> = tree.targets.iter().map(|target| lane(tree, target, &mut truncated)).collect();
    json!({ "lanes": lanes, "entry": tree.entry, "truncated": truncated })
}

fn lane(tree: &SkillTree, target: &SkillTarget, truncated: &mut bool) -> Value {
    let mut steps = Vec::new();
    collect(tree, &target.ops, &mut steps);
    *truncated |= steps.len() > STEPS;
    steps.truncate(STEPS);
    json!({
        "id": target.name,
        "isEntry": tree.entry.as_deref() == Some(&target.name),
        "deps": target.dependencies,
        "steps": steps,
    })
}

fn collect(tree: &SkillTree, ops: &[SkillOp], steps: &mut Vec<Value>) {
    for op in ops {
        if steps.len() > STEPS {
            return;
        }
        steps.push(step(tree, op));
        for block in op.blocks() {
            collect(tree, block, steps);
        }
    }
}

fn step(tree: &SkillTree, op: &SkillOp) -> Value {
    let body = tree.body(op);
    let (label, detail, tone, binding) = match &op.kind {
        OpKind::Set(set) => (format!("Set {}", set.variable), set.value.text(), "local", None),
        OpKind::Append(append) => {
            (format!("Append to {}", append.variable), append.value.text(), "local", None)
        }
        OpKind::Emit(emit) => ("Tell the user".to_owned(), emit.text.text(), "local", None),
        OpKind::Reason(text) => ("Think".to_owned(), text.text(), "local", None),
        OpKind::Dispatch(dispatch) => {
            let (label, tone) = dispatch_label(dispatch);
            (label, first_argument(dispatch), tone, Some(&dispatch.binding))
        }
        OpKind::Shell(shell) => {
            let command = match &shell.command {
                ShellCommand::Words(text) | ShellCommand::Unsafe(text) => text.text(),
                ShellCommand::Argv(words) => words.first().map_or("", |word| word.text()),
            };
            let program = command.split_whitespace().next().unwrap_or("a command");
            (format!("Run {program}"), command, "shell", Some(&shell.binding))
        }
        OpKind::FileRead(read) => {
            ("Read a file".to_owned(), read.path.text(), "external", Some(&read.binding))
        }
        OpKind::FileWrite(write) => ("Write a file".to_owned(), write.path.text(), "mutation", None),
        OpKind::Notify(notify) => {
            ("Send a message to an agent".to_owned(), notify.agent.text(), "external", Some(&notify.binding))
        }
        OpKind::Exchange(ask) => {
            ("Ask an agent".to_owned(), ask.agent.text(), "external", Some(&ask.binding))
        }
        OpKind::Inline(inline) => ("Include a skill".to_owned(), &*inline.skill, "local", None),
        OpKind::Foreach(_) => ("For each".to_owned(), body, "control", None),
        OpKind::If(_) => ("If".to_owned(), body, "control", None),
    };
    let detail: String = detail.chars().take(DETAIL).collect();
    let mut step = json!({ "label": label, "detail": detail, "tone": tone });
    if let Some(ResultBinding { variable: Some(variable), .. }) = binding {
        step["produces"] = (&**variable).into();
    }
    step
}

fn dispatch_label(op: &DispatchOp) -> (String, &'static str) {
    let tool = op.call.as_ref().map_or("", |call| &call.tool);
    let is_mutation = skill::check::is_mutating_tool(tool);
    match (&op.connector, tool) {
        (None, "data_write") => ("Write to the data store".to_owned(), "mutation"),
        (None, "data_read") => ("Read from the data store".to_owned(), "external"),
        (None, "llm") => ("Ask a model".to_owned(), "external"),
        (None, "json_parse") => ("Parse JSON".to_owned(), "local"),
        (None, "execute_skill") => ("Run a skill".to_owned(), "external"),
        (None, "skill_write") => ("Write a skill".to_owned(), "mutation"),
        (Some(connector), tool) => {
            (format!("Call {connector}.{tool}"), if is_mutation { "mutation" } else { "external" })
        }
        (None, tool) => (format!("Call {tool}"), if is_mutation { "mutation" } else { "external" }),
    }
}

/// The value of the first argument, which usually says what a call is about.
fn first_argument(op: &DispatchOp) -> &str {
    use skill::tree::ArgumentValue;
    let first = op.call.as_ref().and_then(|call| call.arguments.first());
    match first.map(|argument| &argument.value) {
        Some(ArgumentValue::Quoted(text) | ArgumentValue::Bare(text)) => text.text(),
        _ => "",
    }
}
