//! The recorded transcripts of the reference runtime's `/rpc` (`mcp-wire.json`), and the part of `host-http.json` that is
//! about it.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::ToolClient;
use crate::test_server::TestServer;

/// What is compared otherwise than recorded, with the section that says so.
const OUR_RULE: &[&str] = &[
    "5.4: server information, instructions, descriptions, the text of help and of errors of tools are ours",
    "5.4: runtime_capabilities has the recorded keys and shapes over our own connectors",
    "5.4: without a label, the name of the client is the author, not the user of the operating system",
    "1.6: an output for an agent that nobody knows has a record with an error",
    "17: the text form of a compiled skill is compared with the vectors of the language",
    "18: findings have no extras",
];

fn recorded(name: &str) -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")), PathBuf::from);
    let file = folder.join("skills/contracts").join(name);
    serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap()
}

/// Whether these are the vectors of this project. Other folders may hold fewer exchanges.
fn is_own_folder() -> bool {
    std::env::var_os("POSTHOUSE_VECTORS").is_none()
}

/// A server whose tenant keeps its skills in a folder.
fn server() -> (TestServer, ToolClient) {
    let dir = tempfile::tempdir().unwrap();
    let roots = dir.path().join("shelves");
    std::fs::create_dir_all(roots.join("acme")).unwrap();
    let folder = dir.path().join("house");
    let roots = roots.display().to_string();
    let server = TestServer::open_at(dir, folder, &[("POSTHOUSE_WORKSHOP__ROOTS", &roots)]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["tenant", "change", "acme", "--skill-store", &format!("filesystem:{roots}/acme")]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    (server, client)
}

/// Replaces what is not the same in two runs: times, tokens, and who the caller is.
fn tamed(value: &Value, own: &str) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| tamed(item, own)).collect(),
        Value::Object(members) => {
            let tame = |(name, value): (&String, &Value)| {
                let value = match (name.as_str(), value) {
                    (
                        "changed_at" | "created_at" | "updated_at" | "registeredAt" | "delivered_at"
                        | "windowStart_ms" | "windowEnd_ms",
                        Value::Number(_),
                    ) => json!(0),
                    ("message" | "remediation", Value::String(_)) => json!("<text>"),
                    ("changed_by", Value::String(author)) if author == own => json!("<os-user>"),
                    // A record says why nothing was delivered, in other words.
                    ("agent_delivery_receipts", Value::Array(records)) => records
                        .iter()
                        .map(|record| json!({ "agent_id": record["agent_id"], "output_kind": record["output_kind"] }))
                        .collect(),
                    ("errors", Value::Array(errors)) => errors
                        .iter()
                        .map(|error| if error.is_string() { json!("<text>") } else { tamed(error, own) })
                        .collect(),
                    ("catalog_version", Value::String(_)) => json!("<token>"),
                    ("author", Value::String(author)) if author == own => json!("<os-user>"),
                    (_, value) => tamed(value, own),
                };
                (name.clone(), value)
            };
            let members = members.iter().filter(|(name, _)| *name != "extras");
            Value::Object(members.map(tame).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The kinds of the values, and for objects their keys.
fn shape(value: &Value) -> Value {
    match value {
        Value::Null => json!("null"),
        Value::Bool(_) => json!("bool"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(_) => json!("list"),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_mcp_wire_are_answered_as_recorded() {
    let (_server, client) = server();
    let (mut compared, mut token) = (0, String::new());
    for exchange in recorded("mcp-wire.json")["exchanges"].as_array().unwrap() {
        let mut request = exchange["request"].clone();
        let tool = request["params"]["name"].as_str().unwrap_or_default().to_owned();
        if request["params"]["arguments"].get("if_none_match").is_some() {
            request["params"]["arguments"]["if_none_match"] = token.clone().into();
        }
        let headers: Vec<(String, String)> = exchange["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
            .collect();
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (status, kind, body) = client.post("/rpc", &headers, &request.to_string()).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        let label = format!("{request}\n{answer}");
        assert_eq!((status, kind.as_str()), (200, "application/json; charset=utf-8"), "{label}");
        assert_eq!(answer["id"], request.get("id").cloned().unwrap_or_default(), "{label}");
        compared += 1;
        if let Some(error) = exchange.get("error") {
            assert_eq!(answer["error"]["code"], error["code"], "{label}");
            // The protocol's own messages, and that of a missing skill, are part of the contract.
            let message = error["message"].as_str().unwrap();
            if tool.is_empty() || tool == "no_such_tool" || message.starts_with("Skill not found") {
                assert_eq!(answer["error"]["message"], message, "{label}");
            }
        } else if let Some(tools) = exchange.get("tools") {
            let listed: Vec<Value> =
                answer["result"]["tools"].as_array().unwrap().iter().map(summary).collect();
            let expected: Vec<Value> = tools.as_array().unwrap().iter().map(sorted).collect();
            assert_eq!(listed, expected);
        } else if let Some(result) = exchange.get("result") {
            assert_eq!(shape(&answer["result"]), shape(result), "{label}");
            assert_eq!(answer["result"]["protocolVersion"], result["protocolVersion"]);
        } else {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{label}"));
            let result: Value = serde_json::from_str(text).unwrap();
            if let Some(version) = result["catalog_version"].as_str() {
                version.clone_into(&mut token);
            }
            let expected = &exchange["result_text_json"];
            match tool.as_str() {
                "help" => {
                    let keys: Vec<&Value> = expected["keys"].as_array().unwrap().iter().collect();
                    assert_eq!(result.as_object().unwrap().len(), keys.len(), "{label}");
                    assert!(keys.iter().all(|key| result.get(key.as_str().unwrap()).is_some()), "{label}");
                }
                "runtime_capabilities" => {
                    let keys = |value: &Value| -> Vec<String> {
                        value.as_object().unwrap().keys().cloned().collect()
                    };
                    assert_eq!(keys(&result), keys(expected), "{label}");
                    for part in ["skillStores", "dataStores", "mcpConnectors"] {
                        if expected.get(part).is_some() {
                            assert_eq!(keys(&result[part][0]), keys(&expected[part][0]), "{part}");
                            assert_eq!(
                                shape(&result[part][0]["features"]),
                                shape(&expected[part][0]["features"])
                            );
                        }
                    }
                }
                _ => {
                    let mut expected = tamed(expected, "-");
                    if expected["catalog_version"] == "<same token>" {
                        expected["catalog_version"] = "<token>".into();
                    }
                    assert_eq!(tamed(&result, &client.id), tamed(&expected, "-"), "{label}");
                }
            }
        }
    }
    assert!(compared > if is_own_folder() { 50 } else { 0 }, "{compared} compared");
    println!("{compared} exchanges compared; by our rule: {OUR_RULE:#?}");
}

/// A tool as the transcript shows it.
fn summary(tool: &Value) -> Value {
    let schema = &tool["inputSchema"];
    let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let required = schema.get("required").cloned().unwrap_or_else(|| json!([]));
    sorted(&json!({ "name": tool["name"], "required": required, "properties": properties }))
}

/// The order of properties means nothing.
fn sorted(tool: &Value) -> Value {
    let mut tool = tool.clone();
    for list in ["required", "properties"] {
        let mut names: Vec<String> = serde_json::from_value(tool[list].take()).unwrap();
        names.sort();
        tool[list] = json!(names);
    }
    tool
}

/// The skill whose event the recorded requests name.
const ALERTER: &str = "# Skill: alerter\n# Status: Approved\n# Triggers: event: Door.Open\n# Vars: WHO\n\
    go:\n    emit(text=\"door ${WHO}\")\ndefault: go\n";

#[tokio::test(flavor = "multi_thread")]
async fn vectors_host_http_of_rpc_and_events_are_answered_as_recorded() {
    let (_server, client) = server();
    let written = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "skill_write", "arguments": { "name": "alerter", "source": ALERTER },
    } });
    client.post("/rpc", &[], &written.to_string()).await;
    let (mut compared, mut others) = (0, Vec::new());
    for case in recorded("host-http.json").as_array().unwrap() {
        let text = |name: &str| case[name].as_str().unwrap_or_default();
        if !["/rpc", "/event"].contains(&text("path")) {
            others.push(format!("{} {}", text("method"), text("path")));
            continue;
        }
        compared += 1;
        let http = reqwest::Client::new();
        let method = text("method").parse().unwrap();
        let mut request = http.request(method, format!("{}{}", client.url, text("path")));
        // The recorded token is that of the reference runtime; a credential of ours takes its place.
        if text("path") == "/rpc" || !case["headers"]["authorization"].is_null() {
            request = request.basic_auth(&client.id, Some(&client.secret));
        }
        let response = request.body(text("body").to_owned()).send().await.unwrap();
        assert_eq!(u64::from(response.status().as_u16()), case["status"].as_u64().unwrap(), "{case}");
        let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        assert_eq!(json!(kind), case["content_type"], "{case}");
        let body = response.text().await.unwrap();
        let body = serde_json::from_str::<Value>(&body).unwrap_or_else(|_| body.into());
        assert_eq!(event_answer(&body), event_answer(&case["response"]), "{case}");
    }
    others.dedup();
    assert!(compared >= if is_own_folder() { 10 } else { 1 }, "{compared}");
    println!("not served (5.5): {others:?}");
}

/// An answer without what differs: the id of a run, its durability (5.5), and the words of a reason.
fn event_answer(body: &Value) -> Value {
    let mut body = body.clone();
    for (field, kept) in [("run_id", "<id>"), ("durability", "<word>"), ("reason", "<text>")] {
        if body.get(field).is_some() {
            body[field] = kept.into();
        }
    }
    body
}
