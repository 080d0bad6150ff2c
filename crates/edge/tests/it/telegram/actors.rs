//! A bot at the stand-in of Telegram.

use std::time::Duration;

use edge::OpenedBot;
use edge::platform::Platform;
use edge::telegram::Telegram;
use ledger::BotRef;
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Outcome, Secret};
use relay::{EgressResult, PermittedAction};
use serde_json::json;
use stand_ins::telegram as played;
use vault::Credentials;

pub const TOKEN: &str = "42:canary-token";
pub const WEBHOOK_SECRET: &str = "canary_webhook-secret";
/// Longer than anything here takes; only a failing test waits so long.
pub const LONG: Duration = Duration::from_secs(60);

/// The platform, calling this base URL.
pub fn telegram(api_base: &str, clock: Timepiece) -> Telegram {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Telegram::new(api_base, clock)
}

pub fn bot(settings: serde_json::Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("token", Secret::new(TOKEN));
    credentials.insert("webhook_secret", Secret::new(WEBHOOK_SECRET));
    OpenedBot {
        platform: "telegram".into(),
        id: "42".into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

pub struct Fixture {
    pub stand_in: played::TelegramStandIn,
    pub telegram: Telegram,
    pub bot: OpenedBot,
    pub clock: Timepiece,
}

/// Chats 5 and 6 have written to the bot.
pub async fn open(clock: Timepiece) -> Fixture {
    open_with(clock, played::Settings::default()).await
}

pub async fn open_with(clock: Timepiece, settings: played::Settings) -> Fixture {
    let bots = vec![played::StandInBot::new(TOKEN, "posty_bot").unwrap()];
    let stand_in = played::TelegramStandIn::start(played::Settings { bots, ..settings }).await.unwrap();
    for chat in [5, 6] {
        stand_in.inject(played::Injection::text(chat, "hello")).unwrap();
    }
    let telegram = telegram(&stand_in.base_url(), clock.clone());
    let bot = bot(json!({"username": "posty_bot", "bot_user_id": "42"}));
    Fixture { stand_in, telegram, bot, clock }
}

impl Fixture {
    pub fn order(&self, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: false,
            ends_turn: false,
            id: "act_1".into(),
            tenant: "ten_1".into(),
            instance: "inst_1".into(),
            on: BotRef { platform: "telegram".into(), bot: "42".into() },
            action,
            stream_cursor: String::new(),
            deadline: self.clock.instant() + Duration::from_secs(25),
        }
    }

    pub async fn perform(&self, action: Action) -> EgressResult {
        let order = self.order(action);
        self.telegram.perform(&self.bot, order).await
    }

    pub async fn outcome(&self, action: Action) -> Outcome {
        self.perform(action).await.outcome
    }

    /// The messages of the bot in the chat.
    pub fn sent(&self, chat: i64) -> Vec<String> {
        let rows = self.stand_in.transcript(&played::Filter::sent(chat));
        rows.into_iter().map(|row| row.text.unwrap()).collect()
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
