//! Writing to the peer, with a time limit, and interrupted by an order to close.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::SinkExt;
use posthouse_time::Timepiece;
use posthouse_wire::frame::in_messages;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite;

use super::Ending::{self, Close, Gone};
use super::{SILENT_AFTER, Socket};
use crate::agent_connections::AgentConnections;

/// Largest message to an agent, in bytes: half of what a stock agent accepts.
const LARGEST_MESSAGE: usize = 512 * 1024;
/// Time limit for the peer to answer a close.
const CLOSING: Duration = Duration::from_secs(2);

impl Socket {
    /// Sends one line, split into messages of a size that a stock agent accepts.
    pub(super) async fn send(&mut self, line: &str) -> Result<(), Ending> {
        self.feed(line).await?;
        self.flush().await
    }

    pub(super) async fn feed(&mut self, line: &str) -> Result<(), Ending> {
        for message in in_messages(line, LARGEST_MESSAGE) {
            self.put(Message::text(message)).await?;
        }
        Ok(())
    }

    pub(super) async fn put(&mut self, message: Message) -> Result<(), Ending> {
        let Self { components, connections, orders_ready, id, stream, .. } = self;
        written(&components.timepiece, connections, orders_ready, *id, stream.feed(message)).await
    }

    pub(super) async fn flush(&mut self) -> Result<(), Ending> {
        let Self { components, connections, orders_ready, id, stream, .. } = self;
        written(&components.timepiece, connections, orders_ready, *id, stream.flush()).await
    }

    pub(super) async fn ping(&mut self) -> Result<(), Ending> {
        self.ping_with(Bytes::new()).await
    }

    /// Sends a ping whose payload identifies its pong.
    pub(super) async fn ping_with(&mut self, payload: Bytes) -> Result<(), Ending> {
        self.pinged = self.now();
        self.put(Message::Ping(payload)).await?;
        self.flush().await
    }

    /// Completes the closing handshake that the peer began.
    pub(super) async fn answer_goodbye(&mut self) {
        let _ = self.components.timepiece.within(CLOSING, self.stream.flush()).await;
    }
}

/// Closes, and waits for the peer's close. A connection dropped with unread data is reset, and the peer might never
/// see the close code.
pub(crate) async fn say_goodbye(
    stream: &mut WebSocket,
    timepiece: &Timepiece,
    code: u16,
    reason: &'static str,
) {
    let goodbye = async {
        if stream.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await.is_ok() {
            while let Some(Ok(_)) = stream.recv().await {}
        }
    };
    let _ = timepiece.within(CLOSING, goodbye).await;
}

/// Waits for the peer's close, after ours was already sent.
pub(crate) async fn await_goodbye(stream: &mut WebSocket, timepiece: &Timepiece) {
    let goodbye = async {
        while let Some(Ok(message)) = stream.recv().await {
            if matches!(message, Message::Close(_)) {
                return;
            }
        }
    };
    let _ = timepiece.within(CLOSING, goodbye).await;
}

/// Waits for a write. Gives up after [`SILENT_AFTER`]. An order to close ends the write even if the peer does not
/// read.
async fn written<E>(
    timepiece: &Timepiece,
    connections: &AgentConnections,
    orders_ready: &Notify,
    socket: u64,
    write: impl Future<Output = Result<(), E>>,
) -> Result<(), Ending> {
    let (mut write, limit) = (std::pin::pin!(write), timepiece.after(SILENT_AFTER));
    let (mut limit, mut rung) = (std::pin::pin!(limit), false);
    let ended = loop {
        tokio::select! {
            biased;
            done = &mut write => break done.map_err(|_| Gone),
            () = &mut limit => break Err(Close { code: 1001, reason: "silent" }),
            () = orders_ready.notified() => {
                rung = true;
                if let Some((code, reason)) = connections.state.lock().seat(socket).and_then(|seat| seat.ordered_to_close()) {
                    break Err(Close { code, reason });
                }
            }
        }
    };
    if rung {
        // The notification was consumed here, but other orders may still be waiting.
        orders_ready.notify_one();
    }
    ended
}

/// Converts a read error. Only a message above the size limit gets its own close code.
pub(super) fn broken(error: axum::Error) -> Ending {
    match error.into_inner().downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => Close { code: 1009, reason: "message too long" },
        _ => Gone,
    }
}
