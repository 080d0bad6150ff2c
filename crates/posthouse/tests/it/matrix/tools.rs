//! Permission matrix of the tools: every tool that names something, at both surfaces, with every wrong credential.

use std::time::Duration;

use serde_json::{Value, json};

use super::actors::{Actors, Owner, RecordedResponse};
use super::{Cells, Name};
use crate::talk::PATIENCE;

const SKILL: &str = "# Skill: tide-watch\n# Status: Approved\n# Triggers: event: tide.falls\ngo:\n    emit(text=\"low\")\ndefault: go\n";

/// A call of a tool that names an object.
struct ToolAsk {
    path: &'static str,
    tool: &'static str,
    name: Name,
    arguments: fn(&str) -> Value,
    /// Whether another tenant gets the answer for an absent object.
    is_refused: fn(&Value) -> bool,
}

/// Tools whose calls name nothing of a tenant, or write into the caller's own tenant only.
const OWN: &[&str] = &[
    "help",
    "runtime_capabilities",
    "skill_write",
    "data_write",
    "skill_list",
    "list_triggers",
    "health_metrics",
    "blocked_shell_attempts",
];

fn is_error(answer: &Value) -> bool {
    answer["error"].is_object()
}

fn text(answer: &Value) -> Value {
    answer["result"]["content"][0]["text"]
        .as_str()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// Words of acme's that no list of another tenant may contain.
const WORDS_OF_ACME: [&str; 4] = ["tide of acme", "tide-watch", "tide.falls", "tide.turns"];

/// Acme's newest trigger, and the trigger of umbrella.
struct KeptTriggers {
    acme: Name,
    umbrella: String,
}

/// Registers triggers for both tenants. Numbers are per tenant, so acme gets more of them: its newest has a number that
/// umbrella has not.
async fn register_triggers(actors: &Actors) -> KeptTriggers {
    let tool = |owner: &Owner, tool: &str, arguments: Value| {
        let (owner, call) = (owner.clone(), call(tool, &arguments));
        async move { text(&message(&actors.asks(&owner, "POST", "/rpc", Some(&call), None).await)) }
    };
    let source = "# Skill: theirs\n# Status: Approved\ngo:\n    emit(text=\"x\")\ndefault: go\n";
    tool(&actors.umbrella, "skill_write", json!({ "name": "theirs", "source": source })).await;
    let register = |skill: &str, name: &str| json!({ "skill_name": skill, "source": "event", "name": name });
    let registered = tool(&actors.umbrella, "register_trigger", register("theirs", "their.event")).await;
    let umbrella = registered["id"].as_str().unwrap_or_else(|| panic!("{registered}")).to_owned();
    // The first one of acme comes with its skill.
    let registered = tool(&actors.acme, "register_trigger", register("tide-watch", "tide.turns")).await;
    let acme = registered["id"].as_str().unwrap_or_else(|| panic!("{registered}")).to_owned();
    assert!(acme.len() == umbrella.len() && acme > umbrella, "{acme} {umbrella}");
    KeptTriggers { acme: Name::new(&acme, "trig-9"), umbrella }
}

/// Both are there and enabled.
async fn triggers_are_undisturbed(actors: &Actors, kept: &KeptTriggers) {
    for (owner, id, skill) in
        [(&actors.acme, &kept.acme.there, "tide-watch"), (&actors.umbrella, &kept.umbrella, "theirs")]
    {
        let listed = actors.asks(owner, "POST", "/rpc", Some(&call("list_triggers", &json!({}))), None).await;
        let listed = text(&message(&listed));
        let found = listed.as_array().unwrap().iter().find(|trigger| trigger["id"] == id.as_str());
        let found = found.unwrap_or_else(|| panic!("{id} of {} is not in {listed}", owner.who));
        assert_eq!((&found["enabled"], &found["skillName"]), (&json!(true), &json!(skill)), "{}", owner.who);
    }
}

fn asks(actors: &Actors, data: &Name, trigger: &Name) -> Vec<ToolAsk> {
    let skill = Name::new("tide-watch", "tide-witch");
    let ask = |path, tool, name: &Name, arguments, is_refused| ToolAsk {
        path,
        tool,
        name: name.clone(),
        arguments,
        is_refused,
    };
    let mut asks = Vec::new();
    for path in ["/mcp", "/rpc"] {
        asks.push(ask(path, "skill_read", &skill, |name| json!({ "name": name }), is_error));
        asks.push(ask(
            path,
            "skill_status",
            &skill,
            |name| json!({ "name": name, "new_state": "Disabled" }),
            is_error,
        ));
        let is_missing = |answer: &Value| text(answer)["errors"][0]["class"] == "SkillNotFoundError";
        asks.push(ask(path, "execute_skill", &skill, |name| json!({ "name": name }), is_missing));
        for tool in ["lint_skill", "compile_skill", "skill_preflight"] {
            asks.push(ask(path, tool, &skill, |name| json!({ "name": name }), is_error));
        }
        asks.push(ask(
            path,
            "register_trigger",
            &skill,
            |name| json!({ "skill_name": name, "source": "event", "name": "tide.turns" }),
            is_error,
        ));
        // An agent may not change any trigger, whether it is there or not.
        let is_not_removed = |answer: &Value| is_error(answer) || text(answer)["removed"] == json!(false);
        asks.push(ask(path, "unregister_trigger", trigger, |id| json!({ "trigger_id": id }), is_not_removed));
        let is_null = |answer: &Value| answer["result"]["content"][0]["text"] == "null";
        asks.push(ask(
            path,
            "set_trigger_enabled",
            trigger,
            |id| json!({ "trigger_id": id, "enabled": false }),
            |answer| is_error(answer) || answer["result"]["content"][0]["text"] == "null",
        ));
        asks.push(ask(path, "data_read", data, |id| json!({ "id": id }), is_null));
    }
    for name in [&actors.agent, &actors.instance, &actors.alias, &actors.wired] {
        asks.push(ask("/mcp", "agent_list", name, |name| json!({ "agent": name }), is_error));
        let nobody = |answer: &Value| text(answer)["dispatched"] == json!([]);
        asks.push(ask("/mcp", "notify", name, |name| json!({ "agent": name, "message": "psst" }), nobody));
        asks.push(ask("/mcp", "wake", name, |name| json!({ "agent": name }), is_error));
        asks.push(ask(
            "/mcp",
            "ask",
            name,
            |name| json!({ "agent": name, "message": "psst", "correlation_id": "q-probe", "wait": 0 }),
            is_error,
        ));
    }
    asks
}

fn call(tool: &str, arguments: &Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params })
}

/// The message of a response, whatever its framing is.
fn message(heard: &RecordedResponse) -> Value {
    let line = heard.body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&heard.body);
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", heard.whole()))
}

/// An answer without the ids and times that every call gets anew.
fn tamed(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tamed),
        Value::Object(members) => {
            members.retain(|name, _| !matches!(name.as_str(), "dispatch_id" | "woken_at" | "deadline"));
            members.values_mut().for_each(tamed);
        }
        Value::String(text) => {
            if let Ok(mut inner @ Value::Object(_)) = serde_json::from_str(text) {
                tamed(&mut inner);
                *text = inner.to_string();
            }
        }
        _ => {}
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    every_tool_is_covered(actors).await;
    let ours = |tool: &'static str, arguments: Value| async move {
        message(&actors.asks(&actors.acme, "POST", "/rpc", Some(&call(tool, &arguments)), None).await)
    };
    let written = ours("skill_write", json!({ "name": "tide-watch", "source": SKILL })).await;
    assert_eq!(text(&written)["status"], "Approved", "{written}");
    let entry = call("data_write", &json!({ "content": "the tide of acme" }));
    let written = message(&actors.asks(&actors.acme, "POST", "/mcp", Some(&entry), None).await);
    let data = Name::of_id(text(&written)["id"].as_str().unwrap());
    let triggers = register_triggers(actors).await;
    // A run, which counts in the metrics of acme alone.
    let sent = actors.asks(&actors.acme, "POST", "/v1/events/tide.falls", Some(&json!({})), None).await;
    assert_eq!(sent.status, 202, "{}", sent.whole());
    let counted = async {
        while !ours("health_metrics", json!({})).await.to_string().contains("tide-watch") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counted).await.expect("the run was not counted");
    for ask in &asks(actors, &data, &triggers.acme) {
        for owner in actors.other_tenants.iter().chain(&actors.revoked).chain(&actors.unknown) {
            cell(actors, cells, ask, owner).await;
        }
    }
    sessions(actors, cells).await;
    approval(actors, cells).await;
    triggers_are_undisturbed(actors, &triggers).await;
    lists_of_others(actors).await;
    // A list, a search and an overwrite by another tenant are about its own things.
    for owner in &actors.other_tenants {
        for (tool, arguments) in [
            ("skill_list", json!({ "filter": { "audience": "all" } })),
            ("skill_list", json!({ "filter": { "status": "Disabled" } })),
            ("data_read", json!({ "query": "tide" })),
            ("skill_write", json!({ "name": "tide-watch", "source": "theirs", "overwrite": true })),
        ] {
            let heard = actors.asks(owner, "POST", "/mcp", Some(&call(tool, &arguments)), None).await;
            assert!(!heard.body.contains("tide of acme") && !heard.body.contains("low"), "{}", heard.whole());
        }
    }
    let kept = text(&ours("skill_read", json!({ "name": "tide-watch" })).await);
    assert_eq!((&kept["source"], &kept["status"]), (&json!(SKILL), &json!("Approved")));
}

/// Every listed tool names nothing, writes into the caller's tenant, or has a row.
async fn every_tool_is_covered(actors: &Actors) {
    let data = Name::new("a", "b");
    let rows = asks(actors, &data, &Name::new("a", "b"));
    for path in ["/mcp", "/rpc"] {
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let listed = message(&actors.asks(&actors.acme, "POST", path, Some(&list), None).await);
        for tool in listed["result"]["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let has_row = rows.iter().any(|row| row.path == path && row.tool == name);
            assert!(has_row || OWN.contains(&name), "{path} {name} has no row");
        }
    }
}

/// Tools that name nothing answer another tenant without anything of acme's.
async fn lists_of_others(actors: &Actors) {
    let contains = |heard: &RecordedResponse| WORDS_OF_ACME.iter().any(|word| heard.body.contains(word));
    let tools =
        ["list_triggers", "health_metrics", "blocked_shell_attempts", "skill_list", "runtime_capabilities"];
    for tool in tools {
        let ours = actors.asks(&actors.acme, "POST", "/rpc", Some(&call(tool, &json!({}))), None).await;
        if ["list_triggers", "health_metrics"].contains(&tool) {
            assert!(contains(&ours), "{tool} was meant to show something to acme: {}", ours.whole());
        }
        for owner in &actors.other_tenants {
            for path in ["/mcp", "/rpc"] {
                let heard = actors.asks(owner, "POST", path, Some(&call(tool, &json!({}))), None).await;
                assert!(!contains(&heard), "{path} {tool} by {}: {}", owner.who, heard.whole());
            }
        }
    }
}

async fn cell(actors: &Actors, cells: &mut Cells, ask: &ToolAsk, owner: &Owner) {
    let (mut heard, mut refused) = (Vec::new(), true);
    let is = |list: &[Owner]| list.iter().any(|known| known.who == owner.who);
    for is_there in [true, false] {
        let body = call(ask.tool, &(ask.arguments)(ask.name.form(is_there)));
        let answer = actors.asks(owner, "POST", ask.path, Some(&body), None).await;
        refused &= if is(&actors.revoked) || is(&actors.unknown) {
            answer.status == 401
        } else if owner.who.ends_with("in heron's name") && !owner.who.contains("program") {
            answer.status == 403
        } else {
            answer.status == 200 && (ask.is_refused)(&message(&answer))
        };
        let mut told = if answer.status == 200 { message(&answer) } else { json!(answer.whole()) };
        tamed(&mut told);
        heard.push(ask.name.without(is_there, &format!("{} {told}", answer.status)));
    }
    let what = format!("{} {} {} by {}", ask.path, ask.tool, ask.name.there, owner.who);
    cells.cell("tools", &what, refused, &heard[0], &heard[1]);
}

/// A session is of no use to anybody else, and cannot be ended.
async fn sessions(actors: &Actors, cells: &mut Cells) {
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    let begun = actors.asks(&actors.acme, "POST", "/mcp", Some(&initialize), None).await.whole();
    let id = begun.split("mcp-session-id: ").nth(1).and_then(|rest| rest.get(..32)).unwrap();
    let name = Name::of_id(id);
    for owner in actors
        .other_tenants
        .iter()
        .chain(&actors.revoked)
        .chain(&actors.unknown)
        .chain(&actors.other_instances)
    {
        for method in ["POST", "DELETE"] {
            let mut heard = Vec::new();
            for is_there in [true, false] {
                let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
                let mut request =
                    super::doors::DoorRequest::to("/mcp").with("mcp-session-id", name.form(is_there));
                if method == "POST" {
                    request = request.json(&list);
                }
                heard.push(actors.sends(&super::doors::WrongCaller::from(owner), method, &request).await);
            }
            let refused = heard.iter().all(|answer| matches!(answer.status, 401 | 403 | 404));
            let what = format!("{method} /mcp in a session of acme by {}", owner.who);
            cells.cell("tools", &what, refused, &heard[0].whole(), &heard[1].whole());
        }
    }
}

/// An agent approves nothing, whether it is there or not.
async fn approval(actors: &Actors, cells: &mut Cells) {
    let name = Name::new("tide-watch", "tide-witch");
    for owner in &actors.other_instances {
        for path in ["/mcp", "/rpc"] {
            let mut heard = Vec::new();
            for is_there in [true, false] {
                let arguments = json!({ "name": name.form(is_there), "new_state": "Approved" });
                let answer =
                    actors.asks(owner, "POST", path, Some(&call("skill_status", &arguments)), None).await;
                heard.push((answer.status, name.without(is_there, &answer.body)));
            }
            let refused = heard[0].0 == 403 || heard[0].1.contains("ApprovalRejectedError");
            let what = format!("{path} skill_status Approved by {}", owner.who);
            cells.cell("tools", &what, refused, &heard[0].1, &heard[1].1);
        }
    }
}
