//! One socket, from hello to close: reads and writes concurrently until it ends.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use posthouse_wire::frame::{Hello, LineAssembler, in_messages};
use posthouse_wire::{FromGateway, ToGateway};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::sync::CancellationToken;

use super::backoff::ConnectionEnd;
use super::connection::RelayConnection;
use super::delivery_queue::QueuedDelivery;
use super::dial::LONGEST_READ;
use super::{ConnectionState, Fault, Inbound, stream};

/// Longest message of this protocol (section 4). A longer text line spans several messages.
const LONGEST_MESSAGE: usize = 512 << 10;
/// Interval between checks for silence. After three checks without anything received (90 s) the connection
/// counts as dead.
const LOOK: Duration = Duration::from_secs(30);
const PATIENCE: u32 = 3;
/// Time limit of a close handshake. After it the socket is dropped.
const CLOSING: Duration = Duration::from_secs(2);

/// State shared by reader and writer.
#[derive(Default)]
pub(super) struct SocketState {
    heard: AtomicBool,
    accepted: AtomicBool,
}

impl SocketState {
    /// The server has described one of the agent's identities on this socket.
    pub(super) fn accepted(&self) -> bool {
        self.accepted.load(Ordering::Acquire)
    }
}

/// Runs `socket` until it ends or `stop` is cancelled.
pub(super) async fn hold(
    connection: &RelayConnection,
    socket: WebSocketStream<stream::Stream>,
    pulse: &SocketState,
    stop: &CancellationToken,
) -> ConnectionEnd {
    let (mut sink, mut stream) = socket.split();
    // Reading and writing run concurrently, and neither is dropped half way. Otherwise a server that does
    // not read until the agent reads could deadlock with it.
    let mut reading = pin!(read(connection, &mut stream, pulse));
    let written = {
        let writing = pin!(write(connection, &mut sink, pulse, stop));
        // A write that the server does not accept must not delay stopping.
        let leaving = async {
            stop.cancelled().await;
            tokio::time::sleep(CLOSING).await;
        };
        tokio::select! {
            end = &mut reading => return end,
            written = writing => written,
            () = leaving => return ConnectionEnd::Stopped,
        }
    };
    let end = match written {
        Ok(end) => end,
        // The reader may still find the server's close reason.
        Err(broken) => return tokio::time::timeout(CLOSING, reading).await.unwrap_or(broken),
    };
    let _ = tokio::time::timeout(CLOSING, async {
        let farewell = match &end {
            ConnectionEnd::Stopped => CloseFrame { code: CloseCode::Normal, reason: "".into() },
            _ => CloseFrame { code: CloseCode::Policy, reason: "no usable answer".into() },
        };
        if sink.send(Message::Close(Some(farewell))).await.is_ok() {
            reading.await;
        }
    })
    .await;
    end
}

/// `Ok`: the agent ends the connection. `Err`: a write failed.
async fn write<S>(
    connection: &RelayConnection,
    sink: &mut S,
    pulse: &SocketState,
    stop: &CancellationToken,
) -> Result<ConnectionEnd, ConnectionEnd>
where
    S: Sink<Message, Error = tungstenite::Error> + Unpin,
{
    send(connection, sink, hellos(connection)).await?;
    // Starts at zero, so every request without a result is sent again on this socket.
    let mut written = 0;
    let mut quiet = 0;
    let mut look = pin!(connection.timepiece.after(LOOK));
    loop {
        // Read before the pending frames are drained, so that acknowledgements made before the stop are still sent.
        let stopping = stop.is_cancelled();
        if pulse.accepted() {
            let mut batch = String::new();
            connection.frames.drain_into(&mut batch);
            connection.requests.write_after(&mut written, &mut batch, LONGEST_MESSAGE / 2);
            if !batch.is_empty() {
                send(connection, sink, batch).await?;
                continue;
            }
        }
        if stopping {
            return Ok(ConnectionEnd::Stopped);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = connection.frames.ready.notified() => {}
            () = &mut look => {
                if !pulse.accepted() {
                    return Ok(ConnectionEnd::Fell(Fault::NoIdentity));
                }
                quiet = if pulse.heard.swap(false, Ordering::Relaxed) { 0 } else { quiet + 1 };
                if quiet == PATIENCE {
                    return Ok(silence());
                }
                sink.send(Message::Ping(bytes::Bytes::new())).await.map_err(|fault| fell(&fault))?;
                look.set(connection.timepiece.after(LOOK));
            }
        }
    }
}

/// All identities at once, without waiting for replies (section 7).
fn hellos(connection: &RelayConnection) -> String {
    let settings = &connection.settings;
    let hello = |identity: &crate::BotIdentity| {
        FromGateway::Hello(Hello {
            platform: identity.platform.clone(),
            bot_id: identity.bot_id.clone(),
            client: Some(concat!("posthouse-agent/", env!("CARGO_PKG_VERSION")).to_owned()),
            window: Some(settings.window),
            fires: settings.fires,
            command_manifest: None,
        })
    };
    settings.identities.iter().map(|identity| hello(identity).line()).collect()
}

/// Sends whole lines, in as few messages as the limit allows, with one flush. A server that accepts nothing
/// for 90 s counts as silent.
async fn send<S>(connection: &RelayConnection, sink: &mut S, batch: String) -> Result<(), ConnectionEnd>
where
    S: Sink<Message, Error = tungstenite::Error> + Unpin,
{
    let sending = async {
        if batch.len() <= LONGEST_MESSAGE {
            sink.feed(Message::text(batch)).await?;
        } else {
            for message in in_messages(&batch, LONGEST_MESSAGE) {
                sink.feed(Message::text(message)).await?;
            }
        }
        sink.flush().await
    };
    match connection.timepiece.within(LOOK * PATIENCE, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(fault)) => Err(fell(&fault)),
        Err(_) => Err(silence()),
    }
}

async fn read<S>(connection: &RelayConnection, stream: &mut S, pulse: &SocketState) -> ConnectionEnd
where
    S: Stream<Item = Result<Message, tungstenite::Error>> + Unpin,
{
    let mut lines = LineAssembler::new(LONGEST_READ);
    let mut frames = Vec::new();
    while let Some(message) = stream.next().await {
        pulse.heard.store(true, Ordering::Relaxed);
        let payload = match message {
            Ok(Message::Text(text)) => bytes::Bytes::from(text),
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Close(frame)) => {
                // One more poll sends this side's half of the close handshake. The server closes the TCP
                // connection.
                let _ = futures_util::poll!(stream.next());
                return closed(frame);
            }
            // The WebSocket library answers pings.
            Ok(_) => continue,
            Err(fault) => return fell(&fault),
        };
        let whole = lines.push(&payload, |line| frames.extend(ToGateway::read(line).ok()));
        for frame in frames.drain(..) {
            take(connection, frame, pulse).await;
        }
        if let Err(overlong) = whole {
            return ConnectionEnd::Fell(Fault::Fell(overlong.to_string()));
        }
    }
    ConnectionEnd::Fell(Fault::Fell("the server closed the connection".into()))
}

async fn take(connection: &RelayConnection, frame: ToGateway, pulse: &SocketState) {
    match frame {
        ToGateway::Descriptor(descriptor) => {
            connection.learn(*descriptor);
            if !pulse.accepted.swap(true, Ordering::AcqRel) {
                connection.state.send_replace(ConnectionState::Live);
                connection.frames.ready.notify_one();
            }
        }
        ToGateway::Inbound { event, entry } => {
            connection.deliveries.receive(QueuedDelivery::Event(Inbound { event, entry })).await;
        }
        ToGateway::PassthroughForward { forward, entry } => {
            connection.deliveries.receive(QueuedDelivery::Forward { forward, entry }).await;
        }
        ToGateway::OutboundResult { request_id, result } => connection.requests.settle(&request_id, result),
        ToGateway::InterruptInbound { session_key, chat_id } => {
            if let Some(handler) = connection.deliveries.handler() {
                handler.interrupted(&session_key, &chat_id);
            }
        }
        ToGateway::GoingIdleAck => {
            connection.idle_confirmed.send_replace(true);
        }
        ToGateway::CronFire { request_id, fire } => {
            let Some(handler) = connection.deliveries.handler() else { return };
            let frames = Arc::clone(&connection.frames);
            // In its own task, because a claim takes a while and the reader must not wait for it.
            tokio::spawn(async move {
                let (status, fired) = handler.fired(fire).await;
                frames.aside(&FromGateway::CronFired { request_id, status, fired });
            });
        }
    }
}

fn closed(frame: Option<CloseFrame>) -> ConnectionEnd {
    let Some(frame) = frame else {
        return ConnectionEnd::Fell(Fault::Fell("closed without a reason".into()));
    };
    match u16::from(frame.code) {
        4401 => ConnectionEnd::Refused { expired: frame.reason.as_str() == "expired" },
        4409 => ConnectionEnd::Superseded,
        code => {
            ConnectionEnd::Fell(Fault::Fell(format!("closed with code {code} {}", frame.reason.as_str())))
        }
    }
}

fn fell(fault: &tungstenite::Error) -> ConnectionEnd {
    ConnectionEnd::Fell(Fault::Fell(fault.to_string()))
}

fn silence() -> ConnectionEnd {
    ConnectionEnd::Fell(Fault::Fell("nothing received for 90 s".into()))
}
