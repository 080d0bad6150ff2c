//! Test fixture: an application or an AI bot of WeCom, played by the stand-in, with a door of its own.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::RawQuery;
use edge::platform::{Platform, UnverifiedRequest};
use edge::wecom::{WeCom, WeComProduct};
use edge::{DeliveryResult, EventFeed, OpenedBot, keep_open};
use http::{HeaderMap, Method};
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Event, Outcome, Secret};
use relay::{Egress, PermittedAction};
use serde_json::{Value, json};
use stand_ins::harness::{PlatformRow, RowFilter};
use stand_ins::wecom as played;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vault::Credentials;

use crate::telegram::test_server::TestServer;

pub const LONG: Duration = Duration::from_secs(60);
pub const CORP: &str = "ww1";
pub const APP: &str = "ww1-1000002";
pub const AI_BOT: &str = "AIB";
pub const CHAT: &str = "ww1:ana";
const SECRET: &str = "canary-secret";
const TOKEN: &str = "canary-callback";
const AES_KEY: &str = "canary7890123456789012345678901234567890123";

pub struct Fixture {
    pub stand_in: played::WeComStandIn,
    pub wecom: WeCom,
    pub bot: OpenedBot,
    pub clock: Timepiece,
    pub server: TestServer,
    stop: CancellationToken,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub fn bot(product: WeComProduct, has_secret: bool) -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("token", Secret::new(TOKEN));
    credentials.insert("encoding_aes_key", Secret::new(AES_KEY));
    if has_secret {
        credentials.insert("api_secret", Secret::new(SECRET));
    }
    let (platform, id, settings) = match product {
        WeComProduct::App => ("wecom_callback", APP, json!({ "corp_id": CORP, "agent_id": "1000002" })),
        WeComProduct::AiBot => ("wecom", AI_BOT, json!({ "bot_id": AI_BOT })),
    };
    OpenedBot {
        platform: platform.into(),
        id: id.into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

pub async fn open_app() -> Fixture {
    open(WeComProduct::App, true, Timepiece::wall()).await
}

/// A fixture whose callbacks go to a door on loopback, unless its bot has a long connection.
pub async fn open(product: WeComProduct, has_secret: bool, clock: Timepiece) -> Fixture {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let settings = played::Settings {
        apps: vec![format!("{CORP}:1000002:{SECRET}:{TOKEN}:{AES_KEY}").parse().unwrap()],
        bots: vec![format!("{AI_BOT}:{SECRET}:{TOKEN}:{AES_KEY}").parse().unwrap()],
        ..played::Settings::default()
    };
    let stand_in = played::WeComStandIn::start(settings).await.unwrap();
    let wecom = WeCom::new(product, &stand_in.base_url(), &stand_in.socket_url(), clock.clone());
    let bot = bot(product, has_secret);
    let server = TestServer::with_platform(&bot, &clock, Arc::new(wecom.clone())).await;
    let stop = CancellationToken::new();
    let fixture = Fixture { stand_in, wecom, bot, clock, server, stop };
    if product == WeComProduct::App || !has_secret {
        fixture.open_door().await;
    }
    fixture
}

/// A served feed.
pub struct Feed {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Feed {
    pub async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task).await.unwrap().unwrap();
    }
}

impl Fixture {
    async fn open_door(&self) {
        let (platform, bot): (Arc<dyn Platform>, _) =
            (Arc::new(self.wecom.clone()), Arc::new(self.bot.clone()));
        let (intake, clock) = (self.server.intake(), self.clock.clone());
        let receive = move |method: Method, RawQuery(query): RawQuery, headers: HeaderMap, body: Bytes| {
            let (platform, bot, intake) = (Arc::clone(&platform), Arc::clone(&bot), intake.clone());
            let raw = UnverifiedRequest {
                method,
                door: String::new(),
                query: query.unwrap_or_default(),
                headers,
                body,
                received: clock.now(),
                server_url: "http://127.0.0.1:7678".into(),
            };
            async move {
                match intake.receive(&platform, &bot, raw).await.unwrap() {
                    DeliveryResult::Taken { reply, .. } => (reply.status, reply.body),
                    DeliveryResult::Refused(refusal) => (refusal.status, Bytes::new()),
                }
            }
        };
        let router = axum::Router::new().route("/", axum::routing::any(receive));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let stop = self.stop.clone();
        tokio::spawn(async move {
            axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
        });
        self.stand_in.set_callback(self.bot.id.as_str(), &url).unwrap();
        self.stand_in.wait(&RowFilter::kind("callback_verified"), 1, LONG).await.unwrap();
    }

    pub fn feed(&self) -> Feed {
        let (wecom, clock, stop) = (self.wecom.clone(), self.clock.clone(), CancellationToken::new());
        let (intake, feeds) = (self.server.intake(), self.server.ledger.event_feeds());
        let (bot, stopped) = (Arc::new(self.bot.clone()), stop.clone());
        let task = tokio::spawn(async move {
            let feed = EventFeed::open(bot, intake, feeds, stopped).await.unwrap();
            keep_open(&wecom, feed, &clock).await;
        });
        Feed { stop, task }
    }

    /// A person does something.
    pub fn inject(&self, mut what: Value) -> Value {
        what["account"] = json!(self.bot.id);
        self.stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
    }

    pub fn says(&self, text: &str) {
        self.inject(json!({ "do": "message", "text": text }));
    }

    /// Waits until the agent has these texts.
    pub async fn hears(&self, texts: &[&str]) {
        let heard = async {
            while self.server.texts().await.len() < texts.len() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, heard).await.unwrap();
        assert_eq!(self.server.texts().await, texts);
    }

    pub async fn events(&self) -> Vec<Event> {
        let agent = &self.server.agent;
        let unread = self.server.ledger.inbox().unread(agent, ledger::Seq(0), 1000).await.unwrap();
        unread.iter().map(|entry| serde_json::from_slice(&entry.event).unwrap()).collect()
    }

    pub fn order(&self, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: true,
            ends_turn: true,
            id: "act_1".into(),
            tenant: "ten_1".into(),
            instance: self.server.agent.clone(),
            on: self.bot.bot_ref(),
            action,
            stream_cursor: String::new(),
            deadline: self.clock.instant() + Duration::from_secs(25),
        }
    }

    pub async fn outcome(&self, action: Action) -> Outcome {
        self.wecom.perform(&self.bot, self.order(action)).await.outcome
    }

    pub async fn follows_up(&self, order: PermittedAction) -> Outcome {
        self.server.edge().perform(order).await.outcome
    }

    pub fn rows(&self, kind: &str) -> Vec<PlatformRow> {
        self.stand_in.transcript(&RowFilter::kind(kind))
    }

    /// The texts of all that the bot has sent.
    pub fn sent(&self) -> Vec<String> {
        self.rows("sent").into_iter().filter_map(|row| row.text).collect()
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

pub fn follow_up(session: &str, kind: &str, content: &str) -> Action {
    Action::FollowUp {
        session_key: session.into(),
        kind: kind.into(),
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
