//! The long connection: a socket over which Feishu sends the events and card actions of a bot. They are neither
//! encrypted nor signed, because the server itself opened the socket.

mod event_parts;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt;
use http::HeaderMap;
use posthouse_time::Instant;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::event_parts::EventParts;
use super::frames::{CONTROL, DATA, FeishuFrame};
use super::{APP_ID, APP_SECRET, Feishu, LABEL};
use crate::bots::OpenedBot;
use crate::event_feed::{EventFeed, EventLanes, FeedEnd, lane_of};
use crate::intake::Intake;
use crate::platform::{Platform, Reading, VerifiedRequest};
use crate::platform_calls::{CallFailure, CallRefusal, PlatformSocket, RefusalKind, SocketFrame};

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Largest frame, in bytes.
const LARGEST_FRAME: usize = 4 << 20;
/// Pause between two signs of life, unless Feishu sets another.
const PING_INTERVAL: Duration = Duration::from_secs(120);
/// Bounds of what Feishu may set.
const SHORTEST_INTERVAL: u64 = 5;
const LONGEST_INTERVAL: u64 = 600;
/// Codes of the endpoint and of the handshake.
const AUTH_FAILED: i64 = 514;
const FORBIDDEN: i64 = 403;
const TOO_MANY_CONNECTIONS: i64 = 1_000_040_350;

#[derive(Deserialize)]
struct AddressAnswer {
    code: i64,
    #[serde(default)]
    msg: String,
    data: Option<ConnectionAddress>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConnectionAddress {
    #[serde(rename = "URL")]
    url: Option<String>,
    client_config: Option<ClientConfig>,
}

/// What Feishu wants of its clients. Its other settings are about reconnecting, which the edge does by rules of its
/// own.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ClientConfig {
    ping_interval: Option<u64>,
}

impl ClientConfig {
    fn interval(&self) -> Option<Duration> {
        let seconds = self.ping_interval.filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)))
    }
}

/// An open connection.
struct LongConnection {
    socket: PlatformSocket,
    /// The service that the address names. Every ping repeats it.
    service: i32,
    interval: Duration,
}

/// An event that is to be stored, with the frame that answers it.
struct FrameEvent {
    begun: Instant,
    answer: FeishuFrame,
    reading: Reading,
}

/// What follows from a data frame.
enum EventFrameResult {
    Nothing,
    /// The answer to send at once.
    Answer(FeishuFrame),
    Event(Box<FrameEvent>),
}

/// Serves the connection of a bot until it breaks. An event that waits holds up neither the connection nor the events of
/// other chats.
pub(super) async fn fetch(feishu: &Feishu, feed: &mut EventFeed) -> FeedEnd {
    let stop = feed.stop.clone();
    let frames = EventFrames {
        feishu,
        platform: Arc::new(feishu.clone()),
        bot: Arc::clone(&feed.bot),
        intake: feed.intake.clone(),
    };
    let mut connection = match stop.run_until_cancelled(frames.open()).await {
        None => return FeedEnd::Stopped,
        Some(Ok(connection)) => connection,
        Some(Err(end)) => return end,
    };
    feed.works();
    let mut parts = EventParts::default();
    let mut lanes = EventLanes::default();
    // The lanes bound it: each event in them is answered once.
    let (stored, mut answers) = mpsc::unbounded_channel::<FeishuFrame>();
    let mut events = 0;
    let mut next_ping: Instant = feishu.timepiece.instant();
    let end = loop {
        let until_ping = next_ping.since(feishu.timepiece.instant());
        let frame = tokio::select! {
            () = stop.cancelled() => break FeedEnd::Stopped,
            // The answer to an event that could not be stored says so, and its lane goes on.
            _ = lanes.next() => continue,
            Some(answer) = answers.recv() => {
                connection.answer(&answer).await;
                continue;
            }
            frame = connection.socket.next(), if !lanes.is_full() => frame,
            () = feishu.timepiece.after(until_ping) => {
                // Two pings without any frame since: nobody is there. Nobody listens while the lanes are full.
                let is_quiet = connection.socket.quiet_for() >= connection.interval * 2 + TIME_LIMIT;
                if is_quiet && !lanes.is_full() || !connection.ping().await {
                    frames.warn("the connection is dead; connecting again");
                    break FeedEnd::Failed;
                }
                next_ping = feishu.timepiece.instant() + connection.interval;
                continue;
            }
        };
        let bytes = match frame {
            SocketFrame::Binary(bytes) => bytes,
            SocketFrame::Text(_) => continue,
            SocketFrame::Closed(_) => {
                frames.warn("Feishu ended the connection; connecting again");
                break FeedEnd::Failed;
            }
        };
        let Some(frame) = FeishuFrame::read(&bytes) else {
            frames.warn("skipped a frame that cannot be read");
            continue;
        };
        match frame.method {
            CONTROL => {
                let config = frame.payload.as_ref().filter(|_| frame.header("type") == Some("pong"));
                let config = config.and_then(|payload| serde_json::from_slice::<ClientConfig>(payload).ok());
                if let Some(interval) = config.and_then(|config| config.interval()) {
                    connection.interval = interval;
                    next_ping = next_ping.min(feishu.timepiece.instant() + interval);
                }
            }
            DATA => match frames.read(frame, &mut parts) {
                EventFrameResult::Nothing => {}
                EventFrameResult::Answer(answer) => connection.answer(&answer).await,
                EventFrameResult::Event(event) => {
                    events += 1;
                    let (frames, stored, lane) = (&frames, stored.clone(), lane_of(&event.reading));
                    let storing = async move {
                        // Nobody listens any more if the connection has ended.
                        let _ = stored.send(frames.store(*event).await);
                        true
                    };
                    lanes.push(events, lane, bytes.len(), storing.boxed());
                }
            },
            _ => {}
        }
    };
    lanes.finish_running().await;
    while let Ok(answer) = answers.try_recv() {
        connection.answer(&answer).await;
    }
    if end == FeedEnd::Stopped {
        connection.socket.close(1000).await;
    }
    end
}

impl LongConnection {
    async fn ping(&mut self) -> bool {
        let ping = FeishuFrame {
            service: self.service,
            method: CONTROL,
            headers: vec![("type".to_owned(), "ping".to_owned())],
            ..FeishuFrame::default()
        };
        self.socket.send_binary(ping.write().into()).await
    }

    /// Answers an event. If that fails, Feishu repeats the event, which is then known.
    async fn answer(&mut self, answer: &FeishuFrame) {
        self.socket.send_binary(answer.write().into()).await;
    }
}

/// Reads and stores the events of one bot.
struct EventFrames<'a> {
    feishu: &'a Feishu,
    platform: Arc<dyn Platform>,
    bot: Arc<OpenedBot>,
    intake: Intake,
}

impl EventFrames<'_> {
    fn warn(&self, what: &str) {
        tracing::warn!(bot.id = %self.bot.id, "long connection: {what}");
    }

    async fn open(&self) -> Result<LongConnection, FeedEnd> {
        let opened = async {
            let endpoint = self.feishu.endpoint(&self.bot).await?;
            let address = endpoint.url.as_deref().and_then(|url| Url::parse(url).ok());
            let address = address.filter(|address| self.is_socket_address(address));
            let foreign =
                || CallFailure::Unreached("the address of the connection is not Feishu's".to_owned());
            let address = address.ok_or_else(foreign)?;
            let service = address.query_pairs().find(|(name, _)| name == "service_id");
            let service = service.and_then(|(_, id)| id.parse().ok()).unwrap_or_default();
            let client = &self.feishu.client;
            let socket = client.open_socket_or(address.as_str(), LARGEST_FRAME, handshake_refusal).await?;
            let interval = endpoint.client_config.and_then(|config| config.interval());
            Ok(LongConnection { socket, service, interval: interval.unwrap_or(PING_INTERVAL) })
        };
        opened.await.map_err(|failure: CallFailure| {
            if failure.is_credential_dead() {
                // The server checks the credential, and marks the bot as dead if Feishu refuses it.
                self.feishu.refused.report(&self.bot.id);
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

    /// Whether events may come from this address: encrypted from Feishu or Lark, or from a stand-in.
    fn is_socket_address(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_feishu = ["feishu.cn", "larksuite.com"].iter().any(|domain| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        });
        url.scheme() == "wss" && is_feishu || self.feishu.is_stand_in(&self.bot, url)
    }

    /// Reads one frame. What it holds is answered after it is stored.
    fn read(&self, mut frame: FeishuFrame, parts: &mut EventParts) -> EventFrameResult {
        let begun = self.feishu.timepiece.instant();
        let payload = frame.payload.take().unwrap_or_default();
        let number = |name: &str| frame.header(name).and_then(|text| text.parse::<usize>().ok());
        let (sum, part) = (number("sum").unwrap_or(1), number("seq").unwrap_or(0));
        let id = frame.header("message_id").unwrap_or_default().to_owned();
        let payload = match sum {
            0 | 1 => Some(payload),
            sum => parts.add(&id, (part, sum), payload, begun),
        };
        // Older cards come as `card`. Nothing that this server sends makes them.
        let payload = payload.filter(|_| frame.header("type") == Some("event"));
        let Some(payload) = payload else { return EventFrameResult::Nothing };
        let verified = VerifiedRequest::fetched(payload, self.feishu.timepiece.now());
        match self.feishu.normalize(&self.bot, verified) {
            Ok(reading) => EventFrameResult::Event(Box::new(FrameEvent { begun, answer: frame, reading })),
            Err(refusal) => {
                // Feishu would only repeat it.
                self.warn(&format!("skipped an event: {}", refusal.reason));
                EventFrameResult::Answer(self.answer(begun, frame, &json!({ "code": 200 })))
            }
        }
    }

    /// Stores an event, and returns the answer to it.
    async fn store(&self, event: FrameEvent) -> FeishuFrame {
        let FrameEvent { begun, answer, mut reading } = event;
        let (reply, to_strangers) = (std::mem::take(&mut reading.reply), reading.reply_to_strangers.take());
        let body = match self.intake.take(&self.platform, &self.bot, reading, None).await {
            Ok(taken) => {
                let reply = to_strangers.filter(|_| taken.only_strangers).unwrap_or(reply);
                match reply.body.is_empty() {
                    true => json!({ "code": 200 }),
                    false => json!({ "code": 200, "data": STANDARD.encode(&reply.body) }),
                }
            }
            Err(fault) => {
                // Not stored: Feishu sends it again.
                tracing::error!(%fault, bot.id = %self.bot.id, "could not store an event");
                json!({ "code": 500 })
            }
        };
        self.answer(begun, answer, &body)
    }

    /// The frame that answers an event, which is the event's own without its payload.
    fn answer(&self, begun: Instant, mut frame: FeishuFrame, body: &Value) -> FeishuFrame {
        let spent = self.feishu.timepiece.instant().since(begun).as_millis();
        frame.headers.push(("biz_rt".to_owned(), spent.to_string()));
        frame.payload = Some(body.to_string().into());
        frame
    }
}

/// The reason for which a handshake was refused.
fn handshake_refusal(headers: &HeaderMap) -> Option<CallRefusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |name: &str| text(name).and_then(|text| text.trim().parse::<i64>().ok());
    let code = number("handshake-status")?;
    let message = text("handshake-msg").unwrap_or_default().to_owned();
    let kind = match (code, number("handshake-autherrcode")) {
        // Fifty connections are open. One of them may end by itself.
        (AUTH_FAILED, Some(TOO_MANY_CONNECTIONS)) => RefusalKind::RateLimited,
        // The ticket in the address is not valid (any more). A new one comes with the next address.
        (AUTH_FAILED, _) => RefusalKind::Permanent,
        (FORBIDDEN, _) => RefusalKind::Forbidden,
        _ => RefusalKind::ServerError,
    };
    Some(CallRefusal::new(kind, code, message))
}

impl Feishu {
    /// Asks for the address of a connection, which is a credential.
    async fn endpoint(&self, bot: &OpenedBot) -> Result<ConnectionAddress, CallFailure> {
        let app = bot.setting(APP_ID).unwrap_or(bot.id.as_str());
        let secret = bot.credentials.get(APP_SECRET);
        let secret = secret.ok_or_else(|| CallFailure::Unreached("the bot has no app secret".to_owned()))?;
        let body = json!({ "AppID": app, "AppSecret": secret.expose() });
        let address = format!("{}/callback/ws/endpoint", self.base_of(bot));
        let response =
            self.client.exchange(self.client.http()?.post(address).json(&body), TIME_LIMIT).await?;
        let answer: AddressAnswer =
            serde_json::from_slice(&response.body).map_err(|_| match response.status {
                status @ 400.. => CallFailure::Refused(CallRefusal::new(
                    RefusalKind::of_status(status),
                    i64::from(status),
                    String::new(),
                )),
                _ => CallFailure::Lost,
            })?;
        let kind = match answer.code {
            0 => return answer.data.ok_or(CallFailure::Lost),
            AUTH_FAILED | 10003 | 10014 | 1_000_040_344 => RefusalKind::CredentialDead,
            FORBIDDEN => RefusalKind::Forbidden,
            TOO_MANY_CONNECTIONS => RefusalKind::RateLimited,
            _ => RefusalKind::ServerError,
        };
        let description = answer.msg.replace(secret.expose(), "…");
        Err(CallFailure::Refused(CallRefusal::new(kind, answer.code, description)))
    }
}
