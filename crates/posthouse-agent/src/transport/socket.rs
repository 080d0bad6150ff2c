//! One socket's life: hello, then read and write side by side until it ends.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use posthouse_wire::frame::{Hello, Lines, in_messages};
use posthouse_wire::{FromGateway, ToGateway};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::sync::CancellationToken;

use super::backoff::End;
use super::dial::LONGEST_READ;
use super::hands::Delivery;
use super::line::Line;
use super::{Fault, Inbound, Standing, stream};

/// What a message may hold on this wire (section 4); a longer line spans several.
const LONGEST_MESSAGE: usize = 512 << 10;
/// How often silence is looked at. Three looks without a word, 90 s, and the line counts as dead.
const LOOK: Duration = Duration::from_secs(30);
const PATIENCE: u32 = 3;
/// How long a close handshake may take before the socket is simply dropped.
const CLOSING: Duration = Duration::from_secs(2);

/// What reader and writer tell each other.
#[derive(Default)]
pub(super) struct Pulse {
    heard: AtomicBool,
    accepted: AtomicBool,
}

impl Pulse {
    /// The house described an identity of ours on this socket.
    pub(super) fn accepted(&self) -> bool {
        self.accepted.load(Ordering::Acquire)
    }
}

/// Holds the line on `socket` until it falls or `stop` is wished for.
pub(super) async fn hold(
    line: &Line,
    socket: WebSocketStream<stream::Stream>,
    pulse: &Pulse,
    stop: &CancellationToken,
) -> End {
    let (mut sink, mut stream) = socket.split();
    // Both at once, neither ever dropped half way: a house that reads no further until we do must not
    // meet an agent that does the same.
    let mut reading = pin!(read(line, &mut stream, pulse));
    let written = {
        let writing = pin!(write(line, &mut sink, pulse, stop));
        // A write that the house does not take must not keep us from leaving.
        let leaving = async {
            stop.cancelled().await;
            tokio::time::sleep(CLOSING).await;
        };
        tokio::select! {
            end = &mut reading => return end,
            written = writing => written,
            () = leaving => return End::Stopped,
        }
    };
    let end = match written {
        Ok(end) => end,
        // The reader may still find the house's reason on the line.
        Err(broken) => return tokio::time::timeout(CLOSING, reading).await.unwrap_or(broken),
    };
    let _ = tokio::time::timeout(CLOSING, async {
        let farewell = match &end {
            End::Stopped => CloseFrame { code: CloseCode::Normal, reason: "".into() },
            _ => CloseFrame { code: CloseCode::Policy, reason: "no usable answer".into() },
        };
        if sink.send(Message::Close(Some(farewell))).await.is_ok() {
            reading.await;
        }
    })
    .await;
    end
}

/// Ends with what we decided, or with the write that failed.
async fn write<S>(line: &Line, sink: &mut S, pulse: &Pulse, stop: &CancellationToken) -> Result<End, End>
where
    S: Sink<Message, Error = tungstenite::Error> + Unpin,
{
    send(line, sink, hellos(line)).await?;
    // Everything that still waits for an answer is said again here: the count starts anew.
    let mut written = 0;
    let mut quiet = 0;
    let mut look = pin!(line.timepiece.after(LOOK));
    loop {
        // Asked before the outbox is emptied: what was acknowledged before the wish still leaves.
        let stopping = stop.is_cancelled();
        if pulse.accepted() {
            let mut batch = String::new();
            line.outbox.drain_into(&mut batch);
            line.requests.write_after(&mut written, &mut batch, LONGEST_MESSAGE / 2);
            if !batch.is_empty() {
                send(line, sink, batch).await?;
                continue;
            }
        }
        if stopping {
            return Ok(End::Stopped);
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = line.outbox.ready.notified() => {}
            () = &mut look => {
                if !pulse.accepted() {
                    return Ok(End::Fell(Fault::NoIdentity));
                }
                quiet = if pulse.heard.swap(false, Ordering::Relaxed) { 0 } else { quiet + 1 };
                if quiet == PATIENCE {
                    return Ok(silence());
                }
                sink.send(Message::Ping(bytes::Bytes::new())).await.map_err(|fault| fell(&fault))?;
                look.set(line.timepiece.after(LOOK));
            }
        }
    }
}

/// All identities at once, without waiting (section 7).
fn hellos(line: &Line) -> String {
    let settings = &line.settings;
    let hello = |identity: &crate::Identity| {
        FromGateway::Hello(Hello {
            platform: identity.platform.clone(),
            bot_id: identity.bot_id.clone(),
            client: Some(concat!("posthouse-agent/", env!("CARGO_PKG_VERSION")).to_owned()),
            window: Some(settings.window),
            fires: settings.fires,
            has_command_manifest: false,
        })
    };
    settings.identities.iter().map(|identity| hello(identity).line()).collect()
}

/// Sends whole lines, in as few messages as the limit allows, with one flush. A house that takes nothing
/// for as long as it may be silent counts as silent.
async fn send<S>(line: &Line, sink: &mut S, batch: String) -> Result<(), End>
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
    match line.timepiece.within(LOOK * PATIENCE, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(fault)) => Err(fell(&fault)),
        Err(_) => Err(silence()),
    }
}

async fn read<S>(line: &Line, stream: &mut S, pulse: &Pulse) -> End
where
    S: Stream<Item = Result<Message, tungstenite::Error>> + Unpin,
{
    let mut lines = Lines::new(LONGEST_READ);
    let mut frames = Vec::new();
    while let Some(message) = stream.next().await {
        pulse.heard.store(true, Ordering::Relaxed);
        let payload = match message {
            Ok(Message::Text(text)) => bytes::Bytes::from(text),
            Ok(Message::Binary(bytes)) => bytes,
            Ok(Message::Close(frame)) => {
                // One more poll sends our half of the close handshake; the house hangs up, not we.
                let _ = futures_util::poll!(stream.next());
                return closed(frame);
            }
            // Pings are answered underneath.
            Ok(_) => continue,
            Err(fault) => return fell(&fault),
        };
        let whole = lines.push(&payload, |line| frames.extend(ToGateway::read(line).ok()));
        for frame in frames.drain(..) {
            take(line, frame, pulse).await;
        }
        if let Err(overlong) = whole {
            return End::Fell(Fault::Fell(overlong.to_string()));
        }
    }
    End::Fell(Fault::Fell("the house hung up".into()))
}

async fn take(line: &Line, frame: ToGateway, pulse: &Pulse) {
    match frame {
        ToGateway::Descriptor(descriptor) => {
            line.learn(*descriptor);
            if !pulse.accepted.swap(true, Ordering::AcqRel) {
                line.standing.send_replace(Standing::Live);
                line.outbox.ready.notify_one();
            }
        }
        ToGateway::Inbound { event, entry } => {
            line.hands.receive(Delivery::Event(Inbound { event, entry })).await;
        }
        ToGateway::PassthroughForward { forward, entry } => {
            line.hands.receive(Delivery::Forward { forward, entry }).await;
        }
        ToGateway::OutboundResult { request_id, result } => line.requests.settle(&request_id, result),
        ToGateway::InterruptInbound { session_key, chat_id } => {
            if let Some(handler) = line.hands.handler() {
                handler.interrupted(&session_key, &chat_id);
            }
        }
        ToGateway::GoingIdleAck => {
            line.idle_confirmed.send_replace(true);
        }
        ToGateway::CronFire { request_id, fire } => {
            let Some(handler) = line.hands.handler() else { return };
            let outbox = Arc::clone(&line.outbox);
            // Beside the reader: a claim takes a while, and nothing else waits for it.
            tokio::spawn(async move {
                let (status, fired) = handler.fired(fire).await;
                outbox.aside(&FromGateway::CronFired { request_id, status, fired });
            });
        }
    }
}

fn closed(frame: Option<CloseFrame>) -> End {
    let Some(frame) = frame else { return End::Fell(Fault::Fell("closed without a word".into())) };
    match u16::from(frame.code) {
        4401 => End::Refused { expired: frame.reason.as_str() == "expired" },
        4409 => End::Superseded,
        code => End::Fell(Fault::Fell(format!("closed with {code} {}", frame.reason.as_str()))),
    }
}

fn fell(fault: &tungstenite::Error) -> End {
    End::Fell(Fault::Fell(fault.to_string()))
}

fn silence() -> End {
    End::Fell(Fault::Fell("silence".into()))
}
