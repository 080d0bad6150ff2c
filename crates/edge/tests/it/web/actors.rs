//! A test server with the chat page, an agent driven by the test, and people with browsers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, BodyDataStream};
use bus::Bus;
use edge::platform::Platform as _;
use edge::web::{self, ChatPage, Enrol, EnrolRefused, EnrolledAgent, NewInvitation, PersonName, Web};
use edge::{Edge, OpenedBot};
use errand::Errand;
use futures_util::StreamExt;
use http::{HeaderMap, Method, Request, StatusCode};
use http_kit::{ClientAddress, RequestControl};
use identity::{Accounts, Enrolment, Identity, NotEnrolled};
use ledger::{Acknowledgement, Audit, BotRef, Inbox, Invitations, Ledger, Location, Rooms, Seq};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ActionId, Event, InstanceId, InvitationId, Outcome, Secret, TenantId};
use relay::{PermittedAction, Relay};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use vault::{MasterKeys, Vault};

/// Longer than anything here takes; only a failing test waits so long.
const LONG: Duration = Duration::from_secs(60);

/// The URL of a server that only its own machine reaches, and of a public one.
const PRIVATE: &str = "http://127.0.0.1:7678";
const PUBLIC: &str = "https://post.example/inn";

pub struct TestServer {
    pub web: Arc<Web>,
    pub clock: Timepiece,
    pub closing: CancellationToken,
    pub ledger: Ledger,
    edge: Edge,
    pub identity: Identity,
    doors: Router,
    /// Pages of people who signed in, by name.
    people: Mutex<HashMap<String, From>>,
    _media_folder: tempfile::TempDir,
    pub relay: Relay,
}

struct WebEnrolment(Accounts);

#[async_trait]
impl Enrol for WebEnrolment {
    async fn enrol(&self, tenant: &TenantId, name: &str) -> Result<EnrolledAgent, EnrolRefused> {
        match enrol(&self.0, tenant.as_str(), name).await {
            Ok(instance) => Ok(EnrolledAgent {
                instance,
                name: name.to_owned(),
                env: vec![("GATEWAY_RELAY_SECRET".to_owned(), Secret::new("canary-secret"))],
            }),
            Err(NotEnrolled::Taken { .. }) => Err(EnrolRefused::Taken),
            Err(_) => Err(EnrolRefused::Unfit),
        }
    }
}

async fn enrol(accounts: &Accounts, tenant: &str, name: &str) -> Result<InstanceId, NotEnrolled> {
    let built_in = vec![web::NAME.into()];
    let wanted =
        Enrolment { tenant: tenant.to_owned(), name: name.to_owned(), built_in, ..Enrolment::default() };
    accounts.enrol(wanted).await.unwrap().map(|enrolled| enrolled.instance.id)
}

/// The response to a request.
pub struct PageResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl PageResponse {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Whether the response is the same as for something that does not exist.
    pub fn is_absence(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
            && self.headers["content-type"] == "application/problem+json"
            && self.json()["code"] == "not_found"
    }

    /// Whether the response asks for an invitation.
    pub fn is_uninvited(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED && self.json()["code"] == "not_invited"
    }

    /// The cookie that was set, as a browser sends it back.
    pub fn cookie(&self) -> String {
        let set = self.headers["set-cookie"].to_str().unwrap();
        set.split(';').next().unwrap().to_owned()
    }
}

/// The origin of a request, with the headers its browser adds.
#[derive(Clone)]
pub struct From {
    pub ip: IpAddr,
    pub headers: Vec<(&'static str, String)>,
    /// The control that the server adds to each request.
    pub control: Option<RequestControl>,
}

impl From {
    /// The page itself, in a browser on this machine that is not signed in.
    pub fn here() -> Self {
        Self::of("127.0.0.1", &[("host", "localhost:7678"), ("origin", "http://localhost:7678")])
    }

    /// The page itself, in a browser elsewhere that is not signed in.
    pub fn outside() -> Self {
        Self::of("203.0.113.9", &[("host", "post.example"), ("origin", "https://post.example")])
    }

    pub fn of(ip: &str, headers: &[(&'static str, &str)]) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { ip: ip.parse().unwrap(), headers, control: None }
    }

    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

impl TestServer {
    pub async fn open() -> Self {
        Self::at(PRIVATE).await
    }

    pub async fn open_to_the_world() -> Self {
        Self::at(PUBLIC).await
    }

    async fn at(public_url: &str) -> Self {
        Self::built(public_url, relay::Config::default()).await
    }

    /// A server whose agents' inboxes have this many places.
    pub async fn with_small_inboxes(inbox_entries: i64) -> Self {
        Self::built(PRIVATE, relay::Config { inbox_entries, ..relay::Config::default() }).await
    }

    async fn built(public_url: &str, config: relay::Config) -> Self {
        // Already installed by another test of this process, or by this line.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        let keys = MasterKeys::read(&MasterKeys::generate().unwrap()).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), clock.clone())
            .await
            .unwrap();
        let bus = Bus::local();
        let identity = Identity::new(identity::Parts::over(
            &ledger,
            vault.keyring(),
            bus.clone(),
            Errand::new(errand::Config::loopback()),
            clock.clone(),
        ));
        let media_folder = tempfile::tempdir().unwrap();
        let relay = Relay::new(relay::Parts {
            config,
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            identity: identity.clone(),
            bus,
            errand: Errand::new(errand::Config::loopback()),
            media: relay::MediaParts {
                records: ledger.media(),
                usage: ledger.usage(),
                folder: media_folder.path().to_owned(),
                public_url: "https://house.example".to_owned(),
            },
            timepiece: clock.clone(),
        });
        let web = Arc::new(Web::new(
            ledger.rooms(),
            ledger.invitations(),
            (ledger.prompts(), ledger.threads()),
            clock.clone(),
        ));
        let edge = Edge::new(edge::Parts {
            prompts: ledger.prompts(),
            threads: ledger.threads(),
            identity: identity.clone(),
            vault,
            relay: relay.clone(),
            dead_bots: ledger.dead_bots(),
            event_feeds: ledger.event_feeds(),
            person_chats: ledger.person_chats(),
            timepiece: clock.clone(),
            platforms: vec![web.clone()],
            public_url: "http://127.0.0.1:7678".to_owned(),
        });
        let closing = CancellationToken::new();
        let doors = web::routes(ChatPage {
            web: web.clone(),
            intake: edge.intake().clone(),
            bots: edge.bots().clone(),
            relay: relay.clone(),
            identity: identity.clone(),
            enrol: Arc::new(WebEnrolment(identity.accounts.clone())),
            audit: ledger.audit(),
            metrics: edge.metrics().clone(),
            public_url: public_url.into(),
            closing: closing.clone(),
        });
        for tenant in ["acme", "umbrella"] {
            identity.accounts.create_tenant(tenant).await.unwrap().unwrap();
        }
        Self {
            web,
            clock,
            closing,
            ledger,
            edge,
            identity,
            doors,
            people: Mutex::default(),
            _media_folder: media_folder,
            relay,
        }
    }

    pub async fn enrol(&self, name: &str) -> Heron<'_> {
        self.enrol_for("acme", name).await
    }

    pub async fn enrol_for(&self, tenant: &str, name: &str) -> Heron<'_> {
        Heron { instance: enrol(&self.identity.accounts, tenant, name).await.unwrap(), server: self }
    }

    pub async fn removes(&self, agent: &InstanceId) {
        self.identity.accounts.remove_agent(agent).await.unwrap();
    }

    pub async fn tenant(&self, name: &str) -> TenantId {
        self.identity.roster.records().tenant(name).await.unwrap().unwrap().id
    }

    /// Invites somebody to every agent of acme.
    pub async fn invites(&self, person: &str, owner: bool) -> (InvitationId, Secret) {
        self.invites_to("acme", None, person, owner).await
    }

    pub async fn invites_to(
        &self,
        tenant: &str,
        agents: Option<Vec<InstanceId>>,
        person: &str,
        owner: bool,
    ) -> (InvitationId, Secret) {
        let person = PersonName::read(person).unwrap();
        let new = NewInvitation { tenant: self.tenant(tenant).await, agents, person, owner };
        self.web.invite(new).await.unwrap()
    }

    /// Exchanges the secret of a link, as the page does.
    pub async fn spends(&self, page: &From, secret: &Secret) -> PageResponse {
        self.post(page, "/chat/api/session", json!({ "secret": secret.expose() })).await
    }

    /// The page, signed in with this link.
    pub async fn signs_in(&self, page: From, secret: &Secret) -> From {
        let answer = self.spends(&page, secret).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        page.with("cookie", &answer.cookie())
    }

    /// The page of a guest of acme, who is invited the first time they are named.
    pub async fn page_of(&self, person: &str) -> From {
        if let Some(page) = self.people.lock().unwrap().get(person) {
            return page.clone();
        }
        let (_, secret) = self.invites(person, false).await;
        let page = self.signs_in(From::here(), &secret).await;
        self.people.lock().unwrap().insert(person.to_owned(), page.clone());
        page
    }

    /// The page of somebody who owns acme.
    pub async fn owner(&self) -> From {
        let (_, secret) = self.invites("olga", true).await;
        self.signs_in(From::here(), &secret).await
    }

    pub fn invitations(&self) -> Arc<dyn Invitations> {
        self.ledger.invitations()
    }

    pub fn audit(&self) -> Arc<dyn Audit> {
        self.ledger.audit()
    }

    pub fn vault_records(&self) -> Arc<dyn ledger::VaultRecords> {
        self.ledger.vault()
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
        request.extensions_mut().insert(ClientAddress(from.ip));
        if let Some(control) = &from.control {
            request.extensions_mut().insert(control.clone());
        }
        self.doors.clone().oneshot(request).await.unwrap()
    }

    pub async fn get(&self, from: &From, path: &str) -> PageResponse {
        read(self.send(from, Method::GET, path, Body::empty()).await).await
    }

    pub async fn post(&self, from: &From, path: &str, body: Value) -> PageResponse {
        read(self.send(from, Method::POST, path, Body::from(body.to_string())).await).await
    }

    /// Opens the room of a guest of acme with this agent.
    pub async fn enters(&self, person: &str, with: &InstanceId) -> String {
        self.enters_by(&self.page_of(person).await, with).await
    }

    pub async fn enters_by(&self, page: &From, with: &InstanceId) -> String {
        let entered = self.post(page, "/chat/api/rooms", json!({ "agent": with })).await;
        entered.json()["room"].as_str().expect("a room").to_owned()
    }

    /// The guest whose room it is says something there.
    pub async fn says(&self, room: &str, text: &str, nonce: &str) -> PageResponse {
        let whose = self.rooms().room(&room.into()).await.unwrap().map(|room| room.person);
        let page = self.page_of(whose.as_deref().unwrap_or("ann")).await;
        let path = format!("/chat/api/rooms/{room}/messages");
        self.post(&page, &path, json!({"text": text, "nonce": nonce})).await
    }

    /// Author and text of everything in the room.
    pub async fn reads(&self, room: &str) -> Vec<(String, String)> {
        let lines = self.rooms().messages_after(&room.into(), 0, None, usize::MAX).await.unwrap();
        let author = |by_agent| if by_agent { "agent" } else { "person" }.to_owned();
        lines.into_iter().map(|(_, line)| (author(line.by_agent), line.text)).collect()
    }

    pub async fn watches(&self, from: &From, room: &str, after: &str) -> Watcher {
        let path = format!("/chat/api/rooms/{room}/stream{after}");
        let response = self.send(from, Method::GET, &path, Body::empty()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Watcher { body: response.into_body().into_data_stream(), heard: String::new() }
    }
}

async fn read(response: http::Response<Body>) -> PageResponse {
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    PageResponse {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }
}

/// An agent as a platform sees it: orders that passed the relay's checks.
pub struct Heron<'a> {
    pub instance: InstanceId,
    server: &'a TestServer,
}

impl Heron<'_> {
    pub async fn does(&self, action: Action) -> Outcome {
        self.repeats(ActionId::mint(self.server.clock.now().millis()), action).await
    }

    pub async fn repeats(&self, id: ActionId, action: Action) -> Outcome {
        let order = self.order(id, action);
        let bot = OpenedBot {
            platform: order.on.platform.clone(),
            id: order.on.bot.clone(),
            shared: false,
            settings: serde_json::Map::new(),
            credentials: vault::Credentials::default(),
        };
        self.server.web.perform(&bot, order).await.outcome
    }

    /// Through the whole edge, with everything that it records.
    pub async fn asks(&self, action: Action) -> Outcome {
        self.asks_with(action, true).await
    }

    pub async fn asks_with(&self, action: Action, may_redeem: bool) -> Outcome {
        let order = self.order(ActionId::mint(self.server.clock.now().millis()), action);
        let agent = self.server.identity.roster.records().instance(&self.instance).await.unwrap().unwrap();
        let order = PermittedAction { may_redeem, tenant: agent.tenant, ..order };
        relay::Egress::perform(&self.server.edge, order).await.outcome
    }

    fn order(&self, id: ActionId, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: false,
            ends_turn: matches!(&action, Action::Send { metadata, .. } if metadata.notify == Some(true)),
            id,
            tenant: "ten_1".into(),
            instance: self.instance.clone(),
            on: BotRef { platform: web::NAME.into(), bot: self.instance.as_str().into() },
            action,
            stream_cursor: String::new(),
            deadline: self.server.clock.instant() + Duration::from_secs(25),
        }
    }

    /// Accepts one entry of its inbox.
    pub async fn acknowledges(&self, entry: &str) {
        let inbox: Arc<dyn Inbox> = self.server.ledger.inbox();
        let taken = Acknowledgement { entry: entry.into(), handed: self.server.clock.now(), place: None };
        inbox.acknowledge(&self.instance, vec![taken]).await.unwrap();
    }

    /// The entries in its inbox.
    pub async fn unread(&self) -> Vec<(String, Event)> {
        let inbox: Arc<dyn Inbox> = self.server.ledger.inbox();
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

/// A message that is marked as the answer, as stock agents do.
pub fn answer(room: &str, content: &str) -> Action {
    Action::Send {
        chat_id: room.into(),
        content: content.to_owned(),
        reply_to: None,
        metadata: Metadata { notify: Some(true), ..Metadata::default() },
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

/// A page that watches a room.
pub struct Watcher {
    body: BodyDataStream,
    heard: String,
}

/// One server-sent event.
#[derive(Debug, PartialEq)]
pub struct ServerSentEvent {
    pub name: String,
    pub id: Option<String>,
    pub data: Value,
}

impl Watcher {
    /// The next event; `None` if the stream has ended.
    pub async fn next(&mut self) -> Option<ServerSentEvent> {
        loop {
            if let Some((one, rest)) = self.heard.split_once("\n\n") {
                let field =
                    |name: &str| one.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let told = field("event: ").map(|name| ServerSentEvent {
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

    /// The next event that is not about turns.
    pub async fn hears_of_lines(&mut self) -> ServerSentEvent {
        loop {
            let told = self.hears().await;
            if told.name != "turn" {
                return told;
            }
        }
    }

    pub async fn hears(&mut self) -> ServerSentEvent {
        self.next().await.expect("the stream ended")
    }
}
