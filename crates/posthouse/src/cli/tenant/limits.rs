//! The limits of a tenant on the command line.

use std::str::FromStr;

use clap::Args;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// Limits per minute, and of sockets.
#[derive(Args, Serialize)]
#[group(skip)]
pub struct LimitArgs {
    /// Messages per minute to all agents of the tenant, or `default` for the server's setting
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_per_minute: Option<LimitArg>,
    /// Messages per minute to one agent, or `default`
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_messages_per_minute: Option<LimitArg>,
    /// Open sockets of all agents, or `default`
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    sockets: Option<LimitArg>,
    /// Open sockets of one agent, or `default`; an agent that reconnects needs two for a moment
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_sockets: Option<LimitArg>,
    /// Actions per minute of all agents, or `default`; `typing` counts as a tenth
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    actions_per_minute: Option<LimitArg>,
    /// Actions per minute of one agent, or `default`
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_actions_per_minute: Option<LimitArg>,
    /// HTTP requests per minute of all gateways to /relay and /manage, or `default`
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_minute: Option<LimitArg>,
    /// HTTP requests per minute of the gateways of one agent, or `default`
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_requests_per_minute: Option<LimitArg>,
    /// HTTP requests per minute of all programs to /v1, or `default`
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    program_requests_per_minute: Option<LimitArg>,
    /// HTTP requests per minute of programs with the credential of one agent, or `default`
    #[arg(long, value_name = "N", group = "what")]
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_program_requests_per_minute: Option<LimitArg>,
}

impl LimitArgs {
    /// The names of the limits that are given.
    pub fn names(&self) -> Vec<String> {
        match json!(self) {
            Value::Object(given) => given.into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        }
    }
}

/// A limit of a tenant.
#[derive(Clone, Copy)]
pub enum LimitArg {
    Own(u32),
    Default,
}

impl Serialize for LimitArg {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            LimitArg::Own(value) => to.serialize_u32(*value),
            LimitArg::Default => to.serialize_str("default"),
        }
    }
}

impl FromStr for LimitArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "default" => Ok(Self::Default),
            Ok(value) => Ok(Self::Own(value)),
            Err(_) => Err("use a whole number, or `default`".to_owned()),
        }
    }
}

/// One line about a limit: its value, where it comes from, and what is used of it.
fn line(limit: &Value) -> String {
    let from = if limit["from"] == "tenant" { "set for this tenant" } else { "default" };
    match &limit["used"] {
        Value::Null => format!("{} ({from})", limit["limit"]),
        used => format!("{} ({from}), {used} in use", limit["limit"]),
    }
}

/// A shown tenant with a line for each limit, and the titles of the lines.
pub fn with_rows(mut shown: Value) -> (Value, Vec<(String, String)>) {
    let Some(limits) = shown["limits"].as_object().cloned() else { return (shown, Vec::new()) };
    let mut rows = Vec::new();
    for (name, limit) in limits {
        let key = format!("limits.{name}");
        shown[&key] = json!(line(&limit));
        rows.push((name.replace('_', " "), key));
    }
    (shown, rows)
}

/// A line for each limit with one of these names.
pub fn lines(shown: &Value, names: &[String]) -> impl Iterator<Item = String> {
    names.iter().map(|name| format!("{}: {}", name.replace('_', " "), line(&shown["limits"][name])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_whole_number_or_the_word_default() {
        let sent = |text: &str| text.parse::<LimitArg>().map(|limit| json!(limit));
        assert_eq!((sent("0"), sent("4294967295")), (Ok(json!(0)), Ok(json!(u32::MAX))));
        assert_eq!(sent("default"), Ok(json!("default")));
        for wrong in ["", "-1", "1.5", "many", "4294967296"] {
            assert!(sent(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_shown_tenant_has_a_line_for_each_limit() {
        let limits = json!({
            "sockets": { "limit": 5, "from": "tenant", "used": 2 },
            "agent_sockets": { "limit": 64, "from": "default" },
        });
        let (shown, rows) = with_rows(json!({ "limits": limits }));
        let lines: Vec<(&str, &Value)> =
            rows.iter().map(|(title, name)| (title.as_str(), &shown[name])).collect();
        let expected = [
            ("agent sockets", &json!("64 (default)")),
            ("sockets", &json!("5 (set for this tenant), 2 in use")),
        ];
        assert_eq!(lines, expected);
        let names = ["agent_sockets".to_owned()];
        assert_eq!(super::lines(&shown, &names).collect::<Vec<_>>(), ["agent sockets: 64 (default)"]);
    }
}
