//! Test fixture: a number of Twilio, played by the stand-in.

use std::sync::Arc;
use std::time::Duration;

use edge::OpenedBot;
use edge::twilio::{Twilio, TwilioChannel};
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Outcome, Secret};
use relay::PermittedAction;
use serde_json::{Value, json};
use stand_ins::twilio as played;
use vault::Credentials;

use crate::telegram::test_server::TestServer;

pub const ACCOUNT: &str = "AC1";
pub const TOKEN: &str = "canary-auth-token";
pub const OWN: &str = "+15550100";
pub const ANA: &str = "+15550177";

/// A bot with these settings and secrets beside its account and number.
pub fn bot(channel: TwilioChannel, settings: Value) -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("auth_token", Secret::new(TOKEN));
    let mut all = json!({ "account_sid": ACCOUNT, "number": OWN });
    for (name, value) in settings.as_object().unwrap() {
        all[name] = value.clone();
    }
    let platform = if channel == TwilioChannel::Sms { "sms" } else { "whatsapp" };
    OpenedBot {
        platform: platform.into(),
        id: "15550100".into(),
        shared: false,
        settings: all.as_object().unwrap().clone(),
        credentials,
    }
}

pub fn twilio(channel: TwilioChannel, api_base: &str) -> Twilio {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Twilio::new(channel, api_base, Timepiece::wall())
}

pub struct Fixture {
    pub stand_in: played::TwilioStandIn,
    pub twilio: Twilio,
    pub bot: OpenedBot,
    pub clock: Timepiece,
    pub server: TestServer,
}

pub async fn open(channel: TwilioChannel) -> Fixture {
    open_with(channel, None).await
}

pub async fn open_with(channel: TwilioChannel, messages_per_second: Option<u32>) -> Fixture {
    let accounts = vec![format!("{ACCOUNT}:{TOKEN}:{OWN}").parse().unwrap()];
    let settings = played::Settings { accounts, messages_per_second, ..played::Settings::default() };
    let stand_in = played::TwilioStandIn::start(settings).await.unwrap();
    let (twilio, bot, clock) =
        (twilio(channel, &stand_in.base_url()), bot(channel, json!({})), Timepiece::wall());
    let server = TestServer::with_platform(&bot, &clock, Arc::new(twilio.clone())).await;
    Fixture { stand_in, twilio, bot, clock, server }
}

impl Fixture {
    pub fn order(&self, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: true,
            ends_turn: false,
            id: "act_1".into(),
            tenant: "ten_1".into(),
            instance: self.server.agent.clone(),
            on: self.bot.bot_ref(),
            action,
            stream_cursor: String::new(),
            deadline: self.clock.instant() + Duration::from_secs(25),
        }
    }

    /// The texts that were sent to an address.
    pub fn sent(&self, to: &str) -> Vec<String> {
        let filter = serde_json::from_value(json!({ "chat": to, "kind": "sent" })).unwrap();
        self.stand_in.transcript(&filter).into_iter().filter_map(|row| row.text).collect()
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
