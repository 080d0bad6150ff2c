//! The tools `lint_skill`, `compile_skill` and `skill_preflight`: what a skill is, before it runs.
//!
//! [`in_turn`] also does the tools that read many records of runs.

use std::collections::VecDeque;
use std::sync::Arc;

use post::Caller;
use serde_json::{Map, Value, json};
use skill::check::{CheckContext, Finding, Severity, StoreFacts, StoredSkillFacts, check, skills_to_look_up};
use skill::tree::SkillTree;
use skill::{
    PreparedSkill, RenderFormat, SkillHeader, SkillHost, TriggerSource, footprint, render_skill, status_of,
};

use super::run_tools::{blocked_commands, health, inputs, recent_fires};
use super::skill_flow::flow;
use super::skill_tools::{answered, given_text, required};
use super::tool_failure::ToolFailure;
use crate::running::{RunHost, SkillRunner};
use crate::skill_meta::{VersionInfo, output_word};

const PREFLIGHT_FIRES: u64 = 20;
/// Lines of history that a preflight shows.
const PREFLIGHT_VERSIONS: usize = 1000;

/// Does a tool in the turns of the caller's tenant, because texts of skills and records of runs can take long.
pub async fn in_turn(
    runner: &SkillRunner,
    by: &Caller,
    tool: &str,
    arguments: Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let (doing, caller, tool) = (runner.clone(), by.clone(), tool.to_owned());
    let work = async move {
        match tool.as_str() {
            "lint_skill" => lint(&doing, &caller, &arguments).await,
            "compile_skill" => compile(&doing, &caller, &arguments).await,
            "health_metrics" => health(&doing, &caller, &arguments).await,
            "blocked_shell_attempts" => blocked_commands(&doing, &caller, &arguments).await,
            _ => preflight(&doing, &caller, &arguments).await,
        }
    };
    match runner.runs().in_turn(&by.tenant, work).await {
        Ok(Ok(done)) => done,
        Ok(Err(refusal)) => Err(ToolFailure::classed(&refusal.class, refusal.message)),
        Err(fault) => Err(ToolFailure::fault(&fault)),
    }
}

/// Lint of a stored skill or of a given text.
async fn lint(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let source = source_of(runner, by, "lint_skill", arguments).await?;
    let tree = SkillTree::parse(&source);
    let host = host(runner, by).await?;
    let context = context(runner, by, &host, &tree).await?;
    let findings = check(&tree, &context);
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings, notes) = (count(Severity::Error), count(Severity::Warning), count(Severity::Info));
    Ok(json!({
        "diagnostics": findings.iter().map(diagnostic).collect::<Vec<_>>(),
        "error_count": errors,
        "warning_count": warnings,
        "info_count": notes,
        "passes_tier_1": errors == 0,
        "passes_tier_2": warnings == 0,
        "passes_tier_3": notes == 0,
    }))
}

/// Everything that is decided about a skill before it runs: its variables, the order of its targets, its text form.
async fn compile(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let source = source_of(runner, by, "compile_skill", arguments).await?;
    let tree = Arc::new(SkillTree::parse(&source));
    let host = host(runner, by).await?;
    let context = context(runner, by, &host, &tree).await?;
    let findings = check(&tree, &context);
    let texts = |severity| {
        let found = findings.iter().filter(move |finding| finding.severity == severity);
        found.map(|finding| format!("[{}] {}", finding.rule, finding.message)).collect::<Vec<_>>()
    };
    let errors = texts(Severity::Error);
    let failed = |errors: Vec<String>, findings: Vec<Value>| {
        json!({
            "skill_name": null,
            "rendered": null,
            "resolved_variables": {},
            "target_order": [],
            "triggers": [],
            "outputs": [],
            "on_error": null,
            "warnings": [],
            "advisories": [],
            "errors": errors,
            "lint_findings": findings,
        })
    };
    if !errors.is_empty() {
        let found = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let errors = vec![format!("lint found errors: {}", errors.join("; "))];
        return Ok(failed(errors, found.map(lint_finding).collect()));
    }
    let prepared = PreparedSkill::new(&host, Arc::clone(&tree), &inputs(arguments)?).await;
    let rendered = prepared.and_then(|prepared| {
        let rendered = render_skill(&prepared, RenderFormat::Prompt)?;
        Ok((prepared, rendered))
    });
    let (prepared, rendered) = match rendered {
        Ok(rendered) => rendered,
        Err(error) => return Ok(failed(vec![error.message], Vec::new())),
    };
    let header = &tree.header;
    let variables: Map<String, Value> = prepared
        .variables
        .iter()
        .map(|(name, value)| (name.to_string(), serde_json::to_value(value).unwrap_or_default()))
        .collect();
    Ok(json!({
        "skill_name": header.name,
        "rendered": rendered,
        "resolved_variables": variables,
        "target_order": prepared.target_names().collect::<Vec<_>>(),
        "triggers": triggers(header),
        "outputs": outputs(header),
        "warnings": texts(Severity::Warning),
        "advisories": texts(Severity::Info),
        "errors": [],
    }))
}

/// What an approver wants to know about a stored skill.
async fn preflight(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let name = required(arguments, "skill_preflight", "name")?;
    let skills = runner.runs().workshop().skills();
    let loaded = answered(skills.load(by, name, None).await)?;
    let versions = latest_versions(runner, by, name).await?;
    let tree = SkillTree::parse(&loaded.source);
    let header = &tree.header;
    let verdict = answered(skills.check_text(by, &loaded.source).await)?;
    let approval = match verdict {
        skill::ApprovalVerdict::Approved { .. } => json!({ "gate_ok": true }),
        skill::ApprovalVerdict::Refused(refusal) => {
            json!({ "gate_ok": false, "reason": refusal.to_string() })
        }
    };
    let limit = arguments.get("fire_limit").and_then(Value::as_u64).unwrap_or(PREFLIGHT_FIRES);
    let vars = header
        .vars
        .iter()
        .map(|var| json!({ "name": var.name, "required": var.default.is_none(), "default": var.default }));
    let stored = &loaded.metadata;
    let mut metadata = json!({
        "name": stored.name,
        "version": stored.version,
        "content_hash": stored.content_hash,
        "status": stored.status,
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
        "tags": header.tags,
    });
    if let Some(author) = &stored.author {
        metadata["author"] = author.as_str().into();
    }
    if let Some(description) = &header.description {
        metadata["description"] = description.as_str().into();
    }
    Ok(json!({
        "metadata": metadata,
        "contract": {
            "vars": vars.collect::<Vec<_>>(),
            "returns": header.returns,
            "requires": header.requires.iter().map(|required| required.raw.as_str()).collect::<Vec<_>>(),
            "secret_requires": header.secret_requires,
            "effectful_footprint": footprint(&loaded.source),
            "flow": flow(&tree),
        },
        "connector_tools": connector_tools(runner, by, &loaded.source).await?,
        "approval": approval,
        "versions": versions,
        "recent_fires": recent_fires(runner, by, name, u32::try_from(limit).unwrap_or(u32::MAX)).await?,
    }))
}

/// The end of the history of a skill, oldest first.
async fn latest_versions(
    runner: &SkillRunner,
    by: &Caller,
    name: &str,
) -> Result<VecDeque<VersionInfo>, ToolFailure> {
    let skills = runner.runs().workshop().skills();
    let (mut latest, mut after) = (VecDeque::new(), None::<String>);
    loop {
        let page = answered(skills.versions(by, name, after.as_deref(), PREFLIGHT_VERSIONS).await)?;
        latest.extend(page.items);
        latest.drain(..latest.len().saturating_sub(PREFLIGHT_VERSIONS));
        after = page.next;
        if after.is_none() {
            return Ok(latest);
        }
    }
}

/// The tools of the connectors that a skill names. Null if it names none.
async fn connector_tools(runner: &SkillRunner, by: &Caller, source: &str) -> Result<Value, ToolFailure> {
    let named = footprint(source).connectors;
    if named.is_empty() {
        return Ok(Value::Null);
    }
    let setup = runner.resources().of(&by.tenant).await.map_err(|fault| ToolFailure::fault(&fault))?;
    let facts = setup.resources.tools.facts(runner.runs().timepiece()).await;
    let shown = facts.into_iter().filter(|(name, _)| named.contains(name)).map(|(name, facts)| {
        let mut tools: Vec<String> = facts.schemas.into_keys().collect();
        tools.sort_unstable();
        (name, json!({ "tools": tools, "allowed_tools": facts.allowed_tools }))
    });
    Ok(Value::Object(shown.collect()))
}

/// The text that a tool is about.
async fn source_of(
    runner: &SkillRunner,
    by: &Caller,
    tool: &str,
    arguments: &Map<String, Value>,
) -> Result<String, ToolFailure> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("source"), text("name")) {
        (Some(source), _) => given_text(tool, source),
        (None, Some(name)) => {
            let loaded = runner.runs().workshop().skills().load(by, name, None).await;
            Ok(answered(loaded)?.source)
        }
        (None, None) => Err(ToolFailure::arguments("Either `source` or `name` is required.")),
    }
}

async fn host(runner: &SkillRunner, by: &Caller) -> Result<RunHost, ToolFailure> {
    let setup = runner.resources().of(&by.tenant).await.map_err(|fault| ToolFailure::fault(&fault))?;
    let host = runner.runs().host(by, "(check)", &setup).await.map_err(|fault| ToolFailure::fault(&fault))?;
    host.map_err(|refusal| ToolFailure::classed(&refusal.class, refusal.message))
}

/// What lint knows here: the store, the connectors, and what is allowed.
async fn context(
    runner: &SkillRunner,
    by: &Caller,
    host: &RunHost,
    tree: &SkillTree,
) -> Result<CheckContext, ToolFailure> {
    let setup = runner.resources().of(&by.tenant).await.map_err(|fault| ToolFailure::fault(&fault))?;
    let mut store = StoreFacts::default();
    for name in skills_to_look_up(tree) {
        let Ok(Some(stored)) = host.load_skill(&name).await else { continue };
        store.same_name += usize::from(tree.header.name.as_deref() == Some(&name));
        let facts = StoredSkillFacts {
            status: Some(status_of(&stored.source).status()),
            returns: SkillHeader::parse(&stored.source).returns,
            is_same_text: *stored.source == *tree.source(),
        };
        store.skills.insert(name, facts);
    }
    let context = CheckContext {
        store: Some(store),
        has_agent_connectors: Some(host.has_agents()),
        allows_unsafe_shell: Some(setup.settings.unsafe_shell),
        is_read_only: true,
        ..CheckContext::default()
    };
    Ok(host.resources().describe(context, &host.bridges()).await)
}

fn tier(severity: Severity) -> (u8, &'static str) {
    match severity {
        Severity::Error => (1, "error"),
        Severity::Warning => (2, "warning"),
        Severity::Info => (3, "info"),
    }
}

fn diagnostic(finding: &Finding) -> Value {
    let mut shown = lint_finding(finding);
    shown["tier"] = tier(finding.severity).0.into();
    shown
}

fn lint_finding(finding: &Finding) -> Value {
    let mut shown = json!({
        "rule": finding.rule,
        "severity": tier(finding.severity).1,
        "message": finding.message,
        "remediation": finding.remedy,
    });
    if let Some(block) = &finding.block {
        shown["block"] = block.as_str().into();
    }
    shown
}

fn triggers(header: &SkillHeader) -> Vec<Value> {
    let shown = header.triggers.iter().map(|trigger| {
        let source = match trigger.source {
            TriggerSource::Cron => "cron",
            TriggerSource::Event => "event",
        };
        json!({ "source": source, "name": trigger.name })
    });
    shown.collect()
}

/// The declared outputs. A skill that declares none has a text.
fn outputs(header: &SkillHeader) -> Vec<Value> {
    if header.outputs.is_empty() {
        return vec![json!({ "kind": "text" })];
    }
    let shown = header.outputs.iter().map(|output| match &output.target {
        Some(target) => json!({ "kind": output_word(output.kind), "target": target }),
        None => json!({ "kind": output_word(output.kind) }),
    });
    shown.collect()
}
