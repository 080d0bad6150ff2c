//! Tests of the protocol, over tools that only answer.

mod http_client_vectors;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use http::header::CONTENT_TYPE;
use posthouse_time::Moment;
use serde_json::Map;
use tokio_util::task::TaskTracker;

use super::*;
use crate::tools::tool_calls::{LARGEST_RESULT, ToolRunner};
use crate::tools::tool_failure::ToolFailure;
use crate::tools::tool_list::{ToolList, ToolSurface};

/// Answers the tool `t` with what its arguments ask for.
#[derive(Default)]
struct Echo {
    runs: AtomicU32,
    token: AtomicU32,
}

#[async_trait]
impl ToolRunner for Echo {
    async fn run(
        &self,
        _: ToolSurface,
        caller: &Caller,
        _: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, ToolFailure> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        if let Some(Value::String(why)) = arguments.get("fail") {
            return Err(ToolFailure::refused(why.clone()));
        }
        if let Some(size) = arguments.get("size").and_then(Value::as_u64) {
            return Ok(json!("x".repeat(usize::try_from(size).unwrap())).to_string());
        }
        if let Some(value) = arguments.get("say") {
            return Ok(value.to_string());
        }
        Ok(json!({ "a": 1, "label": caller.attested }).to_string())
    }

    async fn skills_token(&self, _: &Caller) -> Option<String> {
        Some(self.token.load(Ordering::Relaxed).to_string())
    }
}

struct Fixture {
    server: McpServer,
    echo: Arc<Echo>,
    timepiece: Timepiece,
    closing: CancellationToken,
    allowed: Arc<AtomicBool>,
}

fn list() -> ToolList {
    let description = json!({ "name": "t", "description": "d", "inputSchema": { "type": "object" } });
    let Value::Object(description) = description else { panic!("an object") };
    ToolList::new(vec![description])
}

fn fixture() -> Fixture {
    let timepiece = Timepiece::wound(Moment::default());
    let echo = Arc::<Echo>::default();
    let closing = CancellationToken::new();
    let runner: Arc<dyn ToolRunner> = Arc::<Echo>::clone(&echo);
    let tools = ToolCalls::new(ToolSurface::Mcp, list(), runner, TaskTracker::new());
    let server = McpServer::new(tools, timepiece.clone(), closing.clone());
    Fixture { server, echo, timepiece, closing, allowed: Arc::new(AtomicBool::new(true)) }
}

fn caller(name: &str) -> Caller {
    Caller { client: name.into(), tenant: "acme".into(), agent: None, attested: None }
}

/// A response as a client reads it.
struct Heard {
    status: u16,
    session: Option<String>,
    kind: String,
    /// Every `data:` line.
    messages: Vec<Value>,
    body: String,
}

impl Heard {
    fn message(&self) -> &Value {
        assert_eq!(self.messages.len(), 1, "{} {}", self.status, self.body);
        assert_eq!(self.kind, "text/event-stream");
        &self.messages[0]
    }

    /// The status and the code of a refusal.
    fn refusal(&self) -> (u16, i64) {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        (self.status, body["error"]["code"].as_i64().unwrap())
    }
}

async fn heard(response: Response) -> Heard {
    let text = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (status, session) = (response.status().as_u16(), text(SESSION_HEADER));
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    let body = http_kit::read_body(response.into_body(), 1 << 24).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let messages = body.lines().filter_map(|line| line.strip_prefix("data:"));
    let messages = messages.map(|line| serde_json::from_str(line).unwrap()).collect();
    Heard { status, session, kind, messages, body }
}

impl Fixture {
    fn still_allowed(&self) -> StillAllowed {
        let allowed = Arc::clone(&self.allowed);
        Arc::new(move || {
            let allowed = Arc::clone(&allowed);
            Box::pin(async move { allowed.load(Ordering::Relaxed) })
        })
    }

    async fn raw(&self, by: &str, headers: &[(&'static str, &str)], body: &str) -> Response {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let message = RpcMessage::read(body.as_bytes());
        self.server.answer(&caller(by), &map, message, self.still_allowed()).await
    }

    async fn post(&self, by: &str, headers: &[(&'static str, &str)], body: Value) -> Heard {
        heard(self.raw(by, headers, &body.to_string()).await).await
    }

    async fn session(&self, by: &str) -> String {
        let begun =
            self.post(by, &[], request("initialize", json!({ "protocolVersion": "2025-06-18" }))).await;
        assert_eq!(begun.message()["result"]["protocolVersion"], "2025-06-18");
        begun.session.unwrap()
    }

    /// A request of the stateless revision, with all its headers.
    async fn stateless(&self, by: &str, method: &str, params: Value) -> Response {
        let name = params["name"].as_str().unwrap_or("-").to_owned();
        let headers =
            [(PROTOCOL_VERSION_HEADER, "2026-07-28"), ("mcp-method", method), ("mcp-name", name.as_str())];
        self.raw(by, &headers, &request(method, described(params)).to_string()).await
    }
}

fn request(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn described(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn call(arguments: Value) -> Value {
    request("tools/call", json!({ "name": "t", "arguments": arguments }))
}

#[tokio::test]
async fn a_session_lists_and_calls_tools_and_every_answer_is_one_event() {
    let fixture = fixture();
    let session = fixture.session("heron").await;
    let headers = [(SESSION_HEADER, session.as_str()), (PROTOCOL_VERSION_HEADER, "2025-06-18")];
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let accepted = fixture.post("heron", &headers, initialized).await;
    assert_eq!((accepted.status, accepted.body.as_str()), (202, ""));
    let listed = fixture.post("heron", &headers, request("tools/list", json!({}))).await;
    assert_eq!(listed.message()["result"], json!({ "tools": list().to_value() }));
    let called = fixture.post("heron", &headers, call(json!({ "say": "one\ntwo" }))).await;
    assert_eq!(
        called.message()["result"],
        json!({ "content": [{ "type": "text", "text": "\"one\\ntwo\"" }] })
    );
    let pinged = fixture.post("heron", &headers, request("ping", json!({}))).await;
    assert_eq!(pinged.message(), &json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
}

#[tokio::test]
async fn a_tool_that_fails_is_an_error_with_status_200_and_never_a_result() {
    let fixture = fixture();
    for (body, code) in [
        (call(json!({ "fail": "no" })), -32603),
        (request("tools/call", json!({})), -32602),
        (request("tools/call", json!({ "name": "other" })), -32602),
        (request("resources/list", json!({})), -32601),
        (call(json!({ "size": LARGEST_RESULT })), -32603),
    ] {
        let failed = fixture.post("heron", &[], body).await;
        assert_eq!((failed.status, &failed.message()["error"]["code"]), (200, &json!(code)));
        assert!(failed.message().get("result").is_none());
    }
}

#[tokio::test]
async fn an_event_stays_under_a_mebibyte() {
    let fixture = fixture();
    let largest = fixture.post("heron", &[], call(json!({ "size": LARGEST_RESULT - 100 }))).await;
    assert!(largest.message().get("result").is_some());
    assert!(largest.body.len() < 1024 * 1024);
}

#[tokio::test]
async fn a_session_of_somebody_else_and_an_unknown_one_look_the_same() {
    let fixture = fixture();
    let session = fixture.session("heron").await;
    let absent = "0".repeat(session.len());
    for body in [request("tools/list", json!({})), json!({ "jsonrpc": "2.0", "method": "notifications/x" })] {
        let theirs = fixture.post("otter", &[(SESSION_HEADER, &session)], body.clone()).await;
        let nobodys = fixture.post("otter", &[(SESSION_HEADER, &absent)], body).await;
        assert_eq!(theirs.refusal(), (404, -32001));
        assert_eq!(theirs.body, nobodys.body);
    }
    let mut headers = HeaderMap::new();
    headers.insert(SESSION_HEADER, HeaderValue::from_str(&session).unwrap());
    assert_eq!(fixture.server.end_session(&caller("otter"), &headers).status(), 404);
    assert_eq!(fixture.server.end_session(&caller("heron"), &headers).status(), 204);
    assert_eq!(fixture.server.end_session(&caller("heron"), &headers).status(), 404);
    assert_eq!(fixture.server.end_session(&caller("heron"), &HeaderMap::new()).status(), 400);
}

#[tokio::test]
async fn junk_and_unknown_revisions_are_bad_requests() {
    let fixture = fixture();
    for (body, code) in [("{oops", -32700), ("[]", -32600), ("{}", -32600), ("\"x\"", -32600)] {
        let refused = heard(fixture.raw("heron", &[], body).await).await;
        assert_eq!(refused.refusal(), (400, code), "{body}");
    }
    let unknown = [(PROTOCOL_VERSION_HEADER, "2024-01-01")];
    let refused = fixture.post("heron", &unknown, request("tools/list", json!({}))).await;
    assert_eq!(refused.refusal(), (400, -32022));
}

#[tokio::test]
async fn the_stateless_revision_needs_no_session_and_marks_its_results() {
    let fixture = fixture();
    let discovered = heard(fixture.stateless("heron", "server/discover", json!({})).await).await;
    let result = &discovered.message()["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"][4], "2026-07-28");
    assert!(result["capabilities"]["extensions"].is_object());
    assert_eq!(result["_meta"][SERVER_INFO]["name"], "posthouse");
    assert!(discovered.session.is_none());

    let listed = heard(fixture.stateless("heron", "tools/list", json!({})).await).await;
    assert_eq!(listed.message()["result"]["cacheScope"], "private");
    assert_eq!(listed.message()["result"]["tools"], list().to_value());

    let params = json!({ "name": "t", "arguments": { "say": 5 } });
    let called = heard(fixture.stateless("heron", "tools/call", params).await).await;
    assert_eq!(called.message()["result"]["content"][0]["text"], "5");
    assert_eq!(called.message()["result"]["resultType"], "complete");

    let params = json!({ "name": "t", "arguments": { "fail": "no" } });
    let failed = heard(fixture.stateless("heron", "tools/call", params).await).await;
    assert_eq!((failed.status, &failed.message()["error"]["message"]), (200, &json!("no")));
}

#[tokio::test]
async fn the_stateless_revision_has_no_ping_and_no_unchecked_headers() {
    let fixture = fixture();
    let ping = heard(fixture.stateless("heron", "ping", json!({})).await).await;
    assert_eq!(ping.refusal(), (404, -32601));
    let other = [(PROTOCOL_VERSION_HEADER, "2026-07-28"), ("mcp-method", "tools/list")];
    let body = request("tools/call", described(json!({ "name": "t" })));
    assert_eq!(fixture.post("heron", &other, body).await.refusal(), (400, -32020));
    assert_eq!(fixture.echo.runs.load(Ordering::Relaxed), 0);
}

/// The stream of a client that listens.
struct Stream(BodyDataStream);

impl Stream {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        Self(response.into_body().into_data_stream())
    }

    async fn next(&mut self) -> Option<String> {
        let piece = self.0.next().await?;
        Some(String::from_utf8(piece.unwrap().to_vec()).unwrap())
    }

    async fn message(&mut self) -> Value {
        let event = self.next().await.unwrap();
        serde_json::from_str(event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap()
    }
}

fn listen() -> Value {
    json!({ "notifications": { "toolsListChanged": true, "skillsListChanged": true, "promptsListChanged": true } })
}

#[tokio::test]
async fn a_listener_is_told_what_it_gets_and_then_of_every_change_of_the_skills() {
    let fixture = fixture();
    let mut stream = Stream::of(fixture.stateless("heron", "subscriptions/listen", listen()).await);
    let acknowledged = stream.message().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({ "toolsListChanged": true, "skillsListChanged": true })
    );
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);

    let interval = std::time::Duration::from_secs(10);
    assert_eq!(fixture.timepiece.wind_until(interval, stream.next()).await.unwrap(), ":\n\n");
    fixture.echo.token.store(7, Ordering::Relaxed);
    let changed = fixture.timepiece.wind_until(interval, stream.message()).await;
    assert_eq!(changed["method"], "notifications/skills/list_changed");

    fixture.closing.cancel();
    let ended = stream.message().await;
    assert_eq!((&ended["id"], &ended["result"]["resultType"]), (&json!(1), &json!("complete")));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_stream_ends_when_its_caller_loses_access() {
    let fixture = fixture();
    let mut stream = Stream::of(fixture.stateless("heron", "subscriptions/listen", listen()).await);
    stream.message().await;
    fixture.allowed.store(false, Ordering::Relaxed);
    let interval = std::time::Duration::from_secs(10);
    assert_eq!(fixture.timepiece.wind_until(interval, stream.next()).await, None);
}

#[tokio::test]
async fn one_credential_has_a_few_streams_and_leaves_the_others_theirs() {
    let fixture = fixture();
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(fixture.stateless("heron", "subscriptions/listen", listen()).await);
    }
    assert!(open.iter().all(|stream| stream.status() == 200));
    assert_eq!(fixture.stateless("heron", "subscriptions/listen", listen()).await.status(), 429);
    assert_eq!(fixture.stateless("otter", "subscriptions/listen", listen()).await.status(), 200);
    let closed: Response<Body> = open.pop().unwrap();
    drop(closed);
    assert_eq!(fixture.stateless("heron", "subscriptions/listen", listen()).await.status(), 200);
}
