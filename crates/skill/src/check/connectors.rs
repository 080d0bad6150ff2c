//! Lint rules about connectors and their tools.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::context::{ConnectorFacts, ToolSchema};
use super::walk::every_main_op;
use super::{Check, FindingPlace, Severity};
use crate::syntax::blanks::{is_blank, is_word};
use crate::syntax::tree::{DispatchOp, OpKind, SkillOp, SkillTarget, SkillTree};

/// Tools of the language itself.
pub const BUILT_IN: [&str; 2] = ["execute_skill", "json_parse"];
/// Arguments that the server handles itself. Tools do not get them.
const SERVER_ARGUMENTS: [&str; 2] = ["timeout", "approved"];

/// A `$` operation with its place.
pub struct Dispatched<'t> {
    pub target: &'t SkillTarget,
    pub op: &'t SkillOp,
    pub dispatch: &'t DispatchOp,
}

impl<'t> Dispatched<'t> {
    pub fn place(&self) -> FindingPlace<'t> {
        FindingPlace::op(&self.target.name, self.op)
    }

    pub fn tool(&self) -> Option<&'t str> {
        self.dispatch.call.as_ref().map(|call| &*call.tool)
    }
}

/// Every `$` operation of a main body.
pub fn dispatches(tree: &SkillTree) -> Vec<Dispatched<'_>> {
    let mut found = Vec::new();
    every_main_op(tree, &mut |target, op| {
        if let OpKind::Dispatch(dispatch) = &op.kind {
            found.push(Dispatched { target, op, dispatch });
        }
    });
    found
}

pub fn check(check: &mut Check<'_>) {
    if let Some(provided) = &check.context.capabilities {
        for name in check.tree.header.required_capabilities.iter().filter(|name| !provided.contains(*name)) {
            check.report(
                "unknown-capability",
                FindingPlace::SKILL,
                format!("no connector provides '{name}'"),
            );
        }
    }
    for message in &check.context.unknown_connector_classes {
        check.report("unknown-connector-class", FindingPlace::SKILL, message.clone());
    }
    let Some(connectors) = &check.context.connectors else { return };
    let dispatches = dispatches(check.tree);
    let mut seen = HashSet::new();
    for found in &dispatches {
        match &found.dispatch.connector {
            None => bare_call(check, connectors, found, &mut seen),
            Some(name) => match connectors.get(&**name) {
                Some(connector) => qualified_call(check, connector, name, found, &mut seen),
                None if seen.insert(("unknown-connector", &*found.target.name, name.to_string())) => {
                    let message =
                        format!("no connector has the name '{name}'; there are {}", list(connectors));
                    check.report("unknown-connector", found.place(), message);
                }
                None => {}
            },
        }
    }
    tools_without_connector(check, connectors, &dispatches);
}

fn list(connectors: &BTreeMap<String, ConnectorFacts>) -> String {
    let names: Vec<&str> = connectors.keys().map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

type SeenFindings<'t> = HashSet<(&'static str, &'t str, String)>;

/// `$ connector tool`, where the author forgot the dot.
fn bare_call<'t>(
    check: &mut Check<'_>,
    connectors: &BTreeMap<String, ConnectorFacts>,
    found: &Dispatched<'t>,
    seen: &mut SeenFindings<'t>,
) {
    let Some((connector, tool)) = two_words(&found.dispatch.body) else { return };
    if connectors.contains_key(connector)
        && seen.insert(("connector-as-tool", &found.target.name, connector.to_owned()))
    {
        let message = format!("'{connector}' is a connector, not a tool; write `$ {connector}.{tool}`");
        check.report("connector-as-tool", found.place(), message);
    }
}

/// The first word of a text and its second one, if that is a name without `=` after it.
fn two_words(body: &str) -> Option<(&str, &str)> {
    let begins = body.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let end = body.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-'))?;
    let rest = body[end..].trim_start_matches(is_blank);
    if !begins || rest.len() == body.len() - end {
        return None;
    }
    let length = rest.find(|c| !is_word(c) && c != '-').unwrap_or(rest.len());
    let second = &rest[..length];
    let is_name = second.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_argument = rest[length..].trim_start_matches(is_blank).starts_with('=');
    (is_name && !is_argument).then_some((&body[..end], second))
}

/// `$ connector.tool` with a connector that is there.
fn qualified_call<'t>(
    check: &mut Check<'_>,
    connector: &ConnectorFacts,
    name: &str,
    found: &Dispatched<'t>,
    seen: &mut SeenFindings<'t>,
) {
    let Some(tool) = found.tool() else { return };
    let mut is_new =
        |rule, subject: &str| seen.insert((rule, &*found.target.name, format!("{name}.{tool} {subject}")));
    let is_allowed =
        connector.allowed_tools.as_ref().is_none_or(|tools| tools.iter().any(|known| known == tool));
    if !is_allowed && is_new("disallowed-tool", "") {
        let allowed = match connector.allowed_tools.as_deref() {
            None | Some([]) => "no tool is".to_owned(),
            Some(tools) => format!("allowed are {}", tools.join(", ")),
        };
        let message = format!("tool '{tool}' is not allowed for connector '{name}'; {allowed}");
        check.report("disallowed-tool", found.place(), message);
    }
    let schema = connector.schemas.get(tool);
    match &connector.declared_tools {
        Some(tools)
            if is_allowed
                && !tools.iter().any(|known| known == tool)
                && is_new("unknown-tool-on-connector", "") =>
        {
            let message = format!("connector '{name}' has no tool '{tool}'; it has {}", tools.join(", "));
            check.report("unknown-tool-on-connector", found.place(), message);
        }
        None if schema.is_none() && is_new("unverified-qualified-tool", "") => {
            let message = format!("connector '{name}' does not say whether it has a tool '{tool}'");
            check.report("unverified-qualified-tool", found.place(), message);
        }
        _ => {}
    }
    if let Some(schema) = schema {
        arguments(check, schema, found, &mut is_new);
    }
}

/// Arguments that the schema of a tool does not have, and required ones that are absent.
fn arguments(
    check: &mut Check<'_>,
    schema: &ToolSchema,
    found: &Dispatched<'_>,
    is_new: &mut dyn FnMut(&'static str, &str) -> bool,
) {
    let Some(call) = &found.dispatch.call else { return };
    let given = call
        .arguments
        .iter()
        .filter(|argument| !argument.name.is_empty() && !SERVER_ARGUMENTS.contains(&&*argument.name));
    let tool = &call.tool;
    if let Some(known) = schema.arguments.as_ref().filter(|_| !schema.is_open) {
        for argument in given.clone() {
            let name = &*argument.name;
            if !known.iter().any(|known| known == name) && is_new("unknown-connector-arg", name) {
                let message = format!("tool '{tool}' has no argument '{name}'; it has {}", known.join(", "));
                check.report("unknown-connector-arg", found.place().at(Some(argument.range)), message);
            }
        }
    }
    let absent: Vec<&str> = schema
        .required
        .iter()
        .map(String::as_str)
        .filter(|name| !given.clone().any(|argument| &*argument.name == *name))
        .collect();
    if !absent.is_empty() && is_new("missing-required-connector-arg", &absent.join(",")) {
        let message = format!("tool '{tool}' needs {}", absent.join(", "));
        check.report("missing-required-connector-arg", found.place(), message);
    }
}

/// Tools without a connector that are neither built in nor the name of a connector. If every call has a fallback, the
/// skill works without the connector.
fn tools_without_connector(
    check: &mut Check<'_>,
    connectors: &BTreeMap<String, ConnectorFacts>,
    dispatches: &[Dispatched<'_>],
) {
    let mut calls: Vec<(&Dispatched<'_>, &str, bool)> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for found in dispatches.iter().filter(|found| found.dispatch.connector.is_none()) {
        let Some(tool) = found.tool() else { continue };
        if BUILT_IN.contains(&tool) || connectors.contains_key(tool) {
            continue;
        }
        let has_fallback = found.dispatch.binding.fallback.is_some();
        match places.get(&(&*found.target.name, tool)) {
            Some(index) => calls[*index].2 &= has_fallback,
            None => {
                places.insert((&found.target.name, tool), calls.len());
                calls.push((found, tool, has_fallback));
            }
        }
    }
    for (found, tool, has_fallback) in calls {
        let severity = if has_fallback { Severity::Info } else { Severity::Error };
        let message = format!("no connector serves tool '{tool}'; there are {}", list(connectors));
        check.report_as("unwired-primary-connector", severity, found.place(), message);
    }
}
