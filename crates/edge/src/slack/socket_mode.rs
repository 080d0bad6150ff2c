//! Socket Mode: a socket over which Slack sends the events, interactions and slash commands of a bot.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use posthouse_time::Instant;
use reqwest::Url;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::api::WebApiCall;
use super::{COMMANDS_DOOR, EVENTS_DOOR, INTERACTIONS_DOOR, LABEL, Slack};
use crate::bots::OpenedBot;
use crate::event_feed::{EventFeed, EventLanes, FeedEnd, lane_of};
use crate::platform::{PayloadText, Platform, Reading, VerifiedRequest};
use crate::platform_calls::{CallFailure, PlatformSocket, RefusalKind, SocketFrame};

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Largest frame, in bytes.
const LARGEST_FRAME: usize = 4 << 20;
/// Time without any frame after which Slack is asked for a sign of life, and after which the socket counts as dead.
const QUIET: Duration = Duration::from_secs(30);
const DEAD: Duration = Duration::from_secs(75);
/// A socket that is to be replaced so soon after its opening is not replaced but opened again after a pause.
const SOONEST_REPLACEMENT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct SocketAddress {
    url: String,
}

/// A frame of Slack.
#[derive(Deserialize)]
struct SocketEnvelope<'a> {
    #[serde(borrow, rename = "type")]
    kind: PayloadText<'a>,
    #[serde(borrow)]
    envelope_id: Option<PayloadText<'a>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    /// Of a `disconnect`.
    #[serde(borrow)]
    reason: Option<PayloadText<'a>>,
    #[serde(default)]
    accepts_response_payload: bool,
}

/// What follows from a frame.
enum FrameResult {
    Nothing,
    /// The socket is accepted.
    Hello,
    /// The acknowledgement to send at once.
    Acknowledge(String),
    Event(Box<EnvelopeEvent>),
    /// Slack ends this socket soon.
    Replace,
    /// The operator has switched Socket Mode off.
    SwitchedOff,
}

/// An event that is to be stored.
struct EnvelopeEvent {
    envelope: String,
    accepts_response_payload: bool,
    reading: Reading,
}

/// A socket with its number. An event is acknowledged on the socket over which it came.
struct NumberedSocket {
    number: u64,
    opened: Instant,
    socket: PlatformSocket,
}

/// The open sockets of a bot. Slack asks from time to time for a new one; the old one is then served until it ends, so
/// that there is always one open.
struct OpenSockets {
    current: NumberedSocket,
    leaving: Option<NumberedSocket>,
}

impl OpenSockets {
    /// The next frame, with the number of its socket. It is cancel-safe.
    async fn next(&mut self) -> (u64, SocketFrame) {
        let leaving = async {
            match &mut self.leaving {
                Some(leaving) => (leaving.number, leaving.socket.next().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            frame = self.current.socket.next() => (self.current.number, frame),
            framed = leaving => framed,
        }
    }

    /// Sends an acknowledgement. If its socket has ended, Slack repeats the event, which is then known.
    async fn acknowledge(&mut self, number: u64, acknowledgement: String) {
        let mut sockets = std::iter::once(&mut self.current).chain(&mut self.leaving);
        if let Some(open) = sockets.find(|open| open.number == number) {
            open.socket.send_text(acknowledgement).await;
        }
    }
}

/// Serves the sockets of a bot. An event that waits holds up neither the sockets nor the events of other channels.
pub(super) async fn fetch(slack: &Slack, feed: &mut EventFeed) -> FeedEnd {
    let stop = feed.stop.clone();
    let reader = FrameReader {
        slack,
        platform: Arc::new(slack.clone()),
        bot: Arc::clone(&feed.bot),
        intake: feed.intake.clone(),
    };
    let current = match stop.run_until_cancelled(reader.open(1)).await {
        None => return FeedEnd::Stopped,
        Some(Ok(socket)) => socket,
        Some(Err(end)) => return end,
    };
    let mut sockets = OpenSockets { current, leaving: None };
    let mut lanes = EventLanes::default();
    // The lanes bound it: each event in them is answered once.
    let (stored, mut acknowledgements) = mpsc::unbounded_channel();
    let mut events = 0;
    let end = loop {
        let (number, frame) = tokio::select! {
            () = stop.cancelled() => break FeedEnd::Stopped,
            // An event that could not be stored is not acknowledged, and does not stop its lane.
            _ = lanes.next() => continue,
            Some((number, acknowledgement)) = acknowledgements.recv() => {
                sockets.acknowledge(number, acknowledgement).await;
                continue;
            }
            framed = sockets.next(), if !lanes.is_full() => framed,
            () = slack.timepiece.after(QUIET) => {
                // Frames of the other socket must not hide that this one is dead. Nobody listens while the lanes are full.
                let is_dead = sockets.current.socket.quiet_for() >= DEAD && !lanes.is_full();
                if is_dead || !sockets.current.socket.ping().await {
                    reader.warn("the socket is dead; connecting again");
                    break FeedEnd::Failed;
                }
                continue;
            }
        };
        let is_leaving = number != sockets.current.number;
        let text = match frame {
            SocketFrame::Text(text) => text,
            SocketFrame::Binary(_) => continue,
            SocketFrame::Closed(_) if is_leaving => {
                sockets.leaving = None;
                continue;
            }
            SocketFrame::Closed(_) => {
                reader.warn("Slack ended the socket; connecting again");
                break FeedEnd::Failed;
            }
        };
        match reader.read(&text) {
            FrameResult::Nothing => {}
            FrameResult::Hello => feed.works(),
            FrameResult::Acknowledge(acknowledgement) => sockets.acknowledge(number, acknowledgement).await,
            FrameResult::Event(event) => {
                if !event.reading.moved.is_empty() {
                    // Messages to the old id of a channel still find its route, and those to the new one already do.
                    lanes.finish().await;
                }
                events += 1;
                let (reader, stored, lane) = (&reader, stored.clone(), lane_of(&event.reading));
                let storing = async move {
                    if let Some(acknowledgement) = reader.store(*event).await {
                        // Nobody listens any more if the connection has ended.
                        let _ = stored.send((number, acknowledgement));
                    }
                    true
                };
                lanes.push(events, lane, text.len(), storing.boxed());
            }
            FrameResult::Replace if is_leaving => {}
            FrameResult::Replace => {
                if slack.timepiece.instant().since(sockets.current.opened) < SOONEST_REPLACEMENT {
                    break FeedEnd::Failed;
                }
                match stop.run_until_cancelled(reader.open(number + 1)).await {
                    None => break FeedEnd::Stopped,
                    Some(Ok(next)) => {
                        sockets.leaving = Some(std::mem::replace(&mut sockets.current, next));
                    }
                    Some(Err(end)) => break end,
                }
            }
            FrameResult::SwitchedOff => {
                tracing::error!(bot.id = %reader.bot.id, "Socket Mode is switched off for this app: switch it on in the app's settings");
                break FeedEnd::NeedsOperator;
            }
        }
    };
    lanes.finish_running().await;
    while let Ok((number, acknowledgement)) = acknowledgements.try_recv() {
        sockets.acknowledge(number, acknowledgement).await;
    }
    if end == FeedEnd::Stopped {
        sockets.current.socket.close(1000).await;
    }
    end
}

/// Reads the frames of one bot.
struct FrameReader<'a> {
    slack: &'a Slack,
    platform: Arc<dyn Platform>,
    bot: Arc<OpenedBot>,
    intake: crate::intake::Intake,
}

impl FrameReader<'_> {
    fn warn(&self, what: &str) {
        tracing::warn!(bot.id = %self.bot.id, "Socket Mode: {what}");
    }

    /// Asks for an address and connects to it. The address is a credential, and can be used once.
    async fn open(&self, number: u64) -> Result<NumberedSocket, FeedEnd> {
        let call = WebApiCall::form("apps.connections.open", Vec::new()).by_app();
        let asked = self.slack.call::<SocketAddress>(&self.bot, call, TIME_LIMIT).await;
        let opened = match asked {
            Ok(address) if self.is_socket_address(&address.url) => {
                self.slack.client.open_socket(&address.url, LARGEST_FRAME).await
            }
            Ok(_) => Err(CallFailure::Unreached("the address of the socket is not Slack's".to_owned())),
            Err(failure) => Err(failure),
        };
        let opened_at = self.slack.timepiece.instant();
        let numbered = opened.map(|socket| NumberedSocket { number, opened: opened_at, socket });
        numbered.map_err(|failure| {
            // A refused token leads to a check of the credential, which logs it.
            if failure.is_credential_dead() {
                return FeedEnd::Failed;
            }
            self.warn(&format!("could not connect: {}", failure.cause(LABEL)));
            match failure {
                CallFailure::Refused(refusal) if refusal.kind == RefusalKind::Forbidden => {
                    FeedEnd::NeedsOperator
                }
                _ => FeedEnd::Failed,
            }
        })
    }

    /// Whether events may come from this address: encrypted from Slack, or from a stand-in.
    fn is_socket_address(&self, address: &str) -> bool {
        let Ok(url) = Url::parse(address) else { return false };
        let host = url.host_str().unwrap_or_default();
        let is_slack = ["slack.com", "slack-gov.com"].iter().any(|domain| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        url.scheme() == "wss" && is_slack || self.slack.is_stand_in(&self.bot, &url)
    }

    /// Reads one frame. What it holds is acknowledged after it is stored.
    fn read(&self, text: &str) -> FrameResult {
        let Ok(envelope) = serde_json::from_str::<SocketEnvelope<'_>>(text) else {
            self.warn("skipped a frame that cannot be read");
            return FrameResult::Nothing;
        };
        let door = match &*envelope.kind {
            "hello" => return FrameResult::Hello,
            "disconnect" if envelope.reason.as_deref() == Some("link_disabled") => {
                return FrameResult::SwitchedOff;
            }
            "disconnect" => return FrameResult::Replace,
            "events_api" => EVENTS_DOOR,
            "interactive" => INTERACTIONS_DOOR,
            "slash_commands" => COMMANDS_DOOR,
            _ => "",
        };
        let Some(id) = &envelope.envelope_id else { return FrameResult::Nothing };
        let acknowledged = || FrameResult::Acknowledge(json!({ "envelope_id": &**id }).to_string());
        let Some(payload) = envelope.payload.filter(|_| !door.is_empty()) else { return acknowledged() };
        let body = payload.get().as_bytes().to_vec();
        let mut verified = VerifiedRequest::fetched(body, self.slack.timepiece.now());
        verified.door = door.to_owned();
        match self.slack.normalize(&self.bot, verified) {
            Ok(reading) => FrameResult::Event(Box::new(EnvelopeEvent {
                envelope: id.to_string(),
                accepts_response_payload: envelope.accepts_response_payload,
                reading,
            })),
            Err(refusal) => {
                // Slack would only repeat it.
                self.warn(&format!("skipped an event: {}", refusal.reason));
                acknowledged()
            }
        }
    }

    /// Stores an event. Returns its acknowledgement, or `None` if it could not be stored: Slack then sends it again.
    async fn store(&self, event: EnvelopeEvent) -> Option<String> {
        let EnvelopeEvent { envelope, accepts_response_payload, mut reading } = event;
        let (reply, to_strangers) = (std::mem::take(&mut reading.reply), reading.reply_to_strangers.take());
        let taken = self.intake.take(&self.platform, &self.bot, reading, None).await;
        let taken = taken
            .inspect_err(|fault| tracing::error!(%fault, bot.id = %self.bot.id, "could not store an event"));
        let reply =
            to_strangers.filter(|_| taken.as_ref().is_ok_and(|taken| taken.only_strangers)).unwrap_or(reply);
        taken.ok()?;
        let payload = serde_json::from_slice::<serde_json::Value>(&reply.body).ok();
        let acknowledgement = match payload.filter(|_| accepts_response_payload) {
            Some(payload) => json!({ "envelope_id": envelope, "payload": payload }),
            None => json!({ "envelope_id": envelope }),
        };
        Some(acknowledgement.to_string())
    }
}
