//! Writing to the peer: never for ever, and never past an order to end.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::SinkExt;
use posthouse_time::Timepiece;
use posthouse_wire::frame::in_messages;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite;

use super::Ending::{self, Close, Gone};
use super::Socket;
use crate::Relay;
use crate::desk::Desk;

/// What one message to an agent may weigh: half of what a stock one accepts.
const LARGEST_MESSAGE: usize = 512 * 1024;
/// How long the peer has to answer a close.
const CLOSING: Duration = Duration::from_secs(2);

impl Socket {
    /// One line, in messages that a stock agent accepts.
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
        let Self { relay, desk, bell, id, stream, .. } = self;
        written(relay, desk, bell, *id, stream.feed(message)).await
    }

    pub(super) async fn flush(&mut self) -> Result<(), Ending> {
        let Self { relay, desk, bell, id, stream, .. } = self;
        written(relay, desk, bell, *id, stream.flush()).await
    }

    pub(super) async fn ping(&mut self) -> Result<(), Ending> {
        self.pinged = self.now();
        self.put(Message::Ping(Bytes::new())).await?;
        self.flush().await
    }

    /// A peer that said goodbye is waiting for ours.
    pub(super) async fn answer_goodbye(&mut self) {
        let _ = self.relay.0.timepiece.within(CLOSING, self.stream.flush()).await;
    }
}

/// Closes, and lets the peer answer: a connection dropped with something unread is reset, and then the
/// peer may never see why.
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

/// Our close is on the wire already; hears the peer out, and says nothing more.
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

/// Waits for a write. One that makes no way for too long is given up, and one that was ordered to end
/// ends although its peer does not read.
async fn written<E>(
    relay: &Relay,
    desk: &Desk,
    bell: &Notify,
    socket: u64,
    write: impl Future<Output = Result<(), E>>,
) -> Result<(), Ending> {
    let (mut write, limit) = (std::pin::pin!(write), relay.0.timepiece.after(relay.0.config.silent_after.0));
    let (mut limit, mut rung) = (std::pin::pin!(limit), false);
    let ended = loop {
        tokio::select! {
            biased;
            done = &mut write => break done.map_err(|_| Gone),
            () = &mut limit => break Err(Close { code: 1001, reason: "silent" }),
            () = bell.notified() => {
                rung = true;
                if let Some((code, reason)) = desk.state.lock().seat(socket).and_then(|seat| seat.ordered_to_close()) {
                    break Err(Close { code, reason });
                }
            }
        }
    };
    if rung {
        // Whatever else the bell rang for is still to be heeded.
        bell.notify_one();
    }
    ended
}

/// What reading ended with. Only a message past every limit is worth telling the peer about.
pub(super) fn broken(error: axum::Error) -> Ending {
    match error.into_inner().downcast_ref::<tungstenite::Error>() {
        Some(tungstenite::Error::Capacity(_)) => Close { code: 1009, reason: "message too long" },
        _ => Gone,
    }
}
