//! A house with the page open, an agent that answers by hand, and people at their browsers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, BodyDataStream};
use bus::Bus;
use edge::platform::Platform as _;
use edge::web::{self, Chat, Enrol, Newcomer, Turned, Web};
use edge::{Bot, Edge};
use errand::Errand;
use futures_util::StreamExt;
use http::{HeaderMap, Method, Request, StatusCode};
use ledger::{Identity, Inbox, Ledger, Place, Room, Rooms, Seq};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ActionId, Event, InstanceId, Outcome, Secret};
use relay::{Caller, Enrolment, NotEnrolled, Order, Relay};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use vault::{Keys, Vault};

/// Longer than anything here takes; only a failing test waits so long.
const LONG: Duration = Duration::from_secs(20);

/// The address of a house that only its own machine reaches, and of one that the world does.
const PRIVATE: &str = "http://127.0.0.1:7678";
const PUBLIC: &str = "https://post.example/inn";

pub struct House {
    pub web: Arc<Web>,
    pub clock: Timepiece,
    pub closing: CancellationToken,
    ledger: Ledger,
    relay: Relay,
    doors: Router,
}

struct Newcomers(Relay);

#[async_trait]
impl Enrol for Newcomers {
    async fn enrol(&self, name: &str) -> Result<Newcomer, Turned> {
        match enrol(&self.0, name).await {
            Ok(instance) => Ok(Newcomer {
                instance,
                name: name.to_owned(),
                env: vec![("GATEWAY_RELAY_SECRET".to_owned(), Secret::new("canary-secret"))],
            }),
            Err(NotEnrolled::Taken { .. }) => Err(Turned::Taken),
            Err(_) => Err(Turned::Unfit),
        }
    }
}

async fn enrol(relay: &Relay, name: &str) -> Result<InstanceId, NotEnrolled> {
    let _ = relay.create_tenant("acme").await.unwrap();
    let built_in = vec![web::NAME.into()];
    let wanted =
        Enrolment { tenant: "acme".to_owned(), name: name.to_owned(), built_in, ..Enrolment::default() };
    relay.enrol(wanted).await.unwrap().map(|enrolled| enrolled.instance.id)
}

/// What a request was answered with.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Looks exactly like absence.
    pub fn is_absence(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
            && self.headers["content-type"] == "application/problem+json"
            && self.json()["code"] == "not_found"
    }
}

/// Where a request comes from, and what its browser says of it.
#[derive(Clone)]
pub struct From {
    pub ip: IpAddr,
    pub headers: Vec<(&'static str, String)>,
}

impl From {
    /// The page itself, in a browser on this machine.
    pub fn home() -> Self {
        Self::of("127.0.0.1", &[("host", "localhost:7678"), ("origin", "http://localhost:7678")])
    }

    /// The page itself, in a guest's browser.
    pub fn outside() -> Self {
        Self::of("203.0.113.9", &[("host", "post.example"), ("origin", "https://post.example")])
    }

    pub fn of(ip: &str, headers: &[(&'static str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { ip: ip.parse().unwrap(), headers }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

impl House {
    pub async fn open() -> Self {
        Self::at(PRIVATE).await
    }

    pub async fn open_to_the_world() -> Self {
        Self::at(PUBLIC).await
    }

    async fn at(public_url: &str) -> Self {
        // Already installed by another test of this process, or by this line.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
        let ledger = Ledger::open(Place::Memory, clock.clone()).await.unwrap();
        let keys = Keys::read(&Keys::generate().unwrap()).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.house(), clock.clone())
            .await
            .unwrap();
        let relay = Relay::new(relay::Parts {
            config: relay::Config::default(),
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            roster: ledger.roster(),
            traces: ledger.traces(),
            keyring: vault.keyring(),
            bus: Bus::local(),
            errand: Errand::new(errand::Config::loopback()),
            timepiece: clock.clone(),
        });
        let web = Arc::new(Web::new(ledger.rooms(), clock.clone()));
        let edge = Edge::new(edge::Parts {
            roster: ledger.roster(),
            vault,
            relay: relay.clone(),
            timepiece: clock.clone(),
            platforms: vec![web.clone()],
            public_url: "http://127.0.0.1:7678".to_owned(),
        });
        let closing = CancellationToken::new();
        let doors = web::routes(Chat {
            web: web.clone(),
            intake: edge.intake().clone(),
            bots: edge.bots().clone(),
            relay: relay.clone(),
            enrol: Arc::new(Newcomers(relay.clone())),
            metrics: edge.metrics().clone(),
            public_url: public_url.into(),
            closing: closing.clone(),
        });
        Self { web, clock, closing, ledger, relay, doors }
    }

    pub async fn enrol(&self, name: &str) -> Heron<'_> {
        Heron { instance: enrol(&self.relay, name).await.unwrap(), house: self }
    }

    pub fn rooms(&self) -> Arc<dyn Rooms> {
        self.ledger.rooms()
    }

    pub async fn send(&self, from: &From, method: Method, path: &str, body: Body) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &from.headers {
            request = request.header(*name, value);
        }
        let mut request = request.body(body).unwrap();
        request.extensions_mut().insert(Caller(from.ip));
        self.doors.clone().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, from: &From, path: &str) -> Answer {
        read(self.send(from, Method::GET, path, Body::empty()).await).await
    }

    pub async fn post(&self, from: &From, path: &str, body: Value) -> Answer {
        read(self.send(from, Method::POST, path, Body::from(body.to_string())).await).await
    }

    /// Opens the room of a person who sits at this machine.
    pub async fn enters(&self, person: &str, with: &InstanceId) -> String {
        let entered =
            self.post(&From::home(), "/chat/api/rooms", json!({"agent": with, "person": person})).await;
        entered.json()["room"].as_str().expect("a room").to_owned()
    }

    /// A room of somebody who does not come through the page here.
    pub async fn opens_room(&self, person: &str, with: &InstanceId) -> String {
        let room = Room {
            id: format!("web-of-{person}").as_str().into(),
            instance: with.clone(),
            person: person.to_owned(),
            created: self.clock.now(),
        };
        self.rooms().enter(room).await.unwrap().id.to_string()
    }

    pub async fn says(&self, room: &str, text: &str, nonce: &str) -> Answer {
        let path = format!("/chat/api/rooms/{room}/messages");
        self.post(&From::home(), &path, json!({"text": text, "nonce": nonce})).await
    }

    /// Author and text of everything in the room.
    pub async fn reads(&self, room: &str) -> Vec<(String, String)> {
        let lines = self.rooms().history(&room.into(), 500).await.unwrap();
        let author = |by_agent| if by_agent { "agent" } else { "person" }.to_owned();
        lines.into_iter().map(|line| (author(line.by_agent), line.text)).collect()
    }

    pub async fn watches(&self, from: &From, room: &str, after: &str) -> Watcher {
        let path = format!("/chat/api/rooms/{room}/stream{after}");
        let response = self.send(from, Method::GET, &path, Body::empty()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Watcher { body: response.into_body().into_data_stream(), heard: String::new() }
    }
}

async fn read(response: http::Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

/// An agent, as far as a platform meets one: orders that passed the relay's guards.
pub struct Heron<'a> {
    pub instance: InstanceId,
    house: &'a House,
}

impl Heron<'_> {
    pub async fn does(&self, action: Action) -> Outcome {
        self.repeats(ActionId::mint(self.house.clock.now().millis()), action).await
    }

    pub async fn repeats(&self, id: ActionId, action: Action) -> Outcome {
        let identity = Identity { platform: web::NAME.into(), bot: self.instance.as_str().into() };
        let bot = Bot {
            platform: identity.platform.clone(),
            id: identity.bot.clone(),
            shared: false,
            settings: serde_json::Map::new(),
            credentials: vault::Credentials::default(),
        };
        let order = Order {
            id,
            tenant: "ten_1".into(),
            instance: self.instance.clone(),
            on: identity,
            action,
            deadline: self.house.clock.now() + Duration::from_secs(25),
        };
        self.house.web.carry(&bot, order).await.outcome
    }

    /// What lies in its inbox.
    pub async fn unread(&self) -> Vec<(String, Event)> {
        let inbox: Arc<dyn Inbox> = self.house.ledger.inbox();
        let entries = inbox.unread(&self.instance, Seq(0), 100).await.unwrap();
        let event = |entry: &ledger::Entry| serde_json::from_slice(&entry.event).unwrap();
        entries.iter().map(|entry| (entry.id.to_string(), event(entry))).collect()
    }
}

pub fn send(room: &str, content: &str) -> Action {
    Action::Send {
        chat_id: room.into(),
        content: content.to_owned(),
        reply_to: None,
        metadata: Metadata::default(),
    }
}

pub fn edit(room: &str, message: &str, content: &str) -> Action {
    Action::Edit {
        chat_id: room.into(),
        message_id: message.into(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

pub fn typing(room: &str, content: Option<&str>) -> Action {
    Action::Typing {
        chat_id: room.into(),
        content: content.map(str::to_owned),
        metadata: Metadata::default(),
    }
}

/// A page that looks into a room.
pub struct Watcher {
    body: BodyDataStream,
    heard: String,
}

/// One server-sent event.
#[derive(Debug, PartialEq)]
pub struct Told {
    pub name: String,
    pub id: Option<String>,
    pub data: Value,
}

impl Watcher {
    /// The next event; nothing when the stream has ended.
    pub async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some((one, rest)) = self.heard.split_once("\n\n") {
                let field =
                    |name: &str| one.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let told = field("event: ").map(|name| Told {
                    name,
                    id: field("id: "),
                    data: serde_json::from_str(&field("data: ").expect("data")).unwrap(),
                });
                self.heard = rest.to_owned();
                if told.is_some() {
                    return told;
                }
                continue;
            }
            let chunk =
                tokio::time::timeout(LONG, self.body.next()).await.expect("the stream stalled")?.unwrap();
            self.heard.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub async fn hears(&mut self) -> Told {
        self.next().await.expect("the stream ended")
    }
}
