//! Lint rules about header lines.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::LazyLock;

use memchr::{memchr_iter, memmem};
use regex::Regex;

use super::tool_arguments::compiled;
use super::walk::every_main_op;
use super::{Check, FindingPlace};
use crate::approval::is_unsigned;
use crate::status::{Status, gate_line};
use crate::syntax::blanks::is_blank;
use crate::syntax::lines::{HeaderLine, logical_lines};
use crate::syntax::tree::{OpKind, SourceRange};
use crate::syntax::{OutputKind, SkillOutput};

/// The block that a finding about a header line names, because header lines belong to no target.
const FRONT: &str = "(frontmatter)";

static QUOTED: LazyLock<Regex> = LazyLock::new(|| compiled("\"[^\"]*\"|'[^']*'"));
static NEXT_VAR: LazyLock<Regex> = LazyLock::new(|| compiled(r"\s+([A-Za-z_][A-Za-z0-9_]*)\s*="));

pub fn check(check: &mut Check<'_>) {
    status(check);
    vars(check);
    outputs(check);
    delivery_context(check);
    stored_names(check);
}

fn status(check: &mut Check<'_>) {
    let header = &check.tree.header;
    if header.status == Some(Status::Disabled) {
        check.report("status-disabled", FindingPlace::SKILL, "the skill is disabled".to_owned());
    }
    if header.status == Some(Status::Draft) && !header.triggers.is_empty() {
        let message = "the skill is a draft, so its triggers do not start it".to_owned();
        check.report("draft-with-trigger", FindingPlace::SKILL, message);
    }
    // The parser has read its part already, so only the gate reads the text again.
    let gate = gate_line(check.tree.source()).and_then(|line| line.status());
    if gate != header.status {
        let message = "the approval gate and the parser read different statuses".to_owned();
        check.report("status-disagrees", FindingPlace::SKILL, message);
    }
    for range in unsigned_lines(check.tree.source()) {
        let message = "a signature leaves out this line, because it looks like a header line".to_owned();
        check.report("unsigned-literal-line", FindingPlace::range(range), message);
    }
}

/// Lines that a signature leaves out although they are no header lines.
fn unsigned_lines(source: &str) -> Vec<SourceRange> {
    let headers = LazyCell::new(|| {
        let headers = logical_lines(source).filter(|line| HeaderLine::read(line).is_some());
        headers.map(|line| line.start).collect::<HashSet<usize>>()
    });
    let contains = |word: &str| memmem::find(source.as_bytes(), word.as_bytes()).is_some();
    let joins_lines = LazyCell::new(|| contains("\"\"\"") || contains("```"));
    let (mut found, mut searched, mut line_start) = (Vec::new(), 0, 0);
    for at in memchr_iter(b'#', source.as_bytes()) {
        if let Some(end) = source[searched..at].rfind(['\n', '\r']) {
            line_start = searched + end + 1;
        }
        searched = at;
        if !source[line_start..at].chars().all(is_blank) {
            continue;
        }
        let line = &source[line_start..];
        let line = &line[..line.find(['\n', '\r']).unwrap_or(line.len())];
        // A line that begins with `#` is a header line, unless it is joined to another or stands outside a fence.
        let is_header = || at == line_start && (!*joins_lines || headers.contains(&line_start));
        if is_unsigned(line) && !is_header() {
            found.push(SourceRange::new(at, line_start + line.trim_end().len()));
        }
    }
    found
}

fn vars(check: &mut Check<'_>) {
    for var in &check.tree.header.vars {
        if var.name.contains(is_blank) {
            let message = format!(
                "'{}' holds blanks; separate variables with commas: {}",
                var.name,
                var.name.split(is_blank).filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ")
            );
            check.report("space-separated-vars", FindingPlace::SKILL, message);
        }
        let unquoted = var.default.as_deref().map(|default| QUOTED.replace_all(default, "\"\""));
        let next = unquoted.as_deref().and_then(|text| NEXT_VAR.captures(text));
        if let Some(next) = next.and_then(|captures| captures.get(1).map(|name| name.as_str().to_owned())) {
            let message =
                format!("'{next}' is a part of the default of '{}'; put a comma before it", var.name);
            check.report("vars-space-separated", FindingPlace::SKILL, message);
        }
    }
}

/// Whether an output goes to an agent.
fn goes_to_agent(output: &&SkillOutput) -> bool {
    matches!(output.kind, OutputKind::Agent | OutputKind::Template)
}

fn outputs(check: &mut Check<'_>) {
    let tree = check.tree;
    let to_agents: Vec<&SkillOutput> = tree.header.outputs.iter().filter(goes_to_agent).collect();
    if tree.header.event_type.is_some() && to_agents.is_empty() {
        let message = "`# Event-type:` has no effect without an output to an agent".to_owned();
        check.report("unused-augmenting-header", FindingPlace::SKILL, message);
    }
    let mut emits = false;
    if !to_agents.is_empty() {
        every_main_op(tree, &mut |_, op| emits |= matches!(op.kind, OpKind::Emit(_)));
    }
    for output in to_agents {
        let target = output.target.as_deref().unwrap_or_default();
        let kind = if output.kind == OutputKind::Agent { "agent" } else { "template" };
        let declared = format!("{kind}: {target}");
        if !emits && tree.template.is_none() {
            let message = format!("nothing is emitted for `# Output: {declared}`, so the delivery is empty");
            check.report("output-agent-target-no-emit", FindingPlace::SKILL, message);
        }
        if check.context.has_agent_connectors == Some(false) {
            let message = format!("no connector can deliver `# Output: {declared}`");
            check.report("output-agent-target-no-connector", FindingPlace::SKILL, message);
        }
        if target.contains('@') {
            let message = format!("'{target}' names a session, so the agent is woken");
            check.report("address-routed-wake", FindingPlace::block(FRONT), message);
        }
    }
    let mut wakes = Vec::new();
    every_main_op(tree, &mut |target, op| {
        if let OpKind::Notify(notify) = &op.kind
            && notify.agent.text().contains('@')
        {
            let message = format!("'{}' names a session, so the agent is woken", notify.agent.text());
            wakes.push((FindingPlace::op(&target.name, op), message));
        }
    });
    for (place, message) in wakes {
        check.report("address-routed-wake", place, message);
    }
}

/// The old name of `# Event-type:`, at the beginning of any line.
fn delivery_context(check: &mut Check<'_>) {
    let source = check.tree.source();
    for start in memchr_iter(b'#', source.as_bytes()) {
        if start > 0 && source.as_bytes()[start - 1] != b'\n' {
            continue;
        }
        let line = source[start..].split('\n').next().unwrap_or_default();
        let key = line[1..].trim_start_matches(is_blank);
        let name = "delivery-context:";
        if key.get(..name.len()).is_some_and(|key| key.eq_ignore_ascii_case(name)) {
            let place = FindingPlace::range(SourceRange::new(start, start + line.trim_end().len()));
            let message = "`# Delivery-context:` is ignored; its name is `# Event-type:` now".to_owned();
            check.report("legacy-frontmatter-header", place, message);
        }
    }
}

fn stored_names(check: &mut Check<'_>) {
    let (Some(store), Some(name)) = (&check.context.store, &check.tree.header.name) else { return };
    let is_other = store.skills.get(name).is_some_and(|stored| !stored.is_same_text);
    if is_other && !check.context.is_read_only {
        let message = format!("another text is stored as '{name}'");
        check.report("skill-name-collision", FindingPlace::SKILL, message);
    }
    if store.same_name > 1 {
        let message = format!("{} stored skills have the name '{name}'", store.same_name);
        check.report("duplicate-skill-name", FindingPlace::SKILL, message);
    }
}
