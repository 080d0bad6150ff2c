//! Forwarding of messages to `/mcp` of the server, and of its responses back.

use std::sync::Arc;

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt;
use parking_lot::Mutex;
use posthouse_wire::Secret;
use posthouse_wire::address::is_this_machine;
use reqwest::header::CONTENT_TYPE;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::admin_client::unreachable_server;

/// The longest line of an event stream.
const LONGEST_LINE: usize = 16 * 1024 * 1024;
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Any failure that is no answer of the server.
const INTERNAL_ERROR: i32 = -32603;

/// What the client gets: whole messages.
pub type Replies = mpsc::Sender<Value>;

/// A client of `/mcp`. Clones share the session.
#[derive(Clone)]
pub struct Forwarding {
    http: reqwest::Client,
    server: Url,
    endpoint: String,
    id: String,
    secret: Secret,
    session: Arc<Mutex<ForwardedSession>>,
}

/// The session that the client began.
#[derive(Default)]
struct ForwardedSession {
    id: Option<String>,
    revision: Option<String>,
    /// Its first message, to begin again if the server has forgotten the session.
    initialize: Option<Value>,
}

impl Forwarding {
    pub fn new(server: Url, id: String, secret: Secret) -> anyhow::Result<Self> {
        // No redirects, because the secret would be sent to their target. No proxy for loopback addresses.
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(std::time::Duration::from_secs(10));
        if server.host_str().is_some_and(is_this_machine) {
            http = http.no_proxy();
        }
        let http = http.build().context("cannot make HTTP calls")?;
        let endpoint = format!("{}/mcp", server.as_str().trim_end_matches('/'));
        Ok(Self { http, server, endpoint, id, secret, session: Arc::default() })
    }

    /// Sends a message and passes on everything that the server answers. A request always gets an answer.
    pub async fn forward(&self, message: Value, replies: &Replies) {
        let id = message.get("id").cloned();
        if let Err(why) = self.try_forward(&message, replies).await {
            eprintln!("posthouse: {why:#}");
            if let Some(id) = id.filter(|_| message.get("method").is_some()) {
                let error = json!({ "code": INTERNAL_ERROR, "message": format!("{why:#}") });
                let _ = replies.send(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
            }
        }
    }

    async fn try_forward(&self, message: &Value, replies: &Replies) -> anyhow::Result<()> {
        let had_session = self.session.lock().id.clone();
        let mut response = self.send(message).await?;
        let is_forgotten = response.status() == StatusCode::NOT_FOUND && had_session.is_some();
        if is_forgotten && self.begin_again(had_session).await? {
            response = self.send(message).await?;
        }
        if message["method"] == "initialize" && response.status().is_success() {
            let mut session = self.session.lock();
            session.id = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
            session.initialize = Some(message.clone());
        }
        self.pass_on(response, message, replies).await
    }

    /// Begins a session again that the server has forgotten, for example after a restart. False if there was none.
    async fn begin_again(&self, forgotten: Option<String>) -> anyhow::Result<bool> {
        let initialize = {
            let mut session = self.session.lock();
            if session.id != forgotten {
                // Another message was faster.
                return Ok(true);
            }
            session.id = None;
            session.initialize.clone()
        };
        let Some(initialize) = initialize else { return Ok(false) };
        let begun = self.send(&initialize).await?;
        let id = begun.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        self.session.lock().id = id;
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(true)
    }

    /// Ends the session at the server. Nothing depends on it, so a failure is not reported.
    pub async fn end(&self) {
        let Some(session) = self.session.lock().id.take() else { return };
        let ending = self.authenticated(self.http.delete(&self.endpoint)).header(SESSION, session);
        let _ = ending.timeout(std::time::Duration::from_secs(2)).send().await;
    }

    fn authenticated(&self, request: RequestBuilder) -> RequestBuilder {
        request.basic_auth(&self.id, Some(self.secret.expose()))
    }

    async fn send(&self, message: &Value) -> anyhow::Result<Response> {
        let mut request = self
            .authenticated(self.http.post(&self.endpoint))
            .header(CONTENT_TYPE, "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in self.headers(message) {
            request = request.header(name, value);
        }
        let sent = request.body(message.to_string()).send().await;
        sent.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            unreachable_server(&self.server, !error.is_connect(), cause.as_deref()).into()
        })
    }

    /// The headers that repeat what the message says, or that belong to the session.
    fn headers(&self, message: &Value) -> Vec<(&'static str, String)> {
        let params = &message["params"];
        if let Some(version) = params["_meta"][META_VERSION].as_str() {
            let mut headers = vec![(VERSION, version.to_owned())];
            headers.extend(message["method"].as_str().map(|method| ("mcp-method", method.to_owned())));
            headers.extend(params["name"].as_str().map(|name| ("mcp-name", header_value(name))));
            return headers;
        }
        if message["method"] == "initialize" {
            return Vec::new();
        }
        let session = self.session.lock();
        let named = [(SESSION, session.id.clone()), (VERSION, session.revision.clone())];
        named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    async fn pass_on(&self, response: Response, asked: &Value, replies: &Replies) -> anyhow::Result<()> {
        let status = response.status();
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return self.pass_on_events(response, asked, replies).await;
        }
        if status.is_success() {
            return Ok(());
        }
        let body: Value = response.json().await.unwrap_or_default();
        if body["error"].is_object() {
            let answer = json!({ "jsonrpc": "2.0", "id": asked.get("id"), "error": body["error"] });
            if asked.get("id").is_some() {
                let _ = replies.send(answer).await;
            }
            return Ok(());
        }
        match (status, body["detail"].as_str()) {
            (StatusCode::UNAUTHORIZED, _) => {
                anyhow::bail!("the server at {} rejects the secret of client {}", self.server, self.id)
            }
            (_, Some(detail)) => anyhow::bail!("the server at {} refuses: {detail}", self.server),
            (status, None) => anyhow::bail!("{} answered {status}: is it a Posthouse server?", self.server),
        }
    }

    async fn pass_on_events(
        &self,
        response: Response,
        asked: &Value,
        replies: &Replies,
    ) -> anyhow::Result<()> {
        let (mut pieces, mut line, mut answered) = (response.bytes_stream(), Vec::new(), false);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| {
                unreachable_server(&self.server, true, Some(&error.without_url().to_string()))
            })?;
            for byte in piece {
                if byte != b'\n' {
                    anyhow::ensure!(line.len() < LONGEST_LINE, "an event of the server is too long");
                    line.push(byte);
                    continue;
                }
                if let Some(message) = message_of(&line) {
                    self.remember_revision(asked, &message);
                    answered |= message.get("id").is_some();
                    if replies.send(message).await.is_err() {
                        return Ok(());
                    }
                }
                line.clear();
            }
        }
        anyhow::ensure!(answered, "the server at {} ended its answer early", self.server);
        Ok(())
    }

    /// Later requests repeat the revision that the server chose.
    fn remember_revision(&self, asked: &Value, answer: &Value) {
        if asked["method"] == "initialize" {
            let revision = answer["result"]["protocolVersion"].as_str().map(str::to_owned);
            self.session.lock().revision = revision;
        }
    }
}

/// The message of a line of an event stream.
fn message_of(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

/// A text as a header value: encoded, if it cannot be one as it is.
fn header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) && !text.starts_with("=?base64?");
    if is_plain { text.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarding() -> Forwarding {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let server = Url::parse("http://127.0.0.1:1/under/").unwrap();
        Forwarding::new(server, "tenant:acme".to_owned(), Secret::new("s")).unwrap()
    }

    #[test]
    fn a_request_that_describes_itself_gets_the_headers_that_repeat_it() {
        let forwarding = forwarding();
        forwarding.session.lock().id = Some("one".to_owned());
        forwarding.session.lock().revision = Some("2025-06-18".to_owned());
        let meta = json!({ META_VERSION: "2026-07-28" });
        let call = json!({ "id": 1, "method": "tools/call", "params": { "name": "ä b", "_meta": meta } });
        assert_eq!(
            forwarding.headers(&call),
            [
                (VERSION, "2026-07-28".to_owned()),
                ("mcp-method", "tools/call".to_owned()),
                ("mcp-name", "=?base64?w6QgYg==?=".to_owned()),
            ]
        );
        let list = json!({ "id": 1, "method": "tools/list" });
        assert_eq!(
            forwarding.headers(&list),
            [(SESSION, "one".to_owned()), (VERSION, "2025-06-18".to_owned())]
        );
        assert!(forwarding.headers(&json!({ "method": "initialize" })).is_empty());
    }

    #[test]
    fn only_lines_of_data_that_are_json_are_messages() {
        assert_eq!(message_of(b"data: {\"a\":1}\r"), Some(json!({ "a": 1 })));
        assert_eq!(message_of(b"data:{}"), Some(json!({})));
        for other in [&b"event: message"[..], b": ", b"", b"data: junk"] {
            assert_eq!(message_of(other), None);
        }
    }

    #[tokio::test]
    async fn a_request_gets_an_error_if_the_server_cannot_be_reached_and_a_notification_gets_nothing() {
        let (replies, mut heard) = mpsc::channel(8);
        let forwarding = forwarding();
        assert_eq!(forwarding.endpoint, "http://127.0.0.1:1/under/mcp");
        forwarding.forward(json!({ "jsonrpc": "2.0", "method": "notifications/x" }), &replies).await;
        forwarding.forward(json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list" }), &replies).await;
        drop(replies);
        let answer = heard.recv().await.unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(INTERNAL_ERROR)));
        assert!(answer["error"]["message"].as_str().unwrap().contains("cannot reach the server"), "{answer}");
        assert_eq!(heard.recv().await, None);
    }
}
