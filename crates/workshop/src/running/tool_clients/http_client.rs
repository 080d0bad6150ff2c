//! MCP client over streamable HTTP: one session per owner of skills, kept until the server forgets it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use errand::{Errand, OpenCall, OutgoingCall};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use skill::{ErrorClass, HostFault, RunMemory, ToolRequest};

use super::mcp_message::ServerMessage;
use super::settings::HttpToolSettings;
use super::tool_answer::{AnswerMemory, HeldAnswer};
use super::{LARGEST_MESSAGE, LISTING, ToolClientParts, mcp_message};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Owners whose sessions are kept. The reference runtime keeps all of them.
const SESSIONS: usize = 256;
const OPENING: Duration = Duration::from_secs(10);

/// A client of one tool server.
pub struct HttpToolClient {
    settings: HttpToolSettings,
    errand: Errand,
    tenant: Option<String>,
    /// By owner. A server may give no session id.
    sessions: Mutex<HashMap<String, Option<HeaderValue>>>,
    last_id: AtomicU64,
}

/// The answer to a message: its status and the session id, with the body still to be read.
struct OpenAnswer {
    call: OpenCall,
    status: StatusCode,
    session: Option<HeaderValue>,
}

impl HttpToolClient {
    pub fn new(settings: HttpToolSettings, parts: &ToolClientParts) -> Self {
        Self {
            settings,
            errand: parts.errand.clone(),
            tenant: parts.tenant.as_deref().map(str::to_owned),
            sessions: Mutex::default(),
            last_id: AtomicU64::new(0),
        }
    }

    /// Calls a tool. The answer counts in `memory`.
    pub async fn call(
        &self,
        request: &ToolRequest,
        memory: Option<Arc<dyn RunMemory>>,
    ) -> Result<HeldAnswer, HostFault> {
        let owner = request.owner.as_deref().unwrap_or_default();
        self.ask(owner, "tools/call", mcp_message::call(request)?, request.timeout, memory).await
    }

    pub async fn list_tools(&self) -> Result<HeldAnswer, HostFault> {
        self.ask("", "tools/list", serde_json::json!({}), LISTING, None).await
    }

    async fn ask(
        &self,
        owner: &str,
        method: &str,
        params: Value,
        timeout: Duration,
        memory: Option<Arc<dyn RunMemory>>,
    ) -> Result<HeldAnswer, HostFault> {
        let known = self.sessions.lock().get(owner).cloned();
        let was_known = known.is_some();
        let session = match known {
            Some(session) => session,
            None => self.open_session(owner, timeout).await?,
        };
        let id = self.fresh_id();
        let message = mcp_message::request(id, method, params);
        let mut answer = self.send(&message, owner, session.as_ref(), timeout).await?;
        // Only an unknown session is repeated: after any other failure the tool may have done its work.
        if answer.status == StatusCode::NOT_FOUND && was_known {
            self.sessions.lock().remove(owner);
            let session = self.open_session(owner, timeout).await?;
            answer = self.send(&message, owner, session.as_ref(), timeout).await?;
        }
        answer.message(id, memory).await
    }

    /// Introduces this client to the server, and keeps the session.
    async fn open_session(&self, owner: &str, timeout: Duration) -> Result<Option<HeaderValue>, HostFault> {
        let HttpToolSettings { protocol_version, client_name, client_version, .. } = &self.settings;
        let id = self.fresh_id();
        let hello = mcp_message::initialize(protocol_version, client_name, client_version);
        let hello = mcp_message::request(id, "initialize", hello);
        let timeout = timeout.min(OPENING);
        let answer = self.send(&hello, owner, None, timeout).await?;
        let session = answer.session.clone();
        answer.message(id, None).await?.message.result("initialize")?;
        let ready = mcp_message::notification("notifications/initialized");
        self.send(&ready, owner, session.as_ref(), timeout).await?;
        let mut sessions = self.sessions.lock();
        if sessions.len() >= SESSIONS {
            sessions.clear();
        }
        sessions.insert(owner.to_owned(), session.clone());
        Ok(session)
    }

    async fn send(
        &self,
        message: &Value,
        owner: &str,
        session: Option<&HeaderValue>,
        timeout: Duration,
    ) -> Result<OpenAnswer, HostFault> {
        let mut call = OutgoingCall::post(self.settings.endpoint.clone(), message.to_string())
            .timeout(timeout)
            .max_answer(LARGEST_MESSAGE);
        call.tenant = self.tenant.as_deref().map(Into::into);
        call.headers = self.settings.headers.clone();
        call = call
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Ok(version) = HeaderValue::from_str(&self.settings.protocol_version) {
            call = call.header(PROTOCOL, version);
        }
        if let Some(session) = session {
            call = call.header(SESSION, session.clone());
        }
        if let (Some(name), Ok(owner), false) =
            (&self.settings.identity_header, HeaderValue::from_str(owner), owner.is_empty())
        {
            call = call.header(name.clone(), owner);
        }
        match self.errand.open(call).await {
            Ok(call) => {
                Ok(OpenAnswer { status: call.status(), session: call.headers().get(SESSION).cloned(), call })
            }
            Err(fault) => Err(HostFault::plain(format!("the tool server did not answer: {fault}"))),
        }
    }

    fn fresh_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl OpenAnswer {
    /// The message that answers a request. A stream is read only up to it, because a server may leave it open.
    async fn message(mut self, id: u64, memory: Option<Arc<dyn RunMemory>>) -> Result<HeldAnswer, HostFault> {
        if !self.status.is_success() {
            return Err(HostFault::plain(format!("the tool server answered with status {}", self.status)));
        }
        let kind = self.call.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let is_stream = kind.starts_with("text/event-stream");
        let (mut body, mut memory) = (Vec::new(), AnswerMemory::new(memory));
        let mut events = EventReader::default();
        loop {
            let piece = self.call.piece().await;
            let piece =
                piece.map_err(|fault| HostFault::plain(format!("the tool server broke off: {fault}")))?;
            let is_end = piece.is_none();
            body.extend_from_slice(&piece.unwrap_or_default());
            if body.len() > LARGEST_MESSAGE {
                let message = format!("the answer of the tool is larger than {LARGEST_MESSAGE} bytes");
                return Err(HostFault::new(ErrorClass::OpError, message));
            }
            // What arrives, and the message in it.
            memory.hold(2 * body.len())?;
            if is_stream && let Some(answer) = events.find(&body, is_end, id) {
                return Ok(memory.of(answer));
            }
            if is_end {
                break;
            }
        }
        // A server may send a plain answer under the name of a stream, and the other way round.
        let plain = ServerMessage::read(&body).filter(|answer| answer.answered() == Some(id));
        let answer = plain.or_else(|| EventReader::default().find(&body, true, id)).ok_or_else(|| {
            HostFault::plain("the tool server answered with something that is not an MCP message")
        })?;
        Ok(memory.of(answer))
    }
}

/// Finds messages in the lines of an event stream that is not yet complete. Each byte is looked at once, however small
/// the pieces are in which a line arrives.
#[derive(Default)]
struct EventReader {
    /// Where the line begins whose end has not been found.
    line: usize,
    /// How far its end was looked for.
    scanned: usize,
    data: Vec<u8>,
}

impl EventReader {
    /// `body` is everything that has arrived so far.
    fn find(&mut self, body: &[u8], is_end: bool, id: u64) -> Option<ServerMessage> {
        while let Some(length) = memchr::memchr(b'\n', &body[self.scanned..]) {
            let end = self.scanned + length;
            let line = body[self.line..end].trim_ascii_end();
            (self.line, self.scanned) = (end + 1, end + 1);
            match line.strip_prefix(b"data:") {
                Some(data) => {
                    if !self.data.is_empty() {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(data.trim_ascii_start());
                }
                None if line.is_empty() => {
                    if let Some(answer) = self.finish(id) {
                        return Some(answer);
                    }
                }
                None => {}
            }
        }
        self.scanned = body.len();
        if !is_end {
            return None;
        }
        if let Some(data) = body[self.line..].strip_prefix(b"data:") {
            self.data.extend_from_slice(data.trim_ascii());
        }
        self.finish(id)
    }

    /// The message of the event that has ended.
    fn finish(&mut self, id: u64) -> Option<ServerMessage> {
        let data = std::mem::take(&mut self.data);
        ServerMessage::read(&data).filter(|message| message.answered() == Some(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(found: Option<ServerMessage>) -> Option<String> {
        Some(found?.result("x").unwrap().get().to_owned())
    }

    #[test]
    fn an_answer_is_found_in_a_stream_that_arrives_in_pieces_and_stays_open() {
        let stream = b": hello\r\nevent: message\r\ndata: {\"method\":\"notifications/progress\"}\r\n\r\n\
                       data: {\"id\":7,\r\ndata: \"result\":1}\r\n\r\ndata: {\"id\":8";
        for size in 1..stream.len() {
            let mut events = EventReader::default();
            let ends = (0..stream.len()).step_by(size).chain([stream.len()]);
            let found = ends.into_iter().find_map(|end| events.find(&stream[..end], false, 7));
            assert_eq!(result(found).as_deref(), Some("1"), "pieces of {size}");
        }
    }

    #[test]
    fn the_last_event_of_a_stream_needs_no_empty_line() {
        let found = EventReader::default().find(b"data: {\"id\":1,\"result\":{}}", true, 1);
        assert_eq!(result(found).as_deref(), Some("{}"));
        assert!(EventReader::default().find(b"nonsense", true, 1).is_none());
    }

    #[test]
    fn a_long_line_is_searched_once_however_small_its_pieces_are() {
        let mut line = b"data: {\"id\":1,\"result\":\"".to_vec();
        line.resize(64 * 1024, b'x');
        let mut events = EventReader::default();
        for end in 0..line.len() {
            assert!(events.find(&line[..end], false, 1).is_none());
            assert_eq!(
                (events.line, events.scanned),
                (0, end),
                "the next search begins where this one ended"
            );
        }
        line.extend(b"\"}\n\n");
        assert!(events.find(&line, false, 1).is_some());
    }
}
