//! Options of a case: the host and the run context that they describe.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use skill::{
    ApprovalPublicKey, ApprovalVerdict, RunContext, RunPolicy, RunTrigger, SkillHost, SkillValue, stamp,
};

use super::{CaseFault, TestKeys};
use crate::agents::{AgentDouble, AgentFlags, AgentsPlayed};
use crate::standard_host::{StandardHost, StandardSettings};

/// Programs that `shell` may run unless a case lists others.
pub const PROGRAMS: &[&str] = &["echo", "printf", "cat", "false", "true", "sleep", "sh", "bash", "env", "wc"];

/// A list of texts. `None` if the value is no list.
pub fn texts(value: &Value, option: &'static str) -> Result<Option<Vec<String>>, CaseFault> {
    let Some(list) = value.as_array() else { return Ok(None) };
    let text = |text: &Value| text.as_str().map(str::to_owned).ok_or(CaseFault::BadOption(option));
    list.iter().map(text).collect::<Result<_, _>>().map(Some)
}

pub fn host(case: &Value, root: &Path, keys: Option<&TestKeys>) -> Result<StandardHost, CaseFault> {
    let options = &case["options"];
    let secrets = options["secrets"].as_object().into_iter().flatten();
    let secret = |(name, value): (&String, &Value)| {
        value.as_str().map(|value| (name.clone(), value.to_owned())).ok_or(CaseFault::BadOption("secrets"))
    };
    let approval_keys = match (options["secured"] == true, keys) {
        (false, _) => None,
        (true, None) => Some(Vec::new()),
        (true, Some(keys)) => Some(vec![ApprovalPublicKey::clone(&keys.public)]),
    };
    let settings = StandardSettings {
        allowed_tools: texts(&options["allowed_tools"], "allowed_tools")?,
        has_no_connectors: options["connectors"] == "none",
        has_data: options["data"] == true || options["data"].is_array(),
        file_root: (options["fs_allowlist"] != "unset").then(|| root.to_owned()),
        secrets: secrets.map(secret).collect::<Result<_, _>>()?,
        approval_keys,
    };
    let host = StandardHost::new(settings, agents(&options["agents"])?);
    for (name, body) in case["stored_skills"].as_object().into_iter().flatten() {
        let body = body.as_str().ok_or(CaseFault::BadOption("stored_skills"))?;
        let author = options["store_authors"][name].as_str();
        if options["sign_store"] == true {
            let keys = keys.ok_or(CaseFault::NoKeys)?;
            host.skills.put(name, &stamp(body, &keys.private), author);
        } else {
            host.skills.put(name, body, author);
        }
    }
    for entry in options["data"].as_array().into_iter().flatten() {
        let entry = SkillValue::from_json(&entry.to_string()).ok();
        let entry = entry.as_ref().and_then(SkillValue::as_object).ok_or(CaseFault::BadOption("data"))?;
        host.write_data(entry).map_err(|_| CaseFault::BadOption("data"))?;
    }
    Ok(host)
}

fn agents(option: &Value) -> Result<AgentsPlayed, CaseFault> {
    let Value::Array(connectors) = option else {
        let is_none = option.is_string();
        return Ok(if is_none { AgentsPlayed::new(Vec::new()) } else { AgentsPlayed::standard() });
    };
    let connector = |entry: &Value| {
        let has = |flag: &str| entry[2][flag] == true;
        let flags = AgentFlags {
            deliver_fails: has("deliver_fails"),
            wake_fails: has("wake_fails"),
            list_fails: has("list_fails"),
            skips: has("skip"),
            warns: has("warn"),
            answers: has("answers"),
            stays_silent: has("stays_silent"),
        };
        let agents = texts(&entry[1], "agents")?.unwrap_or_default();
        let name = entry[0].as_str().ok_or(CaseFault::BadOption("agents"))?.into();
        Ok::<_, CaseFault>(AgentDouble { name, agents, flags })
    };
    Ok(AgentsPlayed::new(connectors.iter().map(connector).collect::<Result<_, _>>()?))
}

pub fn context(host: &StandardHost, options: &Value, source: &str) -> Result<RunContext, CaseFault> {
    let shared = |name: &str| options[name].as_str().map(Arc::from);
    let shell_programs = match &options["shell_allowlist"] {
        Value::Null => Some(PROGRAMS.iter().map(|program| (*program).to_owned()).collect()),
        listed => texts(listed, "shell_allowlist")?.map(|programs| programs.into_iter().collect()),
    };
    let mut policy = RunPolicy {
        shell_programs,
        allows_unsafe_shell: options["unsafe"] == true,
        is_secured: options["secured"] == true,
        max_duration: options["max_deadline_ms"].as_u64().map(Duration::from_millis),
        ..RunPolicy::default()
    };
    if let Some(depth) = options["max_recursion"].as_u64() {
        policy.max_depth = usize::try_from(depth).map_err(|_| CaseFault::BadOption("max_recursion"))?;
    }
    let trigger = options["trigger"].as_object().map(|trigger| RunTrigger {
        source: trigger.get("source").and_then(Value::as_str).unwrap_or_default().into(),
        name: trigger.get("name").and_then(Value::as_str).unwrap_or_default().into(),
        fired_at_ms: host.unix_millis(),
        trigger_id: None,
    });
    Ok(RunContext {
        policy: Arc::new(policy),
        owner: shared("agent_id"),
        caller: shared("caller"),
        trigger,
        is_mechanical: options["mechanical"] == true,
        has_authority: matches!(host.check_approval(source), ApprovalVerdict::Approved { .. }),
        is_traced: true,
        ..RunContext::default()
    })
}
