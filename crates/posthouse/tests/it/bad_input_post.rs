//! Bad input to the post API: every case gets its documented status, nothing panics, nothing is lost.

pub mod fuzz;
mod receivers;

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::receiver::Receiver;
use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::TestServer;
use crate::tokens::exchanges;

/// A server with a tenant, its program, an agent, and a receiver that can be wired.
struct Fixture {
    server: TestServer,
    receiver: Receiver,
    heron: Value,
    token: String,
    client: reqwest::Client,
}

impl Fixture {
    async fn open(env: &[(&str, &str)]) -> Self {
        provide_crypto();
        let server = TestServer::open(env);
        let receiver = Receiver::open().await;
        server.does(&["tenant", "create", "acme"]);
        let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
        let own = server.does(&["client", "create", "--tenant", "acme"]);
        let token = exchanges(&server, &own).await["access_token"].as_str().unwrap().to_owned();
        Self { server, receiver, heron, token, client: reqwest::Client::new() }
    }

    /// Makes a connector, healthy or not.
    fn wires(&self, name: &str, kind: &str, settings: &Value) {
        let file = self.server.secret_file(&format!("{name}.json"), &settings.to_string());
        let words = ["connector", "create", name, "--tenant", "acme", "--kind", kind, "--force"];
        self.server.does(&[&words[..], &["--settings", &file]].concat());
    }

    /// The bytes as they are, under an idempotency key if there is one.
    async fn tells(&self, path: &str, body: impl Into<reqwest::Body>, key: Option<&str>) -> (u16, Value) {
        let mut request = self.client.post(format!("{}{path}", self.server.url)).bearer_auth(&self.token);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.body(body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }

    async fn posts(&self, path: &str, body: &Value) -> (u16, Value) {
        self.tells(path, body.to_string(), None).await
    }

    async fn gets(&self, path: &str) -> (u16, Value) {
        let request = self.client.get(format!("{}{path}", self.server.url)).bearer_auth(&self.token);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
    }

    /// Waits until the one receipt of a dispatch is in that state.
    async fn becomes(&self, dispatch: &str, state: &str) -> Value {
        let reached = async {
            loop {
                let (_, shown) = self.gets(&format!("/v1/receipts/{dispatch}")).await;
                if shown["items"][0]["state"] == state {
                    return shown["items"][0].clone();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{dispatch} is not {state}"))
    }

    fn has_not_panicked(&self) {
        let log = self.server.log.lock().unwrap();
        let line = log.lines().find(|line| line.contains("panicked"));
        assert_eq!(line, None);
    }
}

fn envelope(dispatch: &str) -> Value {
    json!({ "agent_id": "heron", "kind": "augment", "content": "hello", "meta": { "dispatch_id": dispatch,
        "sent_at": 5, "origin": { "skill_name": "probe", "trigger_kind": "cron" } } })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused_by_the_name_of_its_field_and_nothing_of_it_is_sent() {
    let fixture = Fixture::open(&[]).await;
    let long = "x".repeat(256 * 1024 + 1);
    let notify = |agent: &str, message: &str| json!({ "agent": agent, "message": message }).to_string();
    let with = |name: &str, value: Value| {
        let mut body = json!({ "agent": "heron", "message": "hello" });
        body[name] = value;
        body.to_string()
    };
    let delivered = |pointer: &str, value: Value| {
        let mut body = envelope("d-1");
        *body.pointer_mut(pointer).unwrap() = value;
        body.to_string()
    };
    let (refused, unread, too_long) = ((422, "invalid_request"), (400, "malformed_json"), (413, "too_long"));
    for (path, body, (status, code), field) in [
        ("/v1/notify", with("kind", json!("binary")), refused, "kind"),
        ("/v1/notify", with("trigger_kind", json!("agent")), refused, "trigger_kind"),
        ("/v1/notify", with("connectors", json!("relay")), refused, "connectors"),
        ("/v1/notify", with("to", json!("heron")), refused, "to"),
        ("/v1/notify", with("from", json!("a\u{0}b")), refused, "from"),
        ("/v1/notify", notify("", "hello"), refused, "agent"),
        ("/v1/notify", notify("heron", &long), too_long, "message"),
        ("/v1/notify", r#"{"agent":"heron","agent":"wren","message":"x"}"#.to_owned(), refused, "agent"),
        ("/v1/notify", r#"{"agent":"heron","message":"\ud800"}"#.to_owned(), unread, ""),
        ("/v1/notify", r#"{"agent":"heron","message":"\udc00\ud800"}"#.to_owned(), unread, ""),
        ("/v1/notify", "[".repeat(100_000), refused, "body"),
        ("/v1/notify", format!(r#"{{"agent":{}"#, "[".repeat(100_000)), unread, ""),
        ("/v1/notify", "{".to_owned(), unread, ""),
        ("/v1/notify", String::new(), unread, ""),
        ("/v1/deliver", delivered("/kind", json!("binary")), refused, "kind"),
        ("/v1/deliver", delivered("/content", json!(long)), too_long, "content"),
        (
            "/v1/deliver",
            delivered("/meta/dispatch_id", json!("../../etc/passwd")),
            refused,
            "meta.dispatch_id",
        ),
        ("/v1/deliver", delivered("/meta/dispatch_id", json!("a/b")), refused, "meta.dispatch_id"),
        (
            "/v1/deliver",
            delivered("/meta/origin/trigger_kind", json!("moon")),
            refused,
            "meta.origin.trigger_kind",
        ),
        ("/v1/wake", json!({ "agent": "heron", "when": i64::MAX }).to_string(), refused, "when"),
        ("/v1/wake", json!({ "agent": "heron", "context": long }).to_string(), too_long, "context"),
        ("/v1/wake", json!({ "agent": "heron", "wait": -1 }).to_string(), refused, "wait"),
        ("/v1/exchange", with("correlation_id", json!("../x")), refused, "correlation_id"),
        ("/v1/exchange", with("timeout", json!("soon")), refused, "timeout"),
        ("/v1/exchange", notify("heron@desk", "hello"), (422, "exchange_address"), "agent"),
        ("/v1/exchange", notify("heron", &long), too_long, "message"),
    ] {
        let shown: String = body.chars().take(200).collect();
        let (heard, answer) = fixture.tells(path, body, None).await;
        assert_eq!((heard, &answer["code"]), (status, &json!(code)), "{path} {shown}: {answer}");
        assert_eq!(answer["field"].as_str().unwrap_or_default(), field, "{path} {shown}: {answer}");
    }
    for key in ["../../etc/passwd", "a/b", "", "x y", &"x".repeat(129)] {
        let (status, answer) = fixture.tells("/v1/notify", notify("heron", "hello"), Some(key)).await;
        assert_eq!((status, &answer["field"]), (422, &json!("Idempotency-Key")), "{key}");
    }
    let over = vec![b' '; 6 * 256 * 1024 + 64 * 1024 + 1];
    for operation in post::OPERATIONS.iter().filter(|operation| operation.method == "POST") {
        let path = operation.path.replace("{token}", "unknown");
        // An unknown token is refused before the body is read.
        let expected = if operation.credential { 413 } else { 404 };
        assert_eq!(fixture.tells(&path, over.clone(), None).await.0, expected, "{path}");
    }
    for path in
        ["receipts/..%2F..%2Fetc", "receipts/%00", "exchanges/..%2fx", "agents/..%2F..%2Fx", "agents/%FF"]
    {
        let (status, answer) = fixture.gets(&format!("/v1/{path}")).await;
        assert_eq!((status, &answer["code"]), (404, &json!("not_found")), "{path}");
    }
    // None of these requests was stored or delivered; the next valid one is.
    assert_eq!(fixture.gets("/v1/receipts").await, (200, json!({ "items": [] })));
    assert_eq!(fixture.gets("/v1/exchanges").await, (200, json!({ "items": [] })));
    let mut rider = Rider::dial(&fixture.server, &fixture.heron, &[("post", "post")]).await;
    let longest = "é".repeat(128 * 1024);
    assert_eq!(fixture.posts("/v1/notify", &json!({ "agent": "heron", "message": longest })).await.0, 200);
    assert!(rider.hears().await.event.text.ends_with(&longest));
    crate::post_cli::hears_nothing_more(&fixture.server, &mut rider).await;
    fixture.has_not_panicked();
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_nobody_knows_are_no_error_to_notify_and_one_to_every_other_verb() {
    let fixture = Fixture::open(&[]).await;
    for agent in ["stork", "../../etc/passwd", "inst_0", "heron/../heron", "stork@../x", "%00", "heron "] {
        let body = json!({ "agent": agent, "message": "hello" });
        let (status, answer) = fixture.posts("/v1/notify", &body).await;
        assert_eq!((status, &answer["dispatched"]), (200, &json!([])), "{agent}");
        let mut delivered = envelope("d-1");
        delivered["agent_id"] = agent.into();
        let mut asks = vec![("/v1/deliver", delivered), ("/v1/wake", json!({ "agent": agent }))];
        if !agent.contains('@') {
            asks.push(("/v1/exchange", body));
        }
        for (path, body) in asks {
            let (status, answer) = fixture.posts(path, &body).await;
            assert_eq!((status, &answer["code"]), (404, &json!("delivery_failed")), "{path} {agent}");
            assert_eq!(answer["cause_kind"], "client_validation", "{path} {agent}");
        }
    }
    // A connector that was not named is not asked, and a path is not a connector name.
    for connectors in [json!([]), json!(["hooks"]), json!(["../relay"])] {
        let body = json!({ "agent": "heron", "message": "hello", "connectors": connectors });
        assert_eq!(fixture.posts("/v1/notify", &body).await.1["dispatched"], json!([]), "{connectors}");
    }
    for name in ["../hooks", "a/b", "..", "", "relay", "a\nb"] {
        let words = ["connector", "create", name, "--tenant", "acme", "--kind", "noop"];
        assert!(!fixture.server.tries(&words).status.success(), "{name:?}");
    }
    assert_eq!(fixture.gets("/v1/receipts").await, (200, json!({ "items": [] })));
    // A session whose name is a path is a conversation like any other.
    let (_, told) = fixture.posts("/v1/wake", &json!({ "agent": "heron@../../x", "context": "hello" })).await;
    assert_eq!(told["session_id"], "..-..-x", "{told}");
    fixture.has_not_panicked();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_would_be_a_command_is_told_a_stock_agent_as_what_it_is() {
    let fixture = Fixture::open(&[("POSTHOUSE_POST__PREAMBLE", "false")]).await;
    for (message, key) in [("/status", "d-1"), ("good morning", "d-2")] {
        let body = json!({ "agent": "heron", "message": message, "from": "ci" }).to_string();
        assert_eq!(fixture.tells("/v1/notify", body, Some(key)).await.0, 200);
    }
    // Not of our SDK: it says hello as stock agents do.
    let address = fixture.server.url.trim_start_matches("http://");
    let mut request = format!("ws://{address}/relay").into_client_request().unwrap();
    let bearer = format!("Bearer {}", crate::matrix::gateway_token(&fixture.heron));
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    socket
        .send(Message::text("{\"type\":\"hello\",\"platform\":\"post\",\"botId\":\"post\"}\n"))
        .await
        .unwrap();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let next = tokio::time::timeout(PATIENCE, socket.next()).await.expect("nothing was heard");
        let Message::Text(lines) = next.unwrap().unwrap() else { continue };
        for line in lines.lines() {
            let frame: Value = serde_json::from_str(line).unwrap();
            if frame["type"] == "inbound" {
                heard.push(frame["event"]["text"].as_str().unwrap().to_owned());
                let taken = json!({ "type": "inbound_ack", "bufferId": frame["bufferId"] });
                socket.send(Message::text(format!("{taken}\n"))).await.unwrap();
            }
        }
    }
    assert_eq!(heard, ["[posthouse augment from ci]\n\n/status", "good morning"]);
    fixture.becomes("d-1", "acknowledged").await;
}
