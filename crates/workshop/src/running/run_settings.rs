//! Run settings of a tenant: its tool connectors and model, and what its skills may do on the server's machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skill::{RunPolicy, TraceMode};

use crate::config::Config;

/// Members of connectors whose values are shown. Any other may be a key: servers name theirs as they like.
const SHOWN: &[&str] = &[
    "class",
    "type",
    "module",
    "allowed_tools",
    "endpoint",
    "baseUrl",
    "command",
    "framing",
    "identityHeader",
    "clientName",
    "clientVersion",
    "protocolVersion",
    "defaultModelTag",
    "skill_store",
    "data_store",
    "local_model",
    "agent_connector",
];
const HIDDEN_VALUE: &str = "[hidden]";
/// Longest time of a run that an operator may set: a day.
const LONGEST_RUN: u64 = 24 * 3600;
const MOST_RUNS: u32 = 1000;
/// Longest jitter that an operator may set: an hour.
const LONGEST_JITTER: u64 = 3600;

/// The settings. They may hold secrets, so they are stored sealed and cannot be printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// `connectors.json` of the reference runtime. `${NAME}` is a secret of the tenant.
    pub connectors: Map<String, Value>,
    /// Programs that `shell` may start, by their exact name. Default none.
    pub shell_programs: Vec<String>,
    /// Whether commands may be handed to `bash -c`. `bash` must also be in `shell_programs`. Default no.
    pub unsafe_shell: bool,
    /// Folders below which `file_read` and `file_write` work. Default none.
    pub file_roots: Vec<PathBuf>,
    /// Whether tool connectors may be child processes. Default no.
    pub child_processes: bool,
    /// The longest time of one run in seconds. Default 3600.
    pub max_run_seconds: u64,
    /// Runs of the tenant at once. Default 64.
    pub runs_at_once: u32,
    /// Which runs record their operations: `on`, `off`, or a share such as `10%`. Default `on`.
    pub trace: String,
    /// What happens to a scheduled run whose time passed while the server was down: `run_once` or `skip`. Default
    /// `run_once`.
    pub missed_runs: MissedRuns,
    /// Scheduled runs begin up to this many seconds after their time, so that not all begin at once. Default 0.
    pub jitter_seconds: u64,
}

/// What happens to scheduled runs whose time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// However many times were missed, the skill runs once.
    RunOnce,
    /// The skill runs at the next time.
    Skip,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            connectors: Map::new(),
            shell_programs: Vec::new(),
            unsafe_shell: false,
            file_roots: Vec::new(),
            child_processes: false,
            max_run_seconds: 3600,
            runs_at_once: 64,
            trace: "on".to_owned(),
            missed_runs: MissedRuns::RunOnce,
            jitter_seconds: 0,
        }
    }
}

impl RunSettings {
    /// Checks the settings against what the server's configuration allows at all.
    pub fn check(&self, config: &Config) -> Result<(), String> {
        let runs_programs = !self.shell_programs.is_empty() || self.unsafe_shell || self.child_processes;
        if runs_programs && !config.run_commands {
            return Err(
                "commands and child processes need `workshop.run_commands = true` in the configuration of \
                the server"
                    .to_owned(),
            );
        }
        if let Some(root) = self.file_roots.iter().find(|root| !is_below(root, &config.file_roots)) {
            return Err(format!("{} is not below a folder of `workshop.file_roots`", root.display()));
        }
        if !(1..=LONGEST_RUN).contains(&self.max_run_seconds) {
            return Err(format!("`max_run_seconds` must be between 1 and {LONGEST_RUN}"));
        }
        if !(1..=MOST_RUNS).contains(&self.runs_at_once) {
            return Err(format!("`runs_at_once` must be between 1 and {MOST_RUNS}"));
        }
        if self.jitter_seconds > LONGEST_JITTER {
            return Err(format!("`jitter_seconds` must be at most {LONGEST_JITTER}"));
        }
        self.trace_mode().map(drop).ok_or_else(|| "`trace` must be on, off or a share such as 10%".to_owned())
    }

    /// The settings as far as the configuration of the server allows them now. It may have become stricter.
    pub fn allowed_by(mut self, config: &Config) -> Self {
        if !config.run_commands {
            self.shell_programs.clear();
            self.unsafe_shell = false;
            self.child_processes = false;
        }
        self.file_roots.retain(|root| is_below(root, &config.file_roots));
        self
    }

    pub fn policy(&self) -> RunPolicy {
        RunPolicy {
            max_duration: Some(Duration::from_secs(self.max_run_seconds.clamp(1, LONGEST_RUN))),
            shell_programs: Some(self.shell_programs.clone()),
            allows_unsafe_shell: self.unsafe_shell,
            ..RunPolicy::default()
        }
    }

    /// `None` if the text cannot be read.
    pub fn trace_mode(&self) -> Option<TraceMode> {
        match self.trace.as_str() {
            "on" => Some(TraceMode::On),
            "off" => Some(TraceMode::Off),
            share => {
                let percent: u8 = share.strip_suffix('%')?.parse().ok()?;
                (percent <= 100).then_some(TraceMode::Sample(percent))
            }
        }
    }

    /// The settings as JSON, without the values that may be secrets.
    pub fn shown(&self) -> Value {
        let mut shown = serde_json::to_value(self).unwrap_or_default();
        if let Some(connectors) = shown.get_mut("connectors") {
            hide(connectors, false);
        }
        shown
    }
}

/// Whether a path is an absolute one below one of these folders. A path with `..` is not.
fn is_below(path: &Path, roots: &[PathBuf]) -> bool {
    let is_plain =
        path.is_absolute() && !path.components().any(|part| matches!(part, std::path::Component::ParentDir));
    is_plain && roots.iter().any(|root| path.starts_with(root))
}

/// Hides texts and numbers, except where `is_shown`. A text that only names a secret stays.
fn hide(value: &mut Value, is_shown: bool) {
    match value {
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, value)| hide(value, SHOWN.contains(&name.as_str())));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, is_shown)),
        Value::String(text) if is_shown => hide_query(text),
        Value::String(text) if is_variable(text) => {}
        Value::String(_) | Value::Number(_) => *value = HIDDEN_VALUE.into(),
        _ => {}
    }
}

/// The query of a URL is where some servers expect a key.
fn hide_query(text: &mut String) {
    if let Some(at) = text.find('?').filter(|_| text.contains("://")) {
        text.truncate(at + 1);
        text.push_str(HIDDEN_VALUE);
    }
}

/// Whether a text is `${NAME}` and nothing else.
fn is_variable(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(value: Value) -> RunSettings {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_the_configuration_of_the_server_does_not_allow_is_refused_and_ignored() {
        let strict = Config::default();
        let open = Config { run_commands: true, file_roots: vec!["/srv/skills".into()], ..Config::default() };
        for refused in [
            json!({ "shell_programs": ["git"] }),
            json!({ "unsafe_shell": true }),
            json!({ "child_processes": true }),
            json!({ "file_roots": ["/srv/skills/acme"] }),
        ] {
            let settings = settings(refused.clone());
            assert!(settings.check(&strict).is_err(), "{refused}");
            assert!(settings.check(&open).is_ok(), "{refused}");
            let kept = settings.allowed_by(&strict);
            assert!(kept.shell_programs.is_empty() && !kept.unsafe_shell && !kept.child_processes);
            assert!(kept.file_roots.is_empty());
        }
        for outside in ["/srv", "/srv/skills/../etc", "skills"] {
            assert!(settings(json!({ "file_roots": [outside] })).check(&open).is_err(), "{outside}");
        }
    }

    #[test]
    fn settings_are_shown_without_the_values_of_headers_and_keys() {
        let settings = settings(json!({ "connectors": {
            "svc": { "class": "HttpMcpConnector", "config": {
                "endpoint": "https://h/mcp", "headers": { "Authorization": "Bearer s3cret", "X": "${TOKEN}" },
                "token": "s3cret", "tokens": ["s3cret", { "class": "m" }], "X": "${TOKEN}s3cret${TOKEN}",
            }, "allowed_tools": ["echo"], "_note": "the s3cret" },
            "other": { "class": "HttpMcpConnector", "config": { "endpoint": "https://h/mcp?key=s3cret" } },
            "substrate": { "local_model": { "type": "openai", "config": { "apiKey": "sk-s3cret" } },
                "data_store": "sqlite" },
        } }));
        let shown = settings.shown();
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        assert_eq!(shown["connectors"]["svc"]["config"]["headers"]["X"], "${TOKEN}");
        assert_eq!(shown["connectors"]["svc"]["config"]["endpoint"], "https://h/mcp");
        assert_eq!(shown["connectors"]["svc"]["allowed_tools"][0], "echo");
        assert_eq!(shown["connectors"]["other"]["config"]["endpoint"], "https://h/mcp?[hidden]");
        assert_eq!(shown["connectors"]["substrate"]["data_store"], "sqlite");
    }

    #[test]
    fn a_share_of_traced_runs_is_a_percentage() {
        let mode = |trace: &str| settings(json!({ "trace": trace })).trace_mode();
        assert_eq!(mode("off"), Some(TraceMode::Off));
        assert_eq!(mode("10%"), Some(TraceMode::Sample(10)));
        assert_eq!(mode("101%"), None);
        assert_eq!(mode("some"), None);
    }
}
