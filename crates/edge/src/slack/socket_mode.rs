//! Socket Mode: a socket over which Slack sends the events, interactions and slash commands of a bot.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::Instant;
use reqwest::Url;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::api::WebApiCall;
use super::{COMMANDS_DOOR, EVENTS_DOOR, INTERACTIONS_DOOR, LABEL, Slack};
use crate::bots::OpenedBot;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::platform::{PayloadText, Platform, VerifiedRequest};
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
    /// The acknowledgement to send.
    Acknowledge(String),
    /// Slack ends this socket soon.
    Replace,
    /// The operator has switched Socket Mode off.
    SwitchedOff,
}

/// Serves the socket of a bot. Slack asks from time to time for a new one; the old one is then served until it ends, so
/// that there is always one open.
pub(super) async fn fetch(slack: &Slack, feed: &mut EventFeed) -> FeedEnd {
    let stop = feed.stop.clone();
    let reader = FrameReader {
        slack,
        platform: Arc::new(slack.clone()),
        bot: Arc::clone(&feed.bot),
        intake: feed.intake.clone(),
    };
    let mut current = match stop.run_until_cancelled(reader.open()).await {
        None => return FeedEnd::Stopped,
        Some(Ok(socket)) => socket,
        Some(Err(end)) => return end,
    };
    let mut opened: Instant = slack.timepiece.instant();
    let mut leaving: Option<PlatformSocket> = None;
    loop {
        let (frame, is_leaving) = tokio::select! {
            () = stop.cancelled() => {
                current.close(1000).await;
                return FeedEnd::Stopped;
            }
            frame = current.next() => (frame, false),
            frame = next_of(leaving.as_mut()) => (frame, true),
            () = slack.timepiece.after(QUIET) => {
                // Frames of the other socket must not hide that this one is dead.
                if current.quiet_for() >= DEAD || !current.ping().await {
                    reader.warn("the socket is dead; connecting again");
                    return FeedEnd::Failed;
                }
                continue;
            }
        };
        let text = match frame {
            SocketFrame::Text(text) => text,
            SocketFrame::Binary(_) => continue,
            SocketFrame::Closed(_) if is_leaving => {
                leaving = None;
                continue;
            }
            SocketFrame::Closed(_) => {
                reader.warn("Slack ended the socket; connecting again");
                return FeedEnd::Failed;
            }
        };
        match reader.read(&text).await {
            FrameResult::Nothing => {}
            FrameResult::Hello => feed.works(),
            FrameResult::Acknowledge(acknowledgement) => {
                let socket = if is_leaving { leaving.as_mut() } else { Some(&mut current) };
                if let Some(socket) = socket {
                    // If it cannot be sent, Slack repeats the event, which is then known.
                    socket.send_text(acknowledgement).await;
                }
            }
            FrameResult::Replace if is_leaving => {}
            FrameResult::Replace => {
                if slack.timepiece.instant().since(opened) < SOONEST_REPLACEMENT {
                    return FeedEnd::Failed;
                }
                match stop.run_until_cancelled(reader.open()).await {
                    None => return FeedEnd::Stopped,
                    Some(Ok(next)) => {
                        opened = slack.timepiece.instant();
                        leaving = Some(std::mem::replace(&mut current, next));
                    }
                    Some(Err(end)) => return end,
                }
            }
            FrameResult::SwitchedOff => {
                tracing::error!(bot.id = %reader.bot.id, "Socket Mode is switched off for this app: switch it on in the app's settings");
                return FeedEnd::NeedsOperator;
            }
        }
    }
}

/// The next frame of a socket, if there is one.
async fn next_of(socket: Option<&mut PlatformSocket>) -> SocketFrame {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
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
    async fn open(&self) -> Result<PlatformSocket, FeedEnd> {
        let call = WebApiCall::form("apps.connections.open", Vec::new()).by_app();
        let asked = self.slack.call::<SocketAddress>(&self.bot, call, TIME_LIMIT).await;
        let opened = match asked {
            Ok(address) if self.is_socket_address(&address.url) => {
                self.slack.client.open_socket(&address.url, LARGEST_FRAME).await
            }
            Ok(_) => Err(CallFailure::Unreached("the address of the socket is not Slack's".to_owned())),
            Err(failure) => Err(failure),
        };
        opened.map_err(|failure| {
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

    /// Reads one frame and stores what it holds. Only then is it acknowledged.
    async fn read(&self, text: &str) -> FrameResult {
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
        let acknowledged = FrameResult::Acknowledge(json!({ "envelope_id": &**id }).to_string());
        let Some(payload) = envelope.payload.filter(|_| !door.is_empty()) else { return acknowledged };
        let body = payload.get().as_bytes().to_vec();
        let mut verified = VerifiedRequest::fetched(body, self.slack.timepiece.now());
        verified.door = door.to_owned();
        let mut reading = match self.slack.normalize(&self.bot, verified) {
            Ok(reading) => reading,
            Err(refusal) => {
                // Slack would only repeat it.
                self.warn(&format!("skipped an event: {}", refusal.reason));
                return acknowledged;
            }
        };
        let (reply, to_strangers) = (std::mem::take(&mut reading.reply), reading.reply_to_strangers.take());
        match self.intake.take(&self.platform, &self.bot, reading, None).await {
            Ok(taken) => {
                let reply = to_strangers.filter(|_| taken.only_strangers).unwrap_or(reply);
                let payload = serde_json::from_slice::<serde_json::Value>(&reply.body).ok();
                match payload.filter(|_| envelope.accepts_response_payload) {
                    Some(payload) => FrameResult::Acknowledge(
                        json!({ "envelope_id": &**id, "payload": payload }).to_string(),
                    ),
                    None => acknowledged,
                }
            }
            Err(fault) => {
                // Not stored, so not acknowledged: Slack sends it again.
                tracing::error!(%fault, bot.id = %self.bot.id, "could not store an event");
                FrameResult::Nothing
            }
        }
    }
}
