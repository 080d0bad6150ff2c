//! Bad input at `/v1/data` and at the tools: each gets its class, and nothing is stored or lost.

use serde_json::{Value, json};

use crate::test_server::TestServer;
use crate::tools::ToolClient;

const TEXT: &str = "High tide\r\nat noon\r\n";

struct DataProgram {
    client: ToolClient,
    http: reqwest::Client,
}

impl DataProgram {
    async fn asks(&self, method: &str, path: &str, body: String) -> (u16, Value) {
        let request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.client.url));
        let request = request.basic_auth(&self.client.id, Some(&self.client.secret)).body(body);
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }

    async fn entries(&self) -> Vec<Value> {
        self.asks("GET", "/v1/data?limit=200", String::new()).await.1["items"].as_array().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_request_for_data_gets_its_class_and_stores_nothing() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    let program = DataProgram { client, http: reqwest::Client::new() };
    let (status, written) = program.asks("POST", "/v1/data", json!({ "content": TEXT }).to_string()).await;
    assert_eq!(status, 201, "{written}");
    let write = |body: Value| ("POST", "/v1/data", body.to_string());
    let query = |body: Value| ("POST", "/v1/data/query", body.to_string());
    for ((method, path, body), expected, code) in [
        (("POST", "/v1/data", r#"{"content":"\ud83d"}"#.to_owned()), 400, "malformed_json"),
        (("POST", "/v1/data", r#"{"content":"x","tags":["\udc00"]}"#.to_owned()), 400, "malformed_json"),
        (("POST", "/v1/data/query", r#"{"query":"\ud83d"}"#.to_owned()), 400, "malformed_json"),
        (("POST", "/v1/data", "{".to_owned()), 400, "malformed_json"),
        (("POST", "/v1/data", "[]".to_owned()), 400, "malformed_json"),
        (write(json!({ "content": "x".repeat(1024 * 1024 + 1) })), 413, "too_large"),
        (write(json!({ "content": "x", "metadata": { "note": "x".repeat(64 * 1024) } })), 413, "too_large"),
        (write(json!({ "content": "x", "tags": vec!["t"; 65] })), 413, "too_large"),
        (write(json!({ "content": "" })), 422, "invalid_request"),
        (write(json!({ "content": 7 })), 422, "invalid_request"),
        (write(json!({ "content": "x", "expires_at": 1 })), 422, "invalid_request"),
        (write(json!({ "content": "x", "tags": "sea" })), 422, "invalid_request"),
        (query(json!({ "query": "tide", "colour": "red", "shape": 1 })), 422, "unsupported_filter"),
        (query(json!({ "query": "tide", "domain_tags": [] })), 422, "invalid_request"),
        (query(json!({ "query": "tide", "domain_tags": [7] })), 422, "invalid_request"),
        (query(json!({ "query": "tide", "limit": 1.5 })), 422, "invalid_request"),
        (query(json!({ "query": "tide", "limit": 0 })), 422, "invalid_request"),
        (query(json!({ "query": "tide", "mode": "semantic" })), 422, "unsupported_mode"),
        (query(json!({ "query": "raw:(" })), 422, "query"),
        (
            query(json!({ "query": "tide", "permissive_filters": "true", "colour": 1 })),
            422,
            "unsupported_filter",
        ),
        (("GET", "/v1/data/..%2F..%2Fetc", String::new()), 404, "data_not_found"),
        (("GET", "/v1/data?after=zzz", String::new()), 422, "invalid_request"),
        (("DELETE", "/v1/data", String::new()), 405, "method_not_allowed"),
    ] {
        let shown: String = body.chars().take(100).collect();
        let (status, said) = program.asks(method, path, body).await;
        let found = (status, said["code"].as_str().unwrap_or_default());
        assert_eq!(found, (expected, code), "{method} {path} {shown}: {said}");
        if code == "unsupported_filter" && shown.contains("shape") {
            assert_eq!(said["unsupported_keys"], json!(["colour", "shape"]), "all offenders are named");
        }
    }
    let entries = program.entries().await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["detail"], TEXT, "no line ending has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn junk_at_the_tools_is_an_error_of_json_rpc_and_stores_nothing() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let client = ToolClient::create(&server, &["--tenant", "acme"]);
    let call = |tool: &str, arguments: Value| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } })
            .to_string()
    };
    let surrogate =
        call("skill_write", json!({ "name": "tide", "source": "LONE" })).replace("LONE", r"\ud83d");
    for (path, body, expected) in [
        ("/rpc", "{".to_owned(), -32700),
        ("/rpc", surrogate.clone(), -32700),
        ("/rpc", call("ghost", json!({})), -32601),
        ("/rpc", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#.to_owned(), -32602),
        ("/rpc", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(), -32601),
        ("/rpc", call("skill_write", json!({ "name": "../tide", "source": "x" })), -32603),
        (
            "/rpc",
            call("skill_write", json!({ "name": "tide", "source": "x".repeat(256 * 1024 + 1) })),
            -32603,
        ),
        ("/rpc", call("skill_status", json!({ "name": "tide", "new_state": "Blessed" })), -32603),
        ("/mcp", surrogate, -32700),
        ("/mcp", "junk".to_owned(), -32700),
        ("/mcp", call("data_write", json!({ "content": "x".repeat(1024 * 1024 + 1) })), -32603),
        ("/mcp", call("data_read", json!({ "query": "tide", "colour": "red" })), -32603),
        ("/mcp", call("skill_write", json!({ "name": "../tide", "source": "x" })), -32603),
    ] {
        let shown: String = body.chars().take(120).collect();
        let (_, _, answer) = client.post(path, &[], &body).await;
        let line = answer.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&answer);
        let answer: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{path} {shown}: {answer}"));
        assert_eq!(answer["error"]["code"], expected, "{path} {shown}: {answer}");
    }
    let program = DataProgram { client, http: reqwest::Client::new() };
    assert!(program.entries().await.is_empty());
    let (_, skills) = program.asks("GET", "/v1/skills", String::new()).await;
    assert_eq!(skills["items"], json!([]));
}
