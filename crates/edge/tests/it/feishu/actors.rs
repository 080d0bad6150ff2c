//! Test fixture: a Feishu bot connected to the stand-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use edge::feishu::Feishu;
use edge::platform::{Platform, UnverifiedRequest};
use edge::{DeliveryResult, EventFeed, OpenedBot, keep_open};
use http::{HeaderMap, Method};
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Event, Outcome, Secret};
use relay::PermittedAction;
use serde_json::{Value, json};
use stand_ins::feishu as played;
use stand_ins::harness::{PlatformRow, RowFilter};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vault::Credentials;

use crate::telegram::test_server::TestServer;

pub const APP: &str = "cli_a1";
pub const OPEN_ID: &str = "ou_bot_a1";
pub const SECRET: &str = "canary-app-secret";
pub const ENCRYPT_KEY: &str = "canary-encrypt-key";
pub const TOKEN: &str = "canary-verification";
/// The direct chat of the bot with u77.
pub const DIRECT: &str = "oc_p2p_a1_u77";
pub const GROUP: &str = "oc_group";
/// Longer than anything here takes; only a failing test waits so long.
pub const LONG: Duration = Duration::from_secs(60);

pub fn credentials(secrets: &[(&str, &str)]) -> Credentials {
    let mut credentials = Credentials::default();
    for (name, secret) in secrets {
        credentials.insert(name, Secret::new(*secret));
    }
    credentials
}

pub struct Fixture {
    pub stand_in: played::FeishuStandIn,
    pub feishu: Feishu,
    pub bot: OpenedBot,
    pub clock: Timepiece,
    pub server: TestServer,
    orders: AtomicU64,
}

pub async fn open_with(clock: Timepiece, settings: played::Settings) -> Fixture {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let apps = vec![format!("{APP}:{SECRET}:{ENCRYPT_KEY}:{TOKEN}@posty").parse().unwrap()];
    let stand_in = played::FeishuStandIn::start(played::Settings { apps, ..settings }).await.unwrap();
    let feishu = Feishu::new(&stand_in.base_url(), clock.clone());
    let settings = json!({"app_id": APP, "bot_open_id": OPEN_ID, "api_base_url": stand_in.base_url()});
    let bot = OpenedBot {
        platform: "feishu".into(),
        id: APP.into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials: credentials(&[
            ("app_secret", SECRET),
            ("encrypt_key", ENCRYPT_KEY),
            ("verification_token", TOKEN),
        ]),
    };
    let server = TestServer::with_platform(&bot, &clock, Arc::new(feishu.clone())).await;
    Fixture { stand_in, feishu, bot, clock, server, orders: AtomicU64::default() }
}

/// A stand-in that delivers to the door of the bot.
pub async fn open() -> Fixture {
    let fixture = open_with(Timepiece::wall(), played::Settings::default()).await;
    fixture.serve_door().await;
    fixture
}

/// A feed of the bot that runs until it is stopped.
pub struct Feed {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Feed {
    pub fn start(fixture: &Fixture) -> Feed {
        let (feishu, clock, stop) = (fixture.feishu.clone(), fixture.clock.clone(), CancellationToken::new());
        let (intake, feeds) = (fixture.server.intake(), fixture.server.ledger.event_feeds());
        let bot = Arc::new(fixture.bot.clone());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                let feed = EventFeed::open(bot, intake, feeds, stop).await.unwrap();
                keep_open(&feishu, feed, &clock).await;
            }
        });
        Feed { stop, task }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task).await.unwrap().unwrap();
    }
}

impl Fixture {
    /// Listens on loopback and gives the stand-in the address of the door.
    pub async fn serve_door(&self) {
        let (intake, bot) = (self.server.intake(), Arc::new(self.bot.clone()));
        let (platform, clock): (Arc<dyn Platform>, _) = (Arc::new(self.feishu.clone()), self.clock.clone());
        let take = move |headers: HeaderMap, body: Bytes| async move {
            let raw = UnverifiedRequest {
                method: Method::POST,
                door: String::new(),
                query: String::new(),
                headers,
                body,
                received: clock.now(),
                server_url: "http://127.0.0.1:7678".into(),
            };
            match intake.receive(&platform, &bot, raw).await.unwrap() {
                DeliveryResult::Taken { reply, .. } => (reply.status, reply.body),
                DeliveryResult::Refused(refusal) => (refusal.status, Bytes::new()),
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/door", listener.local_addr().unwrap());
        let routes = axum::Router::new().route("/door", axum::routing::post(take));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        self.stand_in.set_url(APP, Some(&url));
        self.stand_in.wait(&RowFilter::kind("url_verified"), 1, LONG).await.expect("the challenge");
    }

    pub fn order(&self, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: true,
            ends_turn: false,
            id: format!("act_{}", self.orders.fetch_add(1, Ordering::Relaxed)).as_str().into(),
            tenant: "ten_1".into(),
            instance: self.server.agent.clone(),
            on: self.bot.bot_ref(),
            action,
            stream_cursor: String::new(),
            deadline: self.clock.instant() + Duration::from_secs(25),
        }
    }

    pub async fn outcome(&self, action: Action) -> Outcome {
        self.feishu.perform(&self.bot, self.order(action)).await.outcome
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
        let unread =
            self.server.ledger.inbox().unread(&self.server.agent, ledger::Seq(0), 100).await.unwrap();
        unread.iter().map(|entry| serde_json::from_slice(&entry.event).unwrap()).collect()
    }

    pub fn inject(&self, what: Value) -> Value {
        self.stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
    }

    /// u77 writes to the bot directly. Returns the message.
    pub fn says(&self, text: &str) -> String {
        let said = self.inject(json!({"do": "message", "text": text, "user_name": "Ana"}));
        said["message"].as_str().unwrap().to_owned()
    }

    pub fn rows(&self, kind: &str) -> Vec<PlatformRow> {
        self.stand_in.transcript(&RowFilter::kind(kind))
    }

    /// The texts that the bot has sent to a chat.
    pub fn sent(&self, chat: &str) -> Vec<String> {
        let rows = self.stand_in.transcript(&RowFilter::sent(chat));
        rows.into_iter().map(|row| row.text.unwrap_or_default()).collect()
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

pub fn edit(chat: &str, message: &str, content: &str) -> Action {
    Action::Edit {
        chat_id: chat.into(),
        message_id: message.into(),
        content: content.to_owned(),
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
