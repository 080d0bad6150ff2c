//! The page's door: `/chat` and what lies under it.

use std::sync::Arc;

use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Extension, Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use ledger::{Line, Room};
use posthouse_time::Moment;
use posthouse_wire::{ChatId, DedupKey, Event, InstanceId, MessageId, MessageType, id};
use relay::Relay;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::auth::{self, Visitor};
use super::enrol::{Enrol, Turned};
use super::person::{Person, source};
use super::problem::Problem;
use super::{LIMIT, Web, identity, page, stream};
use crate::bots::Bots;
use crate::intake::Intake;
use crate::metrics::Metrics;
use crate::platform::{Arrival, Platform, Reading};

/// The longest body: a longest message, every character written as two escapes.
const LONGEST_BODY: usize = LIMIT * 12 + 4096;

/// How many agents the picker can hold.
const AGENTS: usize = 500;

/// What the page is served from.
#[derive(Clone)]
pub struct Chat {
    pub web: Arc<Web>,
    pub intake: Intake,
    pub bots: Bots,
    pub relay: Relay,
    pub enrol: Arc<dyn Enrol>,
    pub metrics: Arc<Metrics>,
    /// The house's one address: the other name, besides those of this machine, that guests may call it by.
    pub public_url: Arc<str>,
    /// Ends the streams when the house closes.
    pub closing: CancellationToken,
}

/// The page at `/chat`, to be mounted under the house's prefix.
pub fn routes(chat: Chat) -> Router {
    Router::new()
        .route("/chat", get(page::show))
        .route("/chat/", get(page::without_slash))
        .route("/chat/{asset}", get(page::asset))
        .route("/chat/api/agents", get(agents).post(connect))
        .route("/chat/api/rooms", post(enter))
        .route("/chat/api/rooms/{room}/stream", get(watch))
        .route("/chat/api/rooms/{room}/messages", post(speak))
        .route("/chat/api/stop", post(stop))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(middleware::from_fn_with_state(chat.clone(), auth::admit))
        .with_state(chat)
}

type Answer = Result<Json<Value>, Problem>;
type Body = Result<Bytes, BytesRejection>;

/// Who is here, and who is asking.
async fn agents(State(chat): State<Chat>, Extension(visitor): Extension<Visitor>) -> Answer {
    let at_home = visitor == Visitor::AtHome;
    let roster = chat.relay.roster();
    let tenants = if at_home { roster.tenants().await? } else { Vec::new() };
    let mut here = roster.instances(None).await?;
    here.truncate(AGENTS);
    let agents: Vec<Value> = here
        .iter()
        .map(|agent| {
            let presence = chat.relay.presence(&agent.id);
            // A guest was invited to talk, not to learn whose the agents are.
            let tenant = tenants.iter().find(|tenant| tenant.id == agent.tenant).map(|tenant| &tenant.name);
            json!({
                "instance_id": agent.id, "name": agent.name, "tenant": tenant,
                "connected": presence.connected, "idle": agent.idle,
            })
        })
        .collect();
    let person = match &visitor {
        Visitor::AtHome => None,
        Visitor::Invited(person) => Some(person.as_str()),
    };
    Ok(Json(json!({ "agents": agents, "person": person, "may_connect": at_home })))
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Makes an agent and shows, this once, how to start it.
async fn connect(
    State(chat): State<Chat>,
    Extension(visitor): Extension<Visitor>,
    body: Body,
) -> Result<Response, Problem> {
    if visitor != Visitor::AtHome {
        return Err(Problem::NOT_FOUND);
    }
    let Named { name } = read(body)?;
    const UNFIT: Problem = Problem::unfit(
        "a name begins with a letter or digit and holds only those, dots, dashes and underscores",
    );
    let name = name.trim();
    if !id::is_name(name) || name.starts_with("inst_") {
        return Err(UNFIT);
    }
    match chat.enrol.enrol(name).await {
        Ok(newcomer) => {
            tracing::info!(instance.id = %newcomer.instance, "an agent was made from the web chat");
            Ok((StatusCode::CREATED, Json(newcomer.shown())).into_response())
        }
        Err(Turned::Unfit) => Err(UNFIT),
        Err(Turned::Taken) => Err(Problem::NAME_TAKEN),
        Err(Turned::Fault(fault)) => Err(fault.into()),
    }
}

#[derive(Deserialize)]
struct Entering {
    agent: InstanceId,
    #[serde(default)]
    person: Option<String>,
}

async fn enter(State(chat): State<Chat>, Extension(visitor): Extension<Visitor>, body: Body) -> Answer {
    let Entering { agent, person } = read(body)?;
    let person = match visitor {
        Visitor::Invited(person) => person,
        Visitor::AtHome => person
            .as_deref()
            .and_then(Person::read)
            .ok_or(Problem::unfit("a person has a name of at most 64 characters"))?,
    };
    if chat.relay.roster().instance(&agent).await?.is_none() {
        return Err(Problem::NOT_FOUND);
    }
    let room = chat.web.enter(agent, &person).await?;
    let history = chat.web.rooms.history(&room.id, stream::HISTORY).await?;
    let history: Vec<Value> = history.iter().map(stream::shown).collect();
    Ok(Json(json!({ "room": room.id, "agent": room.instance, "person": room.person, "history": history })))
}

#[derive(Deserialize)]
struct Since {
    after: Option<i64>,
}

async fn watch(
    State(chat): State<Chat>,
    Extension(visitor): Extension<Visitor>,
    Path(room): Path<String>,
    since: Result<Query<Since>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Query(Since { after }) = since.map_err(|_| Problem::malformed("`after` is a number"))?;
    let room = open(&chat, &visitor, &room.into()).await?;
    // A browser that reconnects by itself asks for the old address but names the last event it saw.
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = last.max(after).map(Moment::from_millis);
    Ok(stream::watch(chat.web, room.id, after, chat.closing).await?)
}

#[derive(Deserialize)]
struct Said {
    text: String,
    /// The page's own name for this message: saying it again changes nothing.
    nonce: String,
}

async fn speak(
    State(chat): State<Chat>,
    Extension(visitor): Extension<Visitor>,
    Path(room): Path<String>,
    body: Body,
) -> Answer {
    let Said { text, nonce } = read(body)?;
    if text.trim().is_empty() {
        return Err(Problem::unfit("there is nothing in the message"));
    }
    if text.chars().count() > LIMIT {
        return Err(Problem::TOO_LONG);
    }
    let fits =
        (8..=64).contains(&nonce.len()) && nonce.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !fits {
        return Err(Problem::unfit("a nonce is 8 to 64 letters, digits and dashes"));
    }
    let room = open(&chat, &visitor, &room.into()).await?;
    let Some(bot) = chat.bots.find(&identity(&room.instance)).await? else { return Err(Problem::NOT_FOUND) };
    let platform: Arc<dyn Platform> = chat.web.clone();
    let received = chat.web.timepiece.now();
    let message = MessageId::from(format!("p{nonce}"));
    let reading =
        Reading { arrivals: vec![arrival(&room, &message, &nonce, &text, received)], ..Reading::default() };

    // Kept for the agent first, then written into the room: after a crash in between, the page says it again
    // and meets the same entry. The pen keeps a quick answer from being written above its question.
    let _pen = chat.web.hub.pen(&room.id).await;
    let entry = chat.intake.take(&platform, &bot, reading).await?.pop().ok_or(Problem::NOT_TAKEN)?;
    let line = Line {
        message: message.clone(),
        by_agent: false,
        text,
        reply_to: None,
        said: received,
        edited: None,
    };
    chat.web.write(&room, line).await?;
    Ok(Json(json!({ "message_id": message, "entry": entry })))
}

fn arrival(room: &Room, message: &MessageId, nonce: &str, text: &str, received: Moment) -> Arrival {
    let mut event = Event {
        text: text.to_owned(),
        source: source(room),
        message_id: Some(message.clone()),
        ..Event::default()
    };
    if event.command().is_some_and(|name| !name.is_empty()) {
        event.message_type = MessageType::Command;
    }
    Arrival {
        event,
        capabilities: Vec::new(),
        dedup: DedupKey::from(format!("web:{}:{nonce}", room.id)),
        addressed: true,
        path: None,
        references: Vec::new(),
        received,
    }
}

#[derive(Deserialize)]
struct Stopping {
    room: ChatId,
}

/// Stops the turn that runs in this room, if one does.
async fn stop(State(chat): State<Chat>, Extension(visitor): Extension<Visitor>, body: Body) -> Answer {
    let Stopping { room } = read(body)?;
    let room = open(&chat, &visitor, &room).await?;
    chat.relay.interrupt(&room.instance, &source(&room));
    Ok(Json(json!({ "connected": chat.relay.presence(&room.instance).connected })))
}

/// The room, if this visitor may be in it. Another person's looks like none.
async fn open(chat: &Chat, visitor: &Visitor, room: &ChatId) -> Result<Room, Problem> {
    let room = chat.web.rooms.room(room).await?.ok_or(Problem::NOT_FOUND)?;
    match visitor {
        Visitor::AtHome => Ok(room),
        Visitor::Invited(person) if person.as_str() == room.person => Ok(room),
        Visitor::Invited(_) => Err(Problem::NOT_FOUND),
    }
}

fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let bytes = body.map_err(|_| Problem::TOO_LONG)?;
    serde_json::from_slice(&bytes)
        .map_err(|_| Problem::malformed("the body is not the JSON object asked for"))
}
