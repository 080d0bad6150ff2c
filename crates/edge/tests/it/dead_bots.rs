//! Bots whose credential Discord, WhatsApp or Twilio does not accept: they are marked, make no more calls, harm no
//! other bot of the platform, and work again with a new secret.

use std::sync::Arc;
use std::time::Duration;

use edge::OpenedBot;
use edge::platform::Platform;
use edge::twilio::TwilioChannel;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use posthouse_wire::action::Metadata;
use relay::{Egress, PermittedAction};
use serde_json::json;
use vault::Credentials;

use crate::telegram::health::eventually;
use crate::telegram::test_server::TestServer;
use crate::{discord, twilio, whatsapp};

/// Two bots of a platform.
struct TwoBots {
    platform: Arc<dyn Platform>,
    /// Its secret is not the one that the platform has.
    dead: OpenedBot,
    working: OpenedBot,
    secret: &'static str,
    accepted: &'static str,
    /// A chat of both.
    chat: &'static str,
}

fn with_secret(bot: &OpenedBot, name: &str, secret: &str) -> OpenedBot {
    let mut bot = bot.clone();
    bot.credentials.insert(name, Secret::new(secret));
    bot
}

fn order(
    server: &TestServer,
    bot: &OpenedBot,
    clock: &Timepiece,
    (chat, text): (&str, &str),
) -> PermittedAction {
    PermittedAction {
        may_redeem: true,
        ends_turn: false,
        id: format!("act_{text}").as_str().into(),
        tenant: "ten_1".into(),
        instance: server.agent.clone(),
        on: bot.bot_ref(),
        action: posthouse_wire::Action::Send {
            chat_id: chat.into(),
            content: text.to_owned(),
            reply_to: None,
            metadata: Metadata::default(),
        },
        stream_cursor: String::new(),
        deadline: clock.instant() + Duration::from_secs(25),
    }
}

/// `refused` is the number of calls that the platform has refused.
async fn dies_alone_and_comes_back(bots: TwoBots, refused: impl Fn() -> usize) {
    let TwoBots { platform, dead, working, secret, accepted, chat } = bots;
    // The next check of a dead bot is a quarter of an hour away.
    let clock = Timepiece::wall();
    let server = TestServer::with_platform(&dead, &clock, platform).await;
    server.add_bot(&working).await;
    server.start_edge();
    let (edge, on) = (server.edge(), dead.bot_ref());
    let send = async |bot: &OpenedBot, text: &str| {
        edge.perform(order(&server, bot, &clock, (chat, text))).await.outcome
    };
    eventually("the mark", async || {
        let outcome = send(&dead, "refused").await;
        assert!(
            outcome.error.as_deref().is_some_and(|error| error.starts_with("unauthorized")),
            "{outcome:?}"
        );
        edge.health().is_dead(&on)
    })
    .await;

    let calls = refused();
    assert!(calls > 0);
    for _ in 0..3 {
        let error = send(&dead, "to a dead bot").await.error;
        assert_eq!(error.as_deref(), Some("unauthorized: this bot's credential is not accepted"));
    }
    let sent = send(&working, "another").await;
    assert!(sent.success, "{sent:?}");
    assert!(!edge.health().is_dead(&working.bot_ref()));
    assert_eq!(refused(), calls, "a dead bot makes no calls");

    let mut secrets = Credentials::default();
    secrets.insert(secret, Secret::new(accepted));
    edge.replace_credentials(&on, secrets).await.unwrap().unwrap();
    assert!(!edge.health().is_dead(&on));
    let sent = send(&dead, "back").await;
    assert!(sent.success, "{sent:?}");
}

#[tokio::test]
async fn a_dead_bot_of_discord_harms_no_other_and_comes_back() {
    use stand_ins::discord::{DiscordBot, DiscordStandIn, Settings};
    const OTHER: &str = "1100000000000000002";
    let bots = vec![
        DiscordBot::new(discord::actors::APPLICATION, discord::actors::TOKEN, "posty"),
        DiscordBot::new(OTHER, "canary.other.token", "other"),
    ];
    let stand_in = DiscordStandIn::start(Settings { bots, ..Settings::default() }).await.unwrap();
    stand_in.add_guild(
        serde_json::from_value(
            json!({"id": "900", "name": "Acme", "channels": [{"id": "910", "name": "general"}]}),
        )
        .unwrap(),
    );
    let bot = discord::actors::bot(json!({}));
    let bots = TwoBots {
        platform: Arc::new(discord::actors::discord(&stand_in.api_url(), Timepiece::wall())),
        dead: with_secret(&bot, "token", "canary.revoked"),
        working: OpenedBot { id: OTHER.into(), ..with_secret(&bot, "token", "canary.other.token") },
        secret: "token",
        accepted: discord::actors::TOKEN,
        chat: "910",
    };
    dies_alone_and_comes_back(bots, || stand_in.refusals(&Default::default()).len()).await;
}

#[tokio::test]
async fn a_dead_bot_of_whatsapp_harms_no_other_and_comes_back() {
    use stand_ins::whatsapp::{Settings, WhatsAppStandIn};
    let number = |id: &str, token: &str| format!("{id}:{token}:canary-app:canary-verify").parse().unwrap();
    let numbers = vec![number("106", whatsapp::actors::TOKEN), number("107", "canary-other")];
    let stand_in = WhatsAppStandIn::start(Settings { numbers, ..Settings::default() }).await.unwrap();
    for number in ["106", "107"] {
        // A number may write to a person who has written to it.
        let said = json!({"do": "message", "text": "hi", "number": number});
        stand_in.inject(serde_json::from_value(said).unwrap()).unwrap();
    }
    let bot = whatsapp::actors::bot();
    let mut working = OpenedBot { id: "107".into(), ..with_secret(&bot, "token", "canary-other") };
    working.settings.insert("phone_number_id".to_owned(), json!("107"));
    let bots = TwoBots {
        platform: Arc::new(whatsapp::actors::whatsapp(&stand_in.base_url())),
        dead: with_secret(&bot, "token", "canary-revoked"),
        working,
        secret: "token",
        accepted: whatsapp::actors::TOKEN,
        chat: whatsapp::actors::ANA,
    };
    dies_alone_and_comes_back(bots, || stand_in.refusals(&Default::default()).len()).await;
}

#[tokio::test]
async fn a_dead_bot_of_twilio_harms_no_other_and_comes_back() {
    use stand_ins::twilio::{Settings, TwilioAccount, TwilioStandIn};
    // With the auth token of the account, and with an API key.
    for (channel, by_key) in
        [(TwilioChannel::Sms, false), (TwilioChannel::WhatsApp, false), (TwilioChannel::Sms, true)]
    {
        let account = |account: String| account.parse::<TwilioAccount>().unwrap();
        let mut accounts = vec![
            account(format!("AC1:{}:{}", twilio::actors::TOKEN, twilio::actors::OWN)),
            account("AC2:canary-other:+15550101".to_owned()),
        ];
        accounts[0].api_key = Some(("SK1".to_owned(), "canary-key".to_owned()));
        let stand_in = TwilioStandIn::start(Settings { accounts, ..Settings::default() }).await.unwrap();
        let other = twilio::actors::bot(channel, json!({"account_sid": "AC2", "number": "+15550101"}));
        let settings = if by_key { json!({"api_key_sid": "SK1"}) } else { json!({}) };
        let bot = twilio::actors::bot(channel, settings);
        let (secret, accepted) =
            if by_key { ("api_key_secret", "canary-key") } else { ("auth_token", twilio::actors::TOKEN) };
        let chat = if channel == TwilioChannel::Sms { "+15550177" } else { "15550177" };
        let bots = TwoBots {
            platform: Arc::new(twilio::actors::twilio(channel, &stand_in.base_url())),
            dead: with_secret(&bot, secret, "canary-revoked"),
            working: OpenedBot { id: "15550101".into(), ..with_secret(&other, "auth_token", "canary-other") },
            secret,
            accepted,
            chat,
        };
        dies_alone_and_comes_back(bots, || stand_in.refusals(&Default::default()).len()).await;
    }
}
