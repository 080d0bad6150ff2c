//! Test fixture: a Discord bot connected to the stand-in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use edge::discord::Discord;
use edge::platform::Platform;
use edge::{EventFeed, OpenedBot, keep_open};
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, InstanceId, Outcome, Secret};
use relay::{EgressResult, PermittedAction};
use serde_json::{Value, json};
use stand_ins::discord as played;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vault::Credentials;

use crate::telegram::test_server::TestServer;

pub const APPLICATION: &str = "1100000000000000001";
pub const TOKEN: &str = "canary.discord.token";
pub const GUILD: &str = "900";
pub const CHANNEL: &str = "910";
/// Longer than anything here takes; only a failing test waits so long.
pub const LONG: Duration = Duration::from_secs(60);

pub fn bot(settings: Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("token", Secret::new(TOKEN));
    OpenedBot {
        platform: "discord".into(),
        id: APPLICATION.into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

/// The platform, calling this base URL.
pub fn discord(api_base: &str, clock: Timepiece) -> Discord {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Discord::new(api_base, clock)
}

pub struct Fixture {
    pub stand_in: played::DiscordStandIn,
    pub discord: Discord,
    pub bot: OpenedBot,
    pub clock: Timepiece,
    pub server: TestServer,
    orders: AtomicU64,
}

/// Server Acme has the channels #general (910), help (912, a forum), and below 910 the thread 911 and the private thread
/// 913, which only person 78 is in.
pub async fn open(clock: Timepiece, settings: played::Settings) -> Fixture {
    open_bot(clock, settings, false).await
}

/// As [`open`], with a shared bot. No place of it belongs to the agent.
pub async fn open_shared() -> Fixture {
    open_shared_at(Timepiece::wall(), played::Settings::default()).await
}

pub async fn open_shared_at(clock: Timepiece, settings: played::Settings) -> Fixture {
    open_bot(clock, settings, true).await
}

async fn open_bot(clock: Timepiece, settings: played::Settings, shared: bool) -> Fixture {
    let bots = vec![played::DiscordBot::new(APPLICATION, TOKEN, "posty")];
    let stand_in = played::DiscordStandIn::start(played::Settings { bots, ..settings }).await.unwrap();
    let guild = json!({"id": GUILD, "name": "Acme", "channels": [
        {"id": CHANNEL, "name": "general", "topic": "Daily talk"},
        {"id": "911", "type": 11, "name": "bug 42", "parent_id": CHANNEL},
        {"id": "913", "type": 12, "name": "for few", "parent_id": CHANNEL, "thread_members": ["78"]},
        {"id": "912", "type": 15, "name": "help"}],
        "members": [{"user": {"id": "77", "username": "ana"}}, {"user": {"id": "78", "username": "ben"}}]});
    stand_in.add_guild(serde_json::from_value(guild).unwrap());
    let discord = discord(&stand_in.api_url(), clock.clone());
    let bot = bot(json!({"application_id": APPLICATION, "bot_user_id": APPLICATION,
        "public_key": stand_in.public_key(APPLICATION).unwrap()}));
    let bot = OpenedBot { shared, ..bot };
    let platform: Arc<dyn Platform> = Arc::new(discord.clone());
    let server = match shared {
        true => TestServer::with_shared_bot(&bot, &clock, platform).await,
        false => TestServer::with_platform(&bot, &clock, platform).await,
    };
    Fixture { stand_in, discord, bot, clock, server, orders: AtomicU64::default() }
}

pub async fn open_on_wall_time() -> Fixture {
    open(Timepiece::wall(), played::Settings::default()).await
}

/// A feed of the bot that runs until it is stopped.
pub struct Feed {
    pub stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Feed {
    pub fn start(fixture: &Fixture) -> Feed {
        let (discord, clock, stop) =
            (fixture.discord.clone(), fixture.clock.clone(), CancellationToken::new());
        let (intake, feeds) = (fixture.server.intake(), fixture.server.ledger.event_feeds());
        let bot = Arc::new(fixture.bot.clone());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                let feed = EventFeed::open(bot, intake, feeds, stop).await.unwrap();
                keep_open(&discord, feed, &clock).await;
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
    /// Forgets all that was learned over the gateway, as a restart of the server does. The session goes on.
    pub fn forget_servers(&mut self) {
        self.discord = discord(&self.stand_in.api_url(), self.clock.clone());
    }

    pub fn order(&self, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: true,
            ends_turn: false,
            // Discord takes two messages of the same action for one.
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
        self.discord.perform(&self.bot, self.order(action)).await
    }

    pub async fn outcome(&self, action: Action) -> Outcome {
        self.perform(action).await.outcome
    }

    /// Waits until the bot is connected to the gateway.
    pub async fn connected(&self) {
        let connected =
            |stand_in: &played::DiscordStandIn| stand_in.sessions().iter().any(|one| one.connected);
        assert!(self.stand_in.until(LONG, connected).await, "{:?}", self.stand_in.sessions());
    }

    /// Waits until the agent has these messages.
    pub async fn hears(&self, texts: &[&str]) {
        self.is_heard_by(&self.server.agent, texts).await;
    }

    /// Waits until this agent has these messages.
    pub async fn is_heard_by(&self, agent: &InstanceId, texts: &[&str]) {
        let heard = async || -> Vec<String> {
            self.server.events_of(agent).await.into_iter().map(|event| event.text).collect()
        };
        let until_heard = async {
            while heard().await != texts {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(LONG, until_heard).await.is_err() {
            panic!("heard {:?}, not {texts:?}", heard().await);
        }
    }

    /// Repeats a message until the agent has it, because a new session does not get earlier messages.
    pub async fn says_until_heard(&self, text: &str) {
        let heard = async {
            while !self.server.texts().await.iter().any(|heard| heard == text) {
                self.says(text);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LONG, heard).await.unwrap_or_else(|_| panic!("never heard: {text}"));
    }

    pub fn inject(&self, what: Value) -> Value {
        self.stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
    }

    /// This person speaks to the bot in a channel of Acme.
    pub fn is_told_by(&self, person: &str, channel: &str, text: &str) {
        let text = format!("<@{APPLICATION}> {text}");
        self.inject(json!({"do": "message", "text": text, "from": {"id": person},
            "in": {"guild_id": GUILD, "channel_id": channel}}));
    }

    /// Somebody speaks to the bot in #general.
    pub fn says(&self, text: &str) -> Value {
        let text = format!("<@{APPLICATION}> {text}");
        self.inject(json!({"do": "message", "text": text, "in": {"guild_id": GUILD, "channel_id": CHANNEL}}))
    }

    /// The texts that the bot has sent to a channel.
    pub fn sent(&self, channel: &str) -> Vec<String> {
        let filter = serde_json::from_value(json!({"chat": channel, "kind": "sent"})).unwrap();
        self.stand_in.transcript(&filter).into_iter().map(|row| row.text.unwrap_or_default()).collect()
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
