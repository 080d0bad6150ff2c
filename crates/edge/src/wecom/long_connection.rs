//! The long connection of an AI bot: a socket over which WeCom sends events and takes messages.
//!
//! A bot has one. WeCom ends it when another one of the same bot is opened, and says so before.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use posthouse_time::{Instant, Moment};
use posthouse_wire::Secret;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::normalize::ai_bot;
use super::open_connections::{CommandAnswer, ConnectionGuard, UnansweredCommands, frame, request_id};
use super::{BOT, LABEL, SECRET, WeCom};
use crate::bots::OpenedBot;
use crate::event_feed::{EventFeed, EventLanes, FeedEnd, lane_of};
use crate::platform::{PayloadText, Platform, Reading, VerifiedRequest};
use crate::platform_calls::{CallFailure, CallRefusal, PlatformSocket, RefusalKind, SocketFrame};

/// The door of events that came over a long connection.
pub(super) const SOCKET_DOOR: &str = "/socket";
const MESSAGE: &str = "aibot_msg_callback";
const EVENT: &str = "aibot_event_callback";
const SUBSCRIBE: &str = "aibot_subscribe";
/// Largest frame, in bytes.
const LARGEST_FRAME: usize = 4 << 20;
/// Time between two pings, and the number of unanswered ones after which the connection counts as dead.
const PING_EVERY: Duration = Duration::from_secs(30);
const MOST_UNANSWERED_PINGS: u32 = 2;
/// Time limit of the answer to the subscription.
const SUBSCRIBED_WITHIN: Duration = Duration::from_secs(20);
/// An event that could not be stored is stored again, because WeCom does not repeat it.
const STORE_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_STORE_PAUSE: Duration = Duration::from_secs(30);

/// A frame of WeCom: an event, or the answer to a command.
#[derive(Deserialize)]
struct SocketFrameText<'a> {
    #[serde(borrow)]
    cmd: Option<PayloadText<'a>>,
    #[serde(borrow)]
    headers: Option<FrameHeaders<'a>>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(default)]
    errcode: i64,
    #[serde(default)]
    errmsg: String,
}

#[derive(Deserialize)]
struct FrameHeaders<'a> {
    #[serde(borrow)]
    req_id: Option<PayloadText<'a>>,
}

/// The part of an event that says that another connection has taken over.
#[derive(Deserialize)]
struct ConnectionEvent<'a> {
    #[serde(borrow)]
    event: Option<ConnectionEventType<'a>>,
}

#[derive(Deserialize)]
struct ConnectionEventType<'a> {
    #[serde(borrow)]
    eventtype: Option<PayloadText<'a>>,
}

/// What follows from a frame.
enum ConnectionFrameResult {
    Nothing,
    Event(Box<SocketEvent>),
    Displaced,
}

/// An event that is to be stored.
struct SocketEvent {
    body: Bytes,
    received: Moment,
    reading: Reading,
}

/// Serves the connection of a bot until it ends.
pub(super) async fn fetch(wecom: &WeCom, feed: &mut EventFeed) -> FeedEnd {
    let stop = feed.stop.clone();
    let bot = Arc::clone(&feed.bot);
    let mut socket = match stop.run_until_cancelled(subscribe(wecom, &bot)).await {
        None => return FeedEnd::Stopped,
        Some(Ok(socket)) => socket,
        Some(Err(failure)) => {
            if failure.is_credential_dead() {
                // This leads to a check of the credential, which logs it.
                wecom.refused.report(&bot.id);
            } else {
                warn(&bot, &format!("could not connect: {}", failure.cause(LABEL)));
            }
            return FeedEnd::Failed;
        }
    };
    feed.works();
    let connection = wecom.connections.opened(&bot.id);
    let end = serve(wecom, feed, &mut socket, connection).await;
    match end {
        FeedEnd::Displaced => tracing::error!(
            bot.id = %bot.id,
            "another long connection of this AI bot was opened, and WeCom has ended this one: a bot can have only one; \
             this server tries again in an hour, or after a restart"
        ),
        FeedEnd::Stopped => socket.close(1000).await,
        _ => {}
    }
    end
}

async fn serve(
    wecom: &WeCom,
    feed: &EventFeed,
    socket: &mut PlatformSocket,
    mut connection: ConnectionGuard<'_>,
) -> FeedEnd {
    let timepiece = &wecom.timepiece;
    let mut lanes = EventLanes::default();
    let mut unanswered = UnansweredCommands::default();
    let (mut number, mut pings) = (0, 0);
    let mut next_ping: Instant = timepiece.instant() + PING_EVERY;
    let end = loop {
        tokio::select! {
            () = feed.stop.cancelled() => break FeedEnd::Stopped,
            // It stores again by itself, so that no event stops its lane.
            _ = lanes.next() => {}
            () = timepiece.after(next_ping.since(timepiece.instant())) => {
                next_ping = timepiece.instant() + PING_EVERY;
                if pings >= MOST_UNANSWERED_PINGS
                    || !socket.send_text(frame("ping", &request_id("ping"), &Value::Null)).await
                {
                    warn(&feed.bot, "the connection is dead; connecting again");
                    break FeedEnd::Failed;
                }
                pings += 1;
            }
            Some(command) = connection.commands.recv(), if !unanswered.is_full() => {
                let text = frame(command.name, &command.request, &command.body);
                unanswered.note(command.request, command.answered);
                if !socket.send_text(text).await {
                    warn(&feed.bot, "the connection is broken; connecting again");
                    break FeedEnd::Failed;
                }
            }
            frame = socket.next(), if !lanes.is_full() => {
                let text = match frame {
                    SocketFrame::Text(text) => text,
                    SocketFrame::Binary(_) => continue,
                    SocketFrame::Closed(_) => {
                        warn(&feed.bot, "WeCom ended the connection; connecting again");
                        break FeedEnd::Failed;
                    }
                };
                match read(wecom, &feed.bot, &text, &mut unanswered, &mut pings) {
                    ConnectionFrameResult::Nothing => {}
                    ConnectionFrameResult::Displaced => break FeedEnd::Displaced,
                    ConnectionFrameResult::Event(event) => {
                        number += 1;
                        let lane = lane_of(&event.reading);
                        lanes.push(number, lane, text.len(), store(wecom, feed, event).boxed());
                    }
                }
            }
        }
    };
    // Its commands fail now, while the last events are stored.
    drop(connection);
    lanes.finish().await;
    end
}

/// Connects and subscribes. The connection of another server, if there is one, ends by this.
async fn subscribe(wecom: &WeCom, bot: &OpenedBot) -> Result<PlatformSocket, CallFailure> {
    let missing = || CallFailure::Unreached("the bot has no id or no secret".to_owned());
    let secret: &Secret = bot.credentials.get(SECRET).ok_or_else(missing)?;
    let id = bot.setting(BOT).ok_or_else(missing)?;
    let url = bot.setting("socket_url").unwrap_or(&wecom.socket_url);
    let mut socket = wecom.client.open_socket(url, LARGEST_FRAME).await?;
    let request = request_id(SUBSCRIBE);
    let body = json!({ "bot_id": id, "secret": secret.expose() });
    if !socket.send_text(frame(SUBSCRIBE, &request, &body)).await {
        return Err(CallFailure::Unreached("the connection broke".to_owned()));
    }
    let answering = async {
        loop {
            match socket.next().await {
                SocketFrame::Closed(_) => return Err(CallFailure::Lost),
                SocketFrame::Binary(_) => {}
                SocketFrame::Text(text) => {
                    let Ok(answer) = serde_json::from_str::<SocketFrameText<'_>>(&text) else { continue };
                    let named = answer.headers.as_ref().and_then(|headers| headers.req_id.as_deref());
                    if named == Some(&request) {
                        return match answer.errcode {
                            0 => Ok(()),
                            code => Err(refused_subscription(code, &answer.errmsg)),
                        };
                    }
                }
            }
        }
    };
    let answered = wecom.timepiece.within(SUBSCRIBED_WITHIN, answering).await;
    answered.unwrap_or(Err(CallFailure::Lost)).map(|()| socket)
}

/// WeCom documents no codes of refused subscriptions. Those that are not about its load are about bot id and secret.
fn refused_subscription(code: i64, message: &str) -> CallFailure {
    let kind = match super::api::kind_of(code) {
        kind @ (RefusalKind::RateLimited | RefusalKind::ServerError) => kind,
        _ => RefusalKind::CredentialDead,
    };
    CallFailure::Refused(CallRefusal::new(kind, code, message.to_owned()))
}

/// Checks bot id and secret by a connection, unless one is open.
pub(super) async fn check(wecom: &WeCom, bot: &OpenedBot) -> Result<(), CallFailure> {
    if wecom.connections.is_open(&bot.id) {
        return Ok(());
    }
    subscribe(wecom, bot).await?.close(1000).await;
    Ok(())
}

fn warn(bot: &OpenedBot, what: &str) {
    tracing::warn!(bot.id = %bot.id, "long connection: {what}");
}

fn read(
    wecom: &WeCom,
    bot: &OpenedBot,
    text: &str,
    unanswered: &mut UnansweredCommands,
    pings: &mut u32,
) -> ConnectionFrameResult {
    let Ok(frame) = serde_json::from_str::<SocketFrameText<'_>>(text) else {
        warn(bot, "skipped a frame that cannot be read");
        return ConnectionFrameResult::Nothing;
    };
    let request = frame.headers.as_ref().and_then(|headers| headers.req_id.as_deref()).unwrap_or_default();
    let command = frame.cmd.as_deref().unwrap_or_default();
    let body = match (command, frame.body) {
        (MESSAGE | EVENT, Some(body)) => body.get(),
        _ => {
            if request.starts_with("ping") {
                *pings = 0;
            }
            let answer = CommandAnswer { errcode: frame.errcode, errmsg: frame.errmsg };
            unanswered.answer(request, answer);
            return ConnectionFrameResult::Nothing;
        }
    };
    if command == EVENT && is_displacement(body) {
        return ConnectionFrameResult::Displaced;
    }
    let (body, received) = (Bytes::copy_from_slice(body.as_bytes()), wecom.timepiece.now());
    let reading = ai_bot(wecom, bot, &fetched(body.clone(), received));
    ConnectionFrameResult::Event(Box::new(SocketEvent { body, received, reading }))
}

/// An event as a request that needs no proof.
fn fetched(body: Bytes, received: Moment) -> VerifiedRequest {
    VerifiedRequest { door: SOCKET_DOOR.to_owned(), ..VerifiedRequest::fetched(body, received) }
}

fn is_displacement(body: &str) -> bool {
    let event = serde_json::from_str::<ConnectionEvent<'_>>(body).ok().and_then(|body| body.event);
    event.and_then(|event| event.eventtype).is_some_and(|kind| &*kind == "disconnected_event")
}

/// Stores an event. WeCom does not send it again, so this is tried until it succeeds or the feed stops.
async fn store(wecom: &WeCom, feed: &EventFeed, event: Box<SocketEvent>) -> bool {
    let SocketEvent { body, received, mut reading } = *event;
    let platform: Arc<dyn Platform> = Arc::new(wecom.clone());
    let mut pause = STORE_PAUSE;
    while let Err(fault) = feed.intake.take(&platform, &feed.bot, reading, None).await {
        tracing::error!(%fault, bot.id = %feed.bot.id, "could not store an event");
        if feed.stop.run_until_cancelled(wecom.timepiece.after(pause)).await.is_none() {
            break;
        }
        pause = (2 * pause).min(LONGEST_STORE_PAUSE);
        reading = ai_bot(wecom, &feed.bot, &fetched(body.clone(), received));
    }
    true
}
