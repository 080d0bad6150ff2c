//! Test fixture: a Slack bot connected to the stand-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Path;
use edge::platform::{Platform, UnverifiedRequest};
use edge::slack::Slack;
use edge::{DeliveryResult, EventFeed, OpenedBot, keep_open};
use http::{HeaderMap, Method};
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Event, Outcome, Secret};
use relay::{EgressResult, PermittedAction};
use serde_json::{Value, json};
use stand_ins::harness::{PlatformRow, RowFilter};
use stand_ins::slack as played;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vault::Credentials;

use crate::telegram::test_server::TestServer;

pub const APP: &str = "A1";
pub const BOT_USER: &str = "UBOT1";
pub const TOKEN: &str = "xoxb-canary-token";
pub const APP_TOKEN: &str = "xapp-canary-token";
/// The token of the app A2, which is in the workspace T2.
pub const OTHER_TOKEN: &str = "xoxb-canary-other";
pub const SIGNING_SECRET: &str = "canary-signing-secret";
/// The direct message of the bot with U77.
pub const DIRECT: &str = "D177";
pub const CHANNEL: &str = "C10";
/// Longer than anything here takes; only a failing test waits so long.
pub const LONG: Duration = Duration::from_secs(60);

pub fn bot(settings: Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("token", Secret::new(TOKEN));
    credentials.insert("signing_secret", Secret::new(SIGNING_SECRET));
    OpenedBot {
        platform: "slack".into(),
        id: BOT_USER.into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

pub fn settings_of_bot() -> Value {
    json!({"team_id": "T1", "bot_user_id": BOT_USER, "bot_id": "B1", "app_id": APP})
}

/// The fields of an object as a form.
pub fn form(fields: &Value) -> String {
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect()
    };
    let pairs = fields.as_object().unwrap().iter().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{}={}", encode(name), encode(&value))
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// The platform, calling this base URL.
pub fn slack(api_base: &str, clock: Timepiece) -> Slack {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Slack::new(api_base, clock)
}

pub struct Fixture {
    pub stand_in: played::SlackStandIn,
    pub slack: Slack,
    pub bot: OpenedBot,
    pub clock: Timepiece,
    pub server: TestServer,
    orders: AtomicU64,
}

pub async fn open_with(clock: Timepiece, settings: played::Settings) -> Fixture {
    let apps = vec![
        played::SlackApp::new(APP, TOKEN, APP_TOKEN, SIGNING_SECRET, "posty"),
        played::SlackApp::new("A2", OTHER_TOKEN, "xapp-canary-other", "canary-other-secret", "other"),
    ];
    let stand_in = played::SlackStandIn::start(played::Settings { apps, ..settings }).await.unwrap();
    let slack = slack(&stand_in.api_url(), clock.clone());
    let mut bot = bot(settings_of_bot());
    bot.settings.insert("api_base_url".to_owned(), stand_in.api_url().into());
    bot.credentials.insert("app_token", Secret::new(APP_TOKEN));
    let server = TestServer::with_platform(&bot, &clock, Arc::new(slack.clone())).await;
    Fixture { stand_in, slack, bot, clock, server, orders: AtomicU64::default() }
}

/// A stand-in that delivers to the doors of the bot, with one conversation in which U77 has spoken.
pub async fn open() -> Fixture {
    let fixture = open_with(Timepiece::wall(), played::Settings::default()).await;
    fixture.serve_doors().await;
    fixture
}

/// As [`open`], with a bot that admits nobody whom it does not know.
pub async fn closed() -> Fixture {
    let mut fixture = open_with(Timepiece::wall(), played::Settings::default()).await;
    let slack = Arc::new(fixture.slack.clone());
    fixture.server = TestServer::closed_with_platform(&fixture.bot, &fixture.clock, slack).await;
    fixture.serve_doors().await;
    fixture
}

/// A feed of the bot that runs until it is stopped.
pub struct Feed {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Feed {
    pub fn start(fixture: &Fixture) -> Feed {
        let (slack, clock, stop) = (fixture.slack.clone(), fixture.clock.clone(), CancellationToken::new());
        let (intake, feeds) = (fixture.server.intake(), fixture.server.ledger.event_feeds());
        let bot = Arc::new(fixture.bot.clone());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                let feed = EventFeed::open(bot, intake, feeds, stop).await.unwrap();
                keep_open(&slack, feed, &clock).await;
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
    /// Listens on loopback and gives the stand-in the addresses of the doors.
    pub async fn serve_doors(&self) {
        let (intake, bot) = (self.server.intake(), Arc::new(self.bot.clone()));
        let (platform, clock): (Arc<dyn Platform>, _) = (Arc::new(self.slack.clone()), self.clock.clone());
        let take = move |Path(door): Path<String>, headers: HeaderMap, body: Bytes| async move {
            let raw = UnverifiedRequest {
                method: Method::POST,
                door: format!("/{door}"),
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
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = axum::Router::new().route("/{door}", axum::routing::post(take));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        self.stand_in.set_urls(
            APP,
            played::AppUrls {
                events: Some(format!("{base}/events")),
                interactivity: Some(format!("{base}/interactions")),
                commands: Some(format!("{base}/commands")),
            },
        );
        self.stand_in.wait(&RowFilter::kind("events_url_verified"), 1, LONG).await.expect("the challenge");
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

    pub async fn perform(&self, action: Action) -> EgressResult {
        self.slack.perform(&self.bot, self.order(action)).await
    }

    pub async fn outcome(&self, action: Action) -> Outcome {
        self.perform(action).await.outcome
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

    /// U77 writes to the bot directly.
    pub fn says(&self, text: &str) -> Value {
        self.inject(json!({"do": "message", "text": text, "user_name": "Ana"}))
    }

    /// U77 mentions the bot in the channel.
    pub fn mentions(&self, text: &str) -> Value {
        let text = format!("<@{BOT_USER}> {text}");
        self.inject(json!({"do": "message", "text": text, "channel": CHANNEL, "user_name": "Ana"}))
    }

    pub fn rows(&self, kind: &str) -> Vec<PlatformRow> {
        self.stand_in.transcript(&RowFilter::kind(kind))
    }

    /// The texts that the bot has sent to a channel.
    pub fn sent(&self, channel: &str) -> Vec<String> {
        let rows = self.stand_in.transcript(&RowFilter::sent(channel));
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

/// The error of an outcome that must be a failure.
pub fn error(outcome: &Outcome) -> &str {
    assert!(!outcome.success, "{outcome:?}");
    let error = outcome.error.as_deref().unwrap();
    assert!(!error.contains("canary"), "{error}");
    error
}
