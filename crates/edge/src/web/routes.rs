//! HTTP routes of the chat page: `/chat` and paths below it.

use std::sync::Arc;

use axum::extract::{Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use http_kit::{
    BoundedBody, ClientAddress, Endpoint, Operation, ShuttingDown, UnreadBody, completed, operations, router,
};
use identity::{Identity, fingerprint};
use ledger::{Audit, AuditEntry, LimitReached, Room, RoomFile, RoomMarks, RoomMessage};
use posthouse_time::Moment;
use posthouse_wire::{
    ChatId, DedupKey, EntryId, Event, InstanceId, MediaId, MessageId, MessageType, ThreadId, id,
};
use relay::{Relay, STOP};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::auth::{self, Visitor};
use super::enrol::{Enrol, EnrolRefused};
use super::message_place::MessagePlace;
use super::person::source;
use super::problem::ChatProblem;
use super::{LIMIT, Web, bot_ref, files, page, presses, session, stream};
use crate::bots::Bots;
use crate::intake::{Intake, IntakeResult};
use crate::metrics::Metrics;
use crate::platform::{Arrival, Platform, Reading};

/// The longest body: a message of the longest length, with every character written as two JSON escapes.
const LONGEST_BODY: usize = LIMIT * 12 + 4096;

/// The largest number of agents in the picker.
const AGENTS: usize = 500;

/// The components that serve the page.
#[derive(Clone)]
pub struct ChatPage {
    pub web: Arc<Web>,
    pub intake: Intake,
    pub bots: Bots,
    pub relay: Relay,
    pub identity: Identity,
    pub enrol: Arc<dyn Enrol>,
    pub audit: Arc<dyn Audit>,
    pub metrics: Arc<Metrics>,
    /// The public URL of the server, without a trailing slash.
    pub public_url: Arc<str>,
    /// Ends the streams when the server shuts down.
    pub closing: CancellationToken,
}

impl ChatPage {
    /// The path of the page; its cookie is limited to it.
    pub(super) fn page_path(&self) -> String {
        let rest = self.public_url.split_once("://").map_or("", |(_, rest)| rest);
        let prefix = rest.find('/').map_or("", |at| rest[at..].trim_end_matches('/'));
        format!("{prefix}/chat")
    }

    /// The name of the session cookie. Browsers share cookies between the ports of a host, so each server has its own.
    pub(super) fn cookie_name(&self) -> String {
        format!("posthouse_chat_{}", &fingerprint(&self.public_url)[..8])
    }
}

/// All operations with their handlers. The router is built from this list. The closed ones need a session.
const ENDPOINTS: &[Endpoint<ChatPage>] = &[
    Endpoint::open("GET", "/", || get(front)),
    Endpoint::open("GET", "/chat", || get(page::show)),
    Endpoint::open("GET", "/chat/", || get(page::without_slash)),
    Endpoint::open("GET", "/chat/{asset}", || get(page::asset)),
    Endpoint::open("POST", "/chat/api/session", || post(session::exchange)),
    Endpoint::closed("GET", "/chat/api/agents", || get(agents)),
    Endpoint::closed("POST", "/chat/api/agents", || post(connect)),
    Endpoint::closed("POST", "/chat/api/rooms", || post(enter)),
    Endpoint::closed("GET", "/chat/api/rooms/{room}/stream", || get(watch)),
    Endpoint::closed("POST", "/chat/api/rooms/{room}/messages", || post(speak)),
    Endpoint::closed("POST", "/chat/api/rooms/{room}/presses", || post(presses::press)),
    Endpoint::closed("POST", "/chat/api/rooms/{room}/files", || post(files::upload)),
    Endpoint::closed("GET", "/chat/api/rooms/{room}/files/{file}", || get(files::download)),
    Endpoint::closed("POST", "/chat/api/stop", || post(stop)),
];

/// All operations. A test checks the OpenAPI fragment against them.
pub const OPERATIONS: &[Operation] = &operations::<ChatPage, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

/// The page at `/chat` and the redirect to it from `/`. The caller mounts them under the server's URL prefix.
pub fn routes(chat: ChatPage) -> Router {
    let (closed, open): (Vec<_>, Vec<_>) =
        ENDPOINTS.iter().partition(|endpoint| endpoint.operation().credential);
    let invited = router("", closed).route_layer(middleware::from_fn_with_state(chat.clone(), auth::admit));
    router("", open)
        .merge(invited)
        .layer(middleware::from_fn_with_state(chat.clone(), auth::same_origin))
        .with_state(chat)
}

pub(super) type PageResult = Result<Json<Value>, ChatProblem>;
pub(super) type Body<const LONGEST: usize = LONGEST_BODY> = Result<BoundedBody<LONGEST>, UnreadBody>;

/// Redirects the root URL to the page.
async fn front(State(chat): State<ChatPage>) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, chat.page_path())]).into_response()
}

/// Lists the agents this visitor can talk to, and names the visitor.
async fn agents(State(chat): State<ChatPage>, Extension(Visitor(invited)): Extension<Visitor>) -> PageResult {
    let mut here = chat.identity.roster.records().instances(Some(&invited.tenant)).await?;
    here.retain(|agent| invited.covers(&agent.tenant, &agent.id));
    here.truncate(AGENTS);
    let agents: Vec<Value> = here
        .iter()
        .map(|agent| {
            json!({
                "instance_id": agent.id, "name": agent.name,
                "connected": chat.relay.connections().presence(&agent.id).connected, "idle": agent.idle,
            })
        })
        .collect();
    Ok(Json(json!({ "agents": agents, "person": invited.person, "may_connect": invited.owner })))
}

#[derive(Deserialize)]
struct ConnectRequest {
    name: String,
}

/// Creates an agent and returns its credential once. The audit record is stored before the response.
async fn connect(
    State(chat): State<ChatPage>,
    Extension(Visitor(invited)): Extension<Visitor>,
    address: Option<Extension<ClientAddress>>,
    body: Body,
) -> Result<Response, ChatProblem> {
    if !invited.owner {
        return Err(ChatProblem::NOT_FOUND);
    }
    let ConnectRequest { name } = read(body)?;
    let name = name.trim().to_owned();
    if !id::is_name(&name) || name.starts_with("inst_") {
        return Err(UNFIT_NAME);
    }
    let caller = address.map(|Extension(ClientAddress(address))| address);
    // A task of its own, so that the audit record is stored even if the browser disconnects.
    let done = tokio::spawn(async move {
        let made = match chat.enrol.enrol(&invited.tenant, &name).await {
            Ok(enrolled_agent) => Ok(enrolled_agent),
            Err(EnrolRefused::Unfit) => Err(UNFIT_NAME),
            Err(EnrolRefused::Taken) => Err(ChatProblem::NAME_TAKEN),
            Err(EnrolRefused::Fault(fault)) => Err(fault.into()),
        };
        let status = made.as_ref().map_or_else(|problem| problem.status(), |_| StatusCode::CREATED);
        let entry = AuditEntry {
            at: chat.web.timepiece.now(),
            operation: "POST /chat/api/agents".to_owned(),
            about: Some(format!(
                "agent {name} of {}, by {} ({})",
                invited.tenant, invited.person, invited.id
            )),
            caller,
            status: status.as_u16(),
        };
        chat.audit.record(entry).await?;
        made
    });
    let made = completed(done).await.map_err(|ShuttingDown| ledger::Fault::Closed)?;
    let enrolled_agent = made?;
    tracing::info!(instance.id = %enrolled_agent.instance, "an agent was created on the web chat page");
    Ok((StatusCode::CREATED, Json(enrolled_agent.shown())).into_response())
}

const UNFIT_NAME: ChatProblem = ChatProblem::unfit(
    "a name has 1 to 64 letters, digits, dots, dashes or underscores; the first must be a letter or digit, and the \
    name must not begin with inst_",
);

#[derive(Deserialize)]
struct EnterRequest {
    agent: InstanceId,
}

async fn enter(
    State(chat): State<ChatPage>,
    Extension(Visitor(invited)): Extension<Visitor>,
    body: Body,
) -> PageResult {
    let EnterRequest { agent } = read(body)?;
    let agent = chat.identity.roster.records().instance(&agent).await?.ok_or(ChatProblem::NOT_FOUND)?;
    if !invited.covers(&agent.tenant, &agent.id) {
        return Err(ChatProblem::NOT_FOUND);
    }
    let room = chat.web.enter(agent.id, &invited).await?.ok_or(ChatProblem::NOT_INVITED)?;
    let history = stream::history(&chat.web, &room, &invited.tenant).await?;
    let threads = chat.web.threads_of(&room).await?;
    Ok(Json(json!({
        "room": room.id, "agent": room.instance, "person": room.person, "history": history, "threads": threads,
    })))
}

#[derive(Deserialize)]
struct WatchQuery {
    after: Option<i64>,
}

async fn watch(
    State(chat): State<ChatPage>,
    Extension(visitor): Extension<Visitor>,
    Path(room): Path<String>,
    since: Result<Query<WatchQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ChatProblem> {
    let Query(WatchQuery { after }) =
        since.map_err(|_| ChatProblem::malformed("`after` must be a number"))?;
    let room = open(&chat, &visitor, &room.into()).await?;
    let stream = chat.web.streams.open(&visitor.0).ok_or(ChatProblem::TOO_MANY_STREAMS)?;
    // The invitation may have been withdrawn before the stream was opened. From here on, withdrawing ends the stream.
    if chat.web.invitations.invitation(&visitor.0.id).await?.is_none() {
        return Err(ChatProblem::NOT_INVITED);
    }
    // A browser that reconnects by itself uses the old URL, but sends the id of the last event.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.max(after).map(Moment::from_millis);
    Ok(stream::watch(chat.web, chat.relay, room, after, stream, chat.closing).await?)
}

#[derive(Deserialize)]
struct PostedMessage {
    text: String,
    /// The page's id for this message. Sending it again changes nothing.
    nonce: String,
    /// The message that it replies to, and the thread that it is written in.
    reply_to: Option<MessageId>,
    thread: Option<ThreadId>,
    /// Ids of files that were uploaded in this room.
    #[serde(default)]
    files: Vec<MediaId>,
}

async fn speak(
    State(chat): State<ChatPage>,
    Extension(visitor): Extension<Visitor>,
    Path(room): Path<String>,
    body: Body,
) -> PageResult {
    let PostedMessage { text, nonce, reply_to, thread, files: chosen } = read(body)?;
    if text.trim().is_empty() && chosen.is_empty() {
        return Err(ChatProblem::unfit("the message is empty"));
    }
    if text.chars().count() > LIMIT {
        return Err(ChatProblem::TOO_LONG);
    }
    let fits =
        (8..=64).contains(&nonce.len()) && nonce.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !fits {
        return Err(ChatProblem::unfit("`nonce` must be 8 to 64 letters, digits or dashes"));
    }
    if chosen.len() > files::FILES {
        return Err(ChatProblem::unfit("a message has at most 10 files"));
    }
    let room = open(&chat, &visitor, &room.into()).await?;
    let Some(bot) = chat.bots.find(&bot_ref(&room.instance)).await? else {
        return Err(ChatProblem::NOT_FOUND);
    };
    let platform: Arc<dyn Platform> = chat.web.clone();
    let received = chat.web.timepiece.now();
    let message = MessageId::from(format!("p{nonce}"));
    let place = MessagePlace::find(&chat.web, &room, reply_to, thread).await?;
    let wanted = chosen.len();
    let files = chat.web.rooms.files_for(&room.id, &message, chosen).await?;
    if files.len() < wanted {
        return Err(ChatProblem::unfit("a file of this message is not in this room"));
    }
    let mut arrived = arrival(&room, &message, &nonce, &text, &files, received);
    place.mark(&room, &mut arrived.event);
    let reading = Reading { arrivals: vec![arrived], ..Reading::default() };

    // The entry for the agent is stored first, then the message in the room. After a crash in between, the page sends
    // the message again and gets the same entry. The lock keeps a quick answer from being stored before its question.
    let _lock = chat.web.locks.lock(&room.id).await;
    let result = chat.intake.take(&platform, &bot, reading, Some(&visitor.principal())).await?;
    let entry = stored(result)?;
    let room_message = RoomMessage {
        message: message.clone(),
        by_agent: false,
        text,
        reply_to: place.reply_to(),
        sent: received,
        edited: None,
        entry: Some(entry.clone()),
        delivered: None,
        marks: RoomMarks { thread: place.thread, ..RoomMarks::default() },
        files,
    };
    if room_message.text == STOP {
        chat.web.turns.stopped(&room.id, chat.web.timepiece.instant());
    }
    chat.web.write(&room, room_message).await?;
    Ok(Json(json!({ "message_id": message, "entry": entry })))
}

/// The entry of a message that was taken in, or the reason why there is none.
pub(super) fn stored(mut result: IntakeResult) -> Result<EntryId, ChatProblem> {
    if let Some(entry) = result.entries.pop() {
        return Ok(entry);
    }
    Err(match (result.full, result.over_quota) {
        (Some(LimitReached::Tenant), _) => ChatProblem::STORAGE_FULL,
        (Some(_), _) => ChatProblem::INBOX_FULL,
        (None, Some(over)) => ChatProblem::over_quota(over),
        (None, None) => ChatProblem::NOT_TAKEN,
    })
}

fn arrival(
    room: &Room,
    message: &MessageId,
    nonce: &str,
    text: &str,
    attached: &[RoomFile],
    received: Moment,
) -> Arrival {
    let (media, references) = files::attachments(attached);
    let mut event = Event {
        text: text.to_owned(),
        source: source(room),
        message_id: Some(message.clone()),
        message_type: files::message_type(attached).unwrap_or_default(),
        media,
        ..Event::default()
    };
    if attached.is_empty() && event.command().is_some_and(|name| !name.is_empty()) {
        event.message_type = MessageType::Command;
    }
    let dedup = DedupKey::from(format!("web:{}:{nonce}", room.id));
    Arrival { addressed: true, references, ..Arrival::new(event, dedup, received) }
}

#[derive(Deserialize)]
struct StopRequest {
    room: ChatId,
}

/// Stops the running turn of this room, if there is one.
async fn stop(
    State(chat): State<ChatPage>,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> PageResult {
    let StopRequest { room } = read(body)?;
    let room = open(&chat, &visitor, &room).await?;
    chat.relay.interrupts().interrupt(&room.instance, &source(&room));
    chat.web.turns.stopped(&room.id, chat.web.timepiece.instant());
    Ok(Json(json!({ "connected": chat.relay.connections().presence(&room.instance).connected })))
}

/// The room, if it belongs to this visitor's invitation. Any other room looks as if it did not exist.
pub(super) async fn open(chat: &ChatPage, visitor: &Visitor, room: &ChatId) -> Result<Room, ChatProblem> {
    let room = chat.web.rooms.room(room).await?.ok_or(ChatProblem::NOT_FOUND)?;
    if room.invitation.as_ref() == Some(&visitor.0.id) { Ok(room) } else { Err(ChatProblem::NOT_FOUND) }
}

pub(super) fn read<T: DeserializeOwned, const LONGEST: usize>(body: Body<LONGEST>) -> Result<T, ChatProblem> {
    let BoundedBody(bytes) = body.map_err(|_| ChatProblem::TOO_LONG)?;
    serde_json::from_slice(&bytes)
        .map_err(|_| ChatProblem::malformed("the body is not the expected JSON object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_described_and_nothing_else_is() {
        let wrong = http_kit::openapi::check_fragment(OPENAPI, &[], OPERATIONS);
        assert_eq!(wrong, Vec::<String>::new());
    }
}
