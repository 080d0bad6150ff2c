//! MCP client over a child process, which is started at the first call and again after it has ended.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use serde_json::{Value, json};
use skill::{HostFault, RunMemory, ToolRequest};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::mcp_message::ServerMessage;
use super::settings::StdioToolSettings;
use super::tool_answer::{AnswerMemory, HeldAnswer};
use super::{ToolClientParts, mcp_message, stdio_frames};
use crate::running::process_group::ProcessGroup;

const PROTOCOL_VERSION: &str = "2024-11-05";
/// How long a child process has to answer `initialize`.
const OPENING: Duration = Duration::from_secs(10);
/// How long a child process has to end after it was asked to.
const ENDING: Duration = Duration::from_secs(2);
/// Pause after a child process that could not be used, so that a loop of calls does not start one after the other.
const PAUSE: Duration = Duration::from_secs(1);
/// Messages that wait until the child process reads them.
const QUEUED: usize = 64;

/// A client of one child process.
pub struct StdioToolClient {
    settings: Arc<StdioToolSettings>,
    timepiece: Timepiece,
    state: tokio::sync::Mutex<ChildState>,
}

#[derive(Default)]
struct ChildState {
    connection: Option<Arc<ChildConnection>>,
    failed_at: Option<Instant>,
}

/// A running child process. Dropping it ends the process.
struct ChildConnection {
    messages: mpsc::Sender<Value>,
    waiting: Arc<Waiting>,
    last_id: AtomicU64,
    _running: DropGuard,
}

/// Calls that wait for an answer. It is `None` after the child process has ended.
struct Waiting(Mutex<Option<HashMap<u64, AwaitedAnswer>>>);

/// An answer lies here until its call has its next turn, so it counts in the memory of the call before that.
struct AwaitedAnswer {
    answer: oneshot::Sender<Result<HeldAnswer, HostFault>>,
    memory: AnswerMemory,
}

impl StdioToolClient {
    pub fn new(settings: StdioToolSettings, parts: &ToolClientParts) -> Self {
        let state = tokio::sync::Mutex::default();
        Self { settings: Arc::new(settings), timepiece: parts.timepiece.clone(), state }
    }

    /// Calls a tool. The answer counts in `memory`. If the future is dropped, the child process is told that nobody waits
    /// any more.
    pub async fn call(
        &self,
        request: &ToolRequest,
        memory: Option<Arc<dyn RunMemory>>,
    ) -> Result<HeldAnswer, HostFault> {
        let connection = self.connection().await?;
        connection.ask("tools/call", mcp_message::call(request)?, memory).await
    }

    pub async fn list_tools(&self) -> Result<HeldAnswer, HostFault> {
        let connection = self.connection().await?;
        connection.ask("tools/list", json!({}), None).await
    }

    /// The running child process, or a new one.
    async fn connection(&self) -> Result<Arc<ChildConnection>, HostFault> {
        let mut state = self.state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|connection| connection.waiting.is_open())
        {
            return Ok(Arc::clone(connection));
        }
        state.connection = None;
        if state.failed_at.is_some_and(|failed| self.timepiece.instant() < failed + PAUSE) {
            return Err(HostFault::plain("the child process failed a moment ago; try again in a second"));
        }
        // Counted as failed until it has answered, because this future can be dropped while it starts.
        state.failed_at = Some(self.timepiece.instant());
        let connection = ChildConnection::start(&self.settings, &self.timepiece)?;
        let hello =
            mcp_message::initialize(PROTOCOL_VERSION, env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let hello = self.timepiece.within(OPENING, connection.ask("initialize", hello, None)).await;
        let hello =
            hello.map_err(|_| HostFault::plain("the child process did not answer `initialize`"))??;
        hello.message.result("initialize")?;
        connection.send(mcp_message::notification("notifications/initialized")).await?;
        let connection = Arc::new(connection);
        *state = ChildState { connection: Some(Arc::clone(&connection)), failed_at: None };
        Ok(connection)
    }
}

impl ChildConnection {
    fn start(settings: &Arc<StdioToolSettings>, timepiece: &Timepiece) -> Result<Self, HostFault> {
        let mut command = Command::new(&settings.command);
        command.args(&settings.arguments).env_clear().envs(settings.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut group = ProcessGroup::start(&mut command)
            .map_err(|error| HostFault::plain(format!("the child process could not be started: {error}")))?;
        let (Some(stdin), Some(stdout)) = (group.child().stdin.take(), group.child().stdout.take()) else {
            return Err(HostFault::plain("the child process has no pipes"));
        };
        let (messages, queued) = mpsc::channel(QUEUED);
        let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
        let closing = CancellationToken::new();
        let child = ChildTask {
            group,
            waiting: Arc::clone(&waiting),
            answers: messages.clone(),
            closing: closing.clone(),
            timepiece: timepiece.clone(),
            settings: Arc::clone(settings),
        };
        tokio::spawn(child.run(stdin, stdout, queued));
        Ok(Self { messages, waiting, last_id: AtomicU64::new(0), _running: closing.drop_guard() })
    }

    async fn send(&self, message: Value) -> Result<(), HostFault> {
        self.messages.send(message).await.map_err(|_| ended())
    }

    async fn ask(
        &self,
        method: &str,
        params: Value,
        memory: Option<Arc<dyn RunMemory>>,
    ) -> Result<HeldAnswer, HostFault> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut call = UnansweredCall { id, connection: self, is_answered: false };
        let answer = self.waiting.enter(id, AnswerMemory::new(memory)).ok_or_else(ended)?;
        self.send(mcp_message::request(id, method, params)).await?;
        let answer = answer.await.map_err(|_| ended());
        call.is_answered = true;
        answer?
    }
}

fn ended() -> HostFault {
    HostFault::plain("the child process has ended")
}

/// Removes a call that is dropped before its answer came.
struct UnansweredCall<'c> {
    id: u64,
    connection: &'c ChildConnection,
    is_answered: bool,
}

impl Drop for UnansweredCall<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.connection.waiting.take(self.id);
        let params = json!({ "requestId": self.id, "reason": "nobody waits for the answer any more" });
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
        // If the queue is full, the child process does not read anyway.
        let _ = self.connection.messages.try_send(cancelled);
    }
}

impl Waiting {
    fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }

    fn enter(
        &self,
        id: u64,
        memory: AnswerMemory,
    ) -> Option<oneshot::Receiver<Result<HeldAnswer, HostFault>>> {
        let (answer, receiver) = oneshot::channel();
        self.0.lock().as_mut()?.insert(id, AwaitedAnswer { answer, memory });
        Some(receiver)
    }

    fn take(&self, id: u64) -> Option<AwaitedAnswer> {
        self.0.lock().as_mut()?.remove(&id)
    }
}

impl AwaitedAnswer {
    /// Hands an answer over, or the error that there is no memory for it.
    fn answer(mut self, message: ServerMessage) {
        let held = self.memory.hold(message.size());
        // If nobody waits any more, the answer is of no use.
        let _ = self.answer.send(held.map(|()| self.memory.of(message)));
    }
}

/// The task that owns a child process: it writes, reads, and ends the process.
struct ChildTask {
    group: ProcessGroup,
    waiting: Arc<Waiting>,
    /// Answers to requests of the child process.
    answers: mpsc::Sender<Value>,
    closing: CancellationToken,
    timepiece: Timepiece,
    settings: Arc<StdioToolSettings>,
}

impl ChildTask {
    async fn run(mut self, mut stdin: ChildStdin, stdout: ChildStdout, mut queued: mpsc::Receiver<Value>) {
        let framing = self.settings.framing;
        let writing = async {
            while let Some(message) = queued.recv().await {
                if stdin.write_all(&stdio_frames::written(&message, framing)).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = writing => {}
            () = self.read(stdout) => {}
            () = self.closing.cancelled() => {
                let farewell = mcp_message::request(0, "shutdown", json!({}));
                let farewell = stdio_frames::written(&farewell, framing);
                let _ = self.timepiece.within(ENDING, stdin.write_all(&farewell)).await;
            }
        }
        // Calls that wait now get an error, and the next call starts another process.
        *self.waiting.0.lock() = None;
        drop(stdin);
        self.group.terminate();
        let _ = self.timepiece.within(ENDING, self.group.child().wait()).await;
        // Dropping the group kills what is left of it.
    }

    /// Hands answers to their calls until the child process closes its output or prints nonsense.
    async fn read(&self, stdout: ChildStdout) {
        let mut stdout = BufReader::new(stdout);
        while let Ok(Some(message)) = stdio_frames::read(&mut stdout, self.settings.framing).await {
            if let Some(id) = message.answered() {
                if let Some(call) = self.waiting.take(id) {
                    call.answer(message);
                }
                continue;
            }
            let Some((method, id)) = message.request() else { continue };
            let answer = match method.as_str() {
                "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
                _ => {
                    let error = json!({ "code": -32601, "message": "the client has no methods" });
                    json!({ "jsonrpc": "2.0", "id": id, "error": error })
                }
            };
            let _ = self.answers.try_send(answer);
        }
    }
}
