//! Test fixture: a Matrix bot whose homeserver is played by the stand-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use edge::matrix::Matrix;
use edge::platform::{Platform, UnverifiedRequest};
use edge::{DeliveryResult, OpenedBot};
use http::{HeaderMap, Method};
use ledger::Seq;
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Event, Outcome, Secret};
use relay::PermittedAction;
use serde_json::{Value, json};
use stand_ins::harness::{PlatformRow, RowFilter};
use stand_ins::matrix as played;
use vault::Credentials;

use crate::telegram::test_server::TestServer;

pub const POSTY: &str = "@posty:hs.test";
pub const ANA: &str = "@ana:hs.test";
pub const AS_TOKEN: &str = "canary-as-token";
pub const HS_TOKEN: &str = "canary-hs-token";
pub const ROOM: &str = "!r1:hs.test";
pub const DIRECT: &str = "!d1";
pub const LONG: Duration = Duration::from_secs(30);

/// The user of an application service, or an ordinary user.
pub fn bot(is_service: bool) -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("token", Secret::new(AS_TOKEN));
    if is_service {
        credentials.insert("hs_token", Secret::new(HS_TOKEN));
    }
    let settings = json!({ "user_id": POSTY, "display_name": "Posty" });
    OpenedBot {
        platform: "matrix".into(),
        id: "posty.hs.test".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

pub fn matrix(api_base: &str, clock: &Timepiece) -> Matrix {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Matrix::new(api_base, clock.clone())
}

/// A transaction as the homeserver makes it.
pub fn transaction(id: &str, events: &[Value]) -> UnverifiedRequest {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {HS_TOKEN}").parse().unwrap());
    UnverifiedRequest {
        method: Method::PUT,
        door: format!("/_matrix/app/v1/transactions/{id}"),
        query: String::new(),
        headers,
        body: json!({ "events": events }).to_string().into(),
        received: Timepiece::wall().now(),
        server_url: "http://127.0.0.1:7678".into(),
    }
}

pub struct Fixture {
    pub stand_in: played::MatrixStandIn,
    pub matrix: Matrix,
    pub bot: OpenedBot,
    pub clock: Timepiece,
    pub server: TestServer,
    actions: AtomicU32,
}

/// A bot with its transactions delivered, in a room of three and in a direct room.
pub async fn open() -> Fixture {
    let fixture = open_with(None, true).await;
    fixture.deliver_transactions().await;
    fixture
        .inject(json!({"do": "room", "room": ROOM, "name": "Ops", "members": [ANA, POSTY, "@bo:hs.test"]}));
    fixture.inject(json!({"do": "room", "room": DIRECT, "members": [ANA, POSTY]}));
    // The last of these events has arrived.
    let taken = RowFilter::kind("acknowledged");
    fixture.stand_in.wait(&taken, 4, LONG).await.expect("the events of the rooms");
    fixture
}

pub async fn open_with(limits: Option<played::MatrixLimits>, is_service: bool) -> Fixture {
    open_at(Timepiece::wall(), limits, is_service).await
}

pub async fn open_at(clock: Timepiece, limits: Option<played::MatrixLimits>, is_service: bool) -> Fixture {
    let account = match is_service {
        true => format!("{POSTY}={AS_TOKEN}={HS_TOKEN}"),
        false => format!("{POSTY}={AS_TOKEN}"),
    };
    let accounts = vec![account.parse().unwrap()];
    let settings = played::Settings { accounts, limits, ..played::Settings::default() };
    let stand_in = played::MatrixStandIn::start(settings).await.unwrap();
    let bot = bot(is_service);
    let matrix = matrix(&stand_in.base_url(), &clock);
    let server = TestServer::with_platform(&bot, &clock, Arc::new(matrix.clone())).await;
    Fixture { stand_in, matrix, bot, clock, server, actions: AtomicU32::new(0) }
}

impl Fixture {
    /// Gives the homeserver an address, at which the intake answers.
    pub async fn deliver_transactions(&self) {
        let intake = self.server.intake();
        let platform: Arc<dyn Platform> = Arc::new(self.matrix.clone());
        let bot = Arc::new(self.bot.clone());
        let take = |State(()): State<()>, Path(id): Path<String>, headers: HeaderMap, body: Bytes| async move {
            let mut raw = transaction(&id, &[]);
            (raw.headers, raw.body) = (headers, body);
            match intake.receive(&platform, &bot, raw).await.unwrap() {
                DeliveryResult::Taken { reply, .. } => (reply.status, reply.body),
                DeliveryResult::Refused(refusal) => (refusal.status, Bytes::new()),
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let path = "/_matrix/app/v1/transactions/{id}";
        let routes = axum::Router::new().route(path, axum::routing::put(take)).with_state(());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        self.stand_in.set_url(POSTY, Some(base));
    }

    /// Delivers these events in one transaction.
    pub async fn receives(&self, id: &str, events: &[Value]) -> DeliveryResult {
        self.tries(id, events).await.unwrap()
    }

    /// As [`Self::receives`], for a transaction that may fail.
    pub async fn tries(&self, id: &str, events: &[Value]) -> Result<DeliveryResult, edge::Fault> {
        let platform: Arc<dyn Platform> = Arc::new(self.matrix.clone());
        let bot = Arc::new(self.bot.clone());
        self.server.intake().receive(&platform, &bot, transaction(id, events)).await
    }

    pub fn inject(&self, what: Value) -> Value {
        self.stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
    }

    /// Ana writes in a room. Returns the id of the event.
    pub fn says(&self, room: &str, text: &str) -> String {
        let injected = self.inject(json!({"do": "message", "room": room, "text": text}));
        injected["event_id"].as_str().unwrap().to_owned()
    }

    /// Waits until the agent has these messages.
    pub async fn hears(&self, texts: &[&str]) {
        let heard = async {
            while self.server.texts().await != texts {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(LONG, heard).await.is_err() {
            panic!("heard {:?}, not {texts:?}", self.server.texts().await);
        }
    }

    pub async fn events(&self) -> Vec<Event> {
        let unread = self.server.ledger.inbox().unread(&self.server.agent, Seq(0), 100).await.unwrap();
        unread.iter().map(|entry| serde_json::from_slice(&entry.event).unwrap()).collect()
    }

    pub fn order(&self, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: true,
            ends_turn: false,
            id: format!("act_{}", self.actions.fetch_add(1, Ordering::Relaxed)).as_str().into(),
            tenant: "ten_1".into(),
            instance: self.server.agent.clone(),
            on: self.bot.bot_ref(),
            action,
            stream_cursor: String::new(),
            deadline: self.clock.instant() + Duration::from_secs(25),
        }
    }

    pub async fn outcome(&self, action: Action) -> Outcome {
        self.matrix.perform(&self.bot, self.order(action)).await.outcome
    }

    pub fn rows(&self, kind: &str) -> Vec<PlatformRow> {
        self.stand_in.transcript(&RowFilter::kind(kind))
    }

    /// Waits for the first row of this kind.
    pub async fn row(&self, kind: &str) -> PlatformRow {
        let rows = self.stand_in.wait(&RowFilter::kind(kind), 1, LONG).await;
        rows.unwrap_or_else(|_| panic!("no row {kind}")).remove(0)
    }
}

pub fn send(chat: &str, content: &str) -> Action {
    Action::Send {
        chat_id: chat.into(),
        content: content.to_owned(),
        reply_to: None,
        metadata: Metadata::default(),
    }
}

/// The error of an outcome that must be a failure.
pub fn error(outcome: &Outcome) -> &str {
    assert!(!outcome.success, "{outcome:?}");
    let error = outcome.error.as_deref().unwrap();
    assert!(!error.contains("canary"), "{error}");
    error
}
