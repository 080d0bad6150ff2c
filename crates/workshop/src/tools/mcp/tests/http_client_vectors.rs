//! The recorded requests of the reference runtime's HTTP client (`mcp-http-client.json`), and a client that reads
//! responses as it does.
//!
//! For every step the client gets our responses instead of the recorded ones. It must send the recorded requests and end
//! with the recorded result, except where this server answers by a rule of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::*;

/// Steps that end otherwise here, with the section that says so, and what is expected instead.
const OUR_RULE: &[(&str, &str)] = &[
    ("plain JSON reply is not understood", "5.4: every response is an event stream"),
    ("json-rpc error", "5.4: a tool that fails has the code -32603"),
    ("isError result is taken as success", "5.2: a failure is a JSON-RPC error, so it is raised"),
    ("500 twice", "5.2: a failure has status 200, so it is raised and not repeated"),
];

fn recorded() -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    let file = folder.join("skills/contracts/mcp-http-client.json");
    serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap()
}

/// What was sent: the method, the identity, whether there was a session, and the arguments.
type Sent = (String, Option<String>, bool, Value);

/// A client that sends and reads as the recorded one does.
struct RecordedClient {
    fixture: Fixture,
    sessions: HashMap<Option<String>, String>,
    sent: Vec<Sent>,
}

impl RecordedClient {
    async fn send(
        &mut self,
        identity: &Option<String>,
        id: Option<u32>,
        method: &str,
        params: Value,
    ) -> Heard {
        let mut body = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(id) = id {
            body["id"] = id.into();
        }
        if !params.is_null() {
            body["params"] = params.clone();
        }
        let session = self.sessions.get(identity).cloned();
        let arguments = params.get("arguments").cloned().unwrap_or_default();
        self.sent.push((method.to_owned(), identity.clone(), session.is_some(), arguments));
        let mut headers =
            vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        headers.extend(session.as_deref().map(|session| (SESSION_HEADER, session)));
        headers.extend(identity.as_deref().map(|identity| ("x-agent-id", identity)));
        let heard = self.fixture.post("runtime", &headers, body).await;
        if let Some(session) = &heard.session {
            self.sessions.insert(identity.clone(), session.clone());
        }
        heard
    }

    async fn begin(&mut self, identity: &Option<String>) {
        let info = json!({ "name": "skillscript-runtime-http-mcp", "version": "0.39.2" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
        self.sessions.remove(identity);
        let begun = self.send(identity, Some(1), "initialize", params).await;
        assert_eq!(begun.status, 200);
        self.send(identity, None, "notifications/initialized", Value::Null).await;
    }

    /// Sends a request, once more in a new session if the status asks for it. Returns the last line that is JSON.
    async fn ask(&mut self, identity: &Option<String>, method: &str, params: Value) -> Result<Value, String> {
        if !self.sessions.contains_key(identity) {
            self.begin(identity).await;
        }
        let mut heard = self.send(identity, Some(77), method, params.clone()).await;
        if heard.status >= 400 {
            self.begin(identity).await;
            heard = self.send(identity, Some(78), method, params).await;
        }
        match heard.messages.last() {
            _ if heard.status >= 400 => Err(format!("HttpMcpConnector: {} from <endpoint>", heard.status)),
            None => Err("HttpMcpConnector: empty reply from t at <endpoint>".to_owned()),
            Some(message) => match message.get("error") {
                Some(error) => Err(format!(
                    "HttpMcpConnector t error {}: {}",
                    error["code"],
                    error["message"].as_str().unwrap()
                )),
                None => Ok(message["result"].clone()),
            },
        }
    }

    async fn call_tool(&mut self, identity: &Option<String>, arguments: Value) -> Result<Value, String> {
        let params = json!({ "name": "t", "arguments": arguments });
        let result = self.ask(identity, "tools/call", params).await?;
        let text = result["content"][0]["text"].as_str().unwrap();
        let read: Value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
        // The label is not part of the recorded result.
        Ok(if read.get("a").is_some() { json!({ "a": read["a"] }) } else { read })
    }
}

fn recorded_requests(step: &Value) -> Vec<Sent> {
    let requests = step["requests"].as_array().unwrap().iter();
    let read = requests.map(|request| {
        let (headers, body) = (&request["headers"], &request["body"]);
        let identity = headers["x-agent-id"].as_str().map(str::to_owned);
        let arguments = body["params"].get("arguments").cloned().unwrap_or_default();
        (
            body["method"].as_str().unwrap().to_owned(),
            identity,
            headers.get("mcp-session-id").is_some(),
            arguments,
        )
    });
    read.collect()
}

#[tokio::test]
async fn vectors_mcp_http_client_the_reference_client_gets_what_it_understands() {
    let mut client = RecordedClient { fixture: fixture(), sessions: HashMap::new(), sent: Vec::new() };
    let mut by_rule = Vec::new();
    for step in recorded()["steps"].as_array().unwrap() {
        let label = step["label"].as_str().unwrap();
        let recorded = recorded_requests(step);
        let identity = recorded.first().and_then(|(_, identity, ..)| identity.clone());
        let ours = OUR_RULE.iter().find(|(ours, _)| *ours == label);
        client.sent.clear();
        let (result, expected) = match step["server_reply"].as_str().unwrap() {
            _ if label == "manifest" => continue,
            _ if label == "describeTools" => {
                let listed = client.ask(&identity, "tools/list", Value::Null).await;
                (listed.map(|listed| listed["tools"].clone()), Ok(step["result"]["ok"].clone()))
            }
            "sse" | "progress" | "json" => {
                let arguments = recorded.last().unwrap().3.clone();
                let expected = ours.map_or(step["result"]["ok"].clone(), |_| json!({ "a": 1 }));
                (client.call_tool(&identity, arguments).await, Ok(expected))
            }
            "text" => (
                client.call_tool(&identity, json!({ "say": "plain" })).await,
                Ok(step["result"]["ok"].clone()),
            ),
            "once404" => {
                // After a restart the server knows no session.
                client.fixture = fixture();
                client.sessions.insert(None, "sess-1".to_owned());
                (client.call_tool(&identity, json!({})).await, Ok(step["result"]["ok"].clone()))
            }
            "rpcerror" | "iserror" | "always500" => (
                client.call_tool(&identity, json!({ "fail": "nope" })).await,
                Err("HttpMcpConnector t error -32603: nope".to_owned()),
            ),
            other => panic!("{label}: {other} is a reply that this test does not know"),
        };
        assert_eq!(result, expected, "{label}");
        if label == "500 twice" {
            assert_eq!(client.sent.len(), 1, "a failure is not repeated");
        } else {
            let arguments_of = |sent: &[Sent]| -> Vec<_> {
                sent.iter()
                    .map(|(method, identity, session, _)| (method.clone(), identity.clone(), *session))
                    .collect()
            };
            assert_eq!(arguments_of(&client.sent), arguments_of(&recorded), "{label}");
        }
        by_rule.extend(ours);
    }
    assert_eq!(by_rule.len(), OUR_RULE.len());
    for (label, rule) in by_rule {
        println!("by our rule: {label} ({rule})");
    }
}
