//! `posthouse mcp --stdio`: the tools of a running server over standard input and output, for MCP clients that start a
//! command.
//!
//! It is a client of the server's `/mcp` and has no storage of its own.

mod forwarding;
mod framing;

use std::collections::HashMap;
use std::io::{self, BufReader};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use self::forwarding::{Forwarding, Replies};
use self::framing::Framing;
use super::program_client::ClientCredentialArgs;
use super::server_address::ServerOptions;

/// Requests that are forwarded at the same time. Further ones wait.
const AT_ONCE: usize = 32;
/// Messages that wait to be forwarded or written.
const QUEUE: usize = 64;

#[derive(Args)]
pub struct McpArgs {
    /// Speak over standard input and output; the only way so far
    #[arg(long, required = true)]
    stdio: bool,
    #[command(flatten)]
    credential: ClientCredentialArgs,
}

impl McpArgs {
    pub async fn act(self, server: &ServerOptions) -> anyhow::Result<()> {
        let (id, secret) = self.credential.read()?;
        if !server.is_given() {
            bail!("no server given: use --url URL, or set POSTHOUSE_URL");
        }
        let forwarding = Forwarding::new(server.url()?, id, secret)?;
        let Some((framing, input)) = begin().await? else { return Ok(()) };
        let (replies, writer) = start_writer(framing);
        let result = tokio::select! {
            forwarded = forward_all(&forwarding, input, &replies) => forwarded,
            () = terminated() => Ok(()),
        };
        forwarding.end().await;
        drop(replies);
        // Every answer is written before the process ends.
        writer.await.context("the writer of standard output failed")?;
        result
    }
}

/// One message of the input, or why there are no more.
type Incoming = io::Result<Vec<u8>>;

/// Starts to read the input in a thread of its own, because a blocked read must not keep the process from ending.
/// Returns when the framing is known. None if the input ends at once.
async fn begin() -> anyhow::Result<Option<(Framing, mpsc::Receiver<Incoming>)>> {
    let (detected, detection) = tokio::sync::oneshot::channel();
    let (messages, incoming) = mpsc::channel(QUEUE);
    std::thread::spawn(move || {
        let mut input = BufReader::new(io::stdin().lock());
        let framing = Framing::detect(&mut input);
        let Ok(Some(known)) = &framing else {
            let _ = detected.send(framing);
            return;
        };
        let known = *known;
        let _ = detected.send(framing);
        while let Some(message) = known.read(&mut input).transpose() {
            let is_end = message.is_err();
            if messages.blocking_send(message).is_err() || is_end {
                return;
            }
        }
    });
    let framing = tokio::select! {
        detected = detection => detected.context("cannot read standard input")?,
        () = terminated() => Ok(None),
    };
    Ok(framing.context("cannot read standard input")?.map(|framing| (framing, incoming)))
}

/// Writes replies in the framing of the input.
fn start_writer(framing: Framing) -> (Replies, tokio::task::JoinHandle<()>) {
    let (replies, mut pending) = mpsc::channel::<Value>(QUEUE);
    let writer = tokio::task::spawn_blocking(move || {
        let mut output = io::stdout().lock();
        while let Some(reply) = pending.blocking_recv() {
            // A client that no longer reads has ended.
            if framing.write(&mut output, reply.to_string().as_bytes()).is_err() {
                return;
            }
        }
    });
    (replies, writer)
}

/// Forwards messages until the input ends, and then waits for the answers that are still missing.
async fn forward_all(
    forwarding: &Forwarding,
    mut input: mpsc::Receiver<Incoming>,
    replies: &Replies,
) -> anyhow::Result<()> {
    let mut requests = ForwardedRequests::default();
    while let Some(message) = input.recv().await {
        let message = message.context("cannot read standard input")?;
        let Ok(message) = serde_json::from_slice::<Value>(&message) else {
            let error = json!({ "code": -32700, "message": "Parse error" });
            let _ = replies.send(json!({ "jsonrpc": "2.0", "id": null, "error": error })).await;
            continue;
        };
        match message["method"].as_str() {
            // Of the language server protocol, whose framing some clients use.
            Some("shutdown") => {
                let _ = replies.send(json!({ "jsonrpc": "2.0", "id": message["id"], "result": null })).await;
            }
            Some("exit") => break,
            Some("notifications/cancelled") => requests.cancel(&message["params"]["requestId"]),
            // The order of these matters: the session must be known before anything uses it.
            Some("initialize") => forwarding.forward(message, replies).await,
            _ if message.get("id").is_none() => forwarding.forward(message, replies).await,
            _ => requests.start(forwarding.clone(), message, replies.clone()).await,
        }
    }
    requests.finish().await;
    Ok(())
}

/// Requests that the server has not answered yet.
#[derive(Default)]
struct ForwardedRequests {
    running: JoinSet<String>,
    by_id: HashMap<String, AbortHandle>,
}

impl ForwardedRequests {
    async fn start(&mut self, forwarding: Forwarding, message: Value, replies: Replies) {
        while self.running.len() >= AT_ONCE {
            self.forget_next().await;
        }
        while let Some(ended) = self.running.try_join_next() {
            self.forget(ended.ok());
        }
        let id = message["id"].to_string();
        let task = self.running.spawn({
            let id = id.clone();
            async move {
                forwarding.forward(message, &replies).await;
                id
            }
        });
        self.by_id.insert(id, task);
    }

    /// Ends a request that the client gave up. Its connection is closed, which ends a stream at the server.
    fn cancel(&mut self, id: &Value) {
        if let Some(task) = self.by_id.remove(&id.to_string()) {
            task.abort();
        }
    }

    /// Waits for the answers. A stream without an end is not waited for.
    async fn finish(mut self) {
        let limit = std::time::Duration::from_secs(65);
        let _ = tokio::time::timeout(limit, async {
            while !self.running.is_empty() {
                self.forget_next().await;
            }
        })
        .await;
    }

    async fn forget_next(&mut self) {
        let ended = self.running.join_next().await;
        self.forget(ended.and_then(Result::ok));
    }

    fn forget(&mut self, ended: Option<String>) {
        if let Some(id) = ended {
            self.by_id.remove(&id);
        }
    }
}

/// Resolves when the process is asked to end.
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
