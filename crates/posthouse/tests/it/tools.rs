//! Tools over HTTP and over standard input and output, by the real binary: the recorded transcripts, and clients that
//! start a command.

mod rpc_vectors;
pub mod stdio;

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// A program of a tenant that calls tools.
pub struct ToolClient {
    pub url: String,
    pub id: String,
    pub secret: String,
    http: reqwest::Client,
}

impl ToolClient {
    /// The credential of the tenant, or of one of its agents.
    pub fn create(server: &TestServer, words: &[&str]) -> Self {
        crate::talk::provide_crypto();
        let made = server.does(&[&["client", "create"], words].concat());
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let (id, secret) = (text("client_id"), text("client_secret"));
        Self { url: server.url.clone(), id, secret, http: reqwest::Client::new() }
    }

    /// The status, the content type and the body of a response.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut request = self.http.post(format!("{}{path}", self.url)).body(body.to_owned());
        request = request.basic_auth(&self.id, Some(&self.secret)).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        (response.status().as_u16(), kind.unwrap_or_default(), response.text().await.unwrap())
    }

    /// The response to a call of a tool at `/mcp`.
    pub async fn mcp(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let (status, kind, body) = self.post("/mcp", &[], &body.to_string()).await;
        assert_eq!((status, kind.as_str()), (200, "text/event-stream"), "{body}");
        let data: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.len(), 1, "{body}");
        serde_json::from_str(data[0]).unwrap()
    }

    /// The parsed text of a result at `/mcp`.
    pub async fn result(&self, tool: &str, arguments: Value) -> Value {
        let response = self.mcp(tool, arguments).await;
        let text = response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"));
        serde_json::from_str(text).unwrap()
    }
}

const SKILL: &str = "# Skill: tide\n# Status: Approved\ngo:\n    emit(text=\"hi\")\ndefault: go\n";

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_that_is_listed_is_served() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    let listed = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for path in ["/mcp", "/rpc"] {
        let (_, _, body) = client.post(path, &[], listed).await;
        let line = body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
        let listed: Value = serde_json::from_str(line).unwrap();
        for tool in listed["result"]["tools"].as_array().unwrap() {
            let params = json!({ "name": tool["name"], "arguments": {} });
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            let (status, _, body) = client.post(path, &[], &call.to_string()).await;
            assert_eq!(status, 200, "{tool}");
            assert!(!body.contains("not available in this build"), "{tool} {body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_by_a_tool_is_a_draft_and_no_tool_of_mcp_approves_it() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    // A program of the tenant approves at the other surface, and an overwrite at this one takes that back.
    let call = |tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
    };
    let (_, _, written) =
        client.post("/rpc", &[], &call("skill_write", json!({ "name": "tide", "source": SKILL }))).await;
    assert!(written.contains(r#"\"status\":\"Approved\""#), "{written}");
    let again = client.mcp("skill_write", json!({ "name": "tide", "source": SKILL })).await;
    assert_eq!(again["error"]["data"]["class"], "StorageConflictError", "{again}");
    let written =
        client.result("skill_write", json!({ "name": "tide", "source": SKILL, "overwrite": true })).await;
    assert_eq!(written["status"], "Draft");
    assert_eq!(client.result("skill_read", json!({ "name": "tide" })).await["status"], "Draft");
    let refused = client.mcp("skill_status", json!({ "name": "tide", "new_state": "Approved" })).await;
    assert_eq!(refused["error"]["data"]["class"], "ApprovalRejectedError");
    let disabled = client.result("skill_status", json!({ "name": "tide", "new_state": "Disabled" })).await;
    assert_eq!((&disabled["status"], &disabled["previous_status"]), (&json!("Disabled"), &json!("Draft")));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_found_by_words_and_by_id_and_a_filter_that_nobody_knows_is_refused() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    let written =
        client.result("data_write", json!({ "content": "the tide is high\nat noon", "tags": ["sea"] })).await;
    let found =
        client.result("data_read", json!({ "query": "tide", "domain_tags": "sea", "limit": "5" })).await;
    assert_eq!(found["items"][0]["id"], written["id"]);
    assert_eq!(found["items"][0]["summary"], "the tide is high");
    let one = client.result("data_read", json!({ "id": written["id"] })).await;
    assert_eq!(one["detail"], "the tide is high\nat noon");
    assert_eq!(client.result("data_read", json!({ "id": "nothing" })).await, Value::Null);
    let refused = client.mcp("data_read", json!({ "query": "tide", "flavour": 1, "colour": 2 })).await;
    assert_eq!(refused["error"]["data"]["class"], "UnsupportedFilterError");
    assert_eq!(refused["error"]["data"]["unsupported_keys"], json!(["colour", "flavour"]));
    assert_eq!(client.mcp("data_read", json!({})).await["error"]["code"], -32602);
    // The longest content, with every byte escaped.
    let largest = "\u{1}".repeat(1024 * 1024);
    assert!(client.result("data_write", json!({ "content": largest })).await["id"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_credential_is_the_status_and_the_label_is_the_author() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let mut client = ToolClient::create(&server, &["--tenant", "acme"]);
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
    let call = |name: &str| {
        let params = json!({ "name": "skill_write", "arguments": { "name": name, "source": SKILL } });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
    };
    client.post("/mcp", &[("x-agent-id", "ann")], &call("labelled")).await;
    client.post("/mcp", &[], &call("plain")).await;
    let drafts = client.result("skill_list", json!({ "filter": { "status": "Draft" } })).await;
    let author = |at: usize| drafts["skills"][at]["author"].as_str().unwrap().to_owned();
    assert_eq!((author(0), author(1)), ("ann".to_owned(), client.id.clone()));
    let agent = ToolClient::create(&server, &["--tenant", "acme", "--agent", "heron"]);
    let (status, kind, _) = agent.post("/mcp", &[("x-agent-id", "otter")], initialize).await;
    assert_eq!((status, kind.as_str()), (403, "application/problem+json"));
    client.secret = "guess".to_owned();
    for path in ["/mcp", "/rpc"] {
        let (status, kind, _) = client.post(path, &[], initialize).await;
        assert_eq!((status, kind.as_str()), (401, "application/problem+json"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_capabilities_name_every_connector_of_the_tenant_and_none_of_another() {
    let server = TestServer::open(&[]);
    let settings = json!({ "agents": { "desk": { "url": "http://127.0.0.1:9/hook" } } }).to_string();
    let settings = server.secret_file("hooks.json", &settings);
    for (tenant, connectors) in [("acme", &["hooks", "spare"][..]), ("globex", &[])] {
        server.does(&["tenant", "create", tenant]);
        for name in connectors {
            let kind = ["--kind", if *name == "hooks" { "webhook" } else { "noop" }, "--force"];
            let settings = if *name == "hooks" { &["--settings", &settings][..] } else { &[] };
            let create = ["connector", "create", name, "--tenant", tenant];
            server.does(&[&create[..], &kind, settings].concat());
        }
        let client = ToolClient::create(&server, &["--tenant", tenant]);
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "runtime_capabilities", "arguments": { "include": ["agentConnectors"] } } });
        let (_, _, body) = client.post("/rpc", &[], &call.to_string()).await;
        let response: Value = serde_json::from_str(&body).unwrap();
        let text = response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{body}"));
        let shown: Value = serde_json::from_str(text).unwrap();
        let shown = shown["agentConnectors"].as_array().unwrap();
        let names: Vec<&str> = shown.iter().map(|connector| connector["name"].as_str().unwrap()).collect();
        assert_eq!(names, [&["relay"][..], connectors].concat());
        for connector in shown {
            assert_eq!(connector["connector_type"], "agent_connector");
            assert_eq!(connector["contract_version"], "1.0.0");
            assert_eq!(
                (&connector["manifest"], &connector["manifest_unsupported"]),
                (&Value::Null, &json!(true))
            );
            let answers = matches!(connector["name"].as_str(), Some("relay" | "hooks"));
            assert_eq!(connector["features"]["request_response"], answers, "{connector}");
        }
        assert!(!body.contains("127.0.0.1:9"), "where a connector sends is the operator's business: {body}");
    }
}
