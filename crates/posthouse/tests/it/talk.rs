//! Actors for tests: people, a platform and an agent around one server.

use std::sync::Arc;
use std::time::Duration;

use posthouse_agent::{
    BotIdentity, DeliveryDeclined, Inbound, InboundHandler, RelayTransport, Settings, Tag, WebSocketTransport,
};
use posthouse_wire::{Action, ChatId, MessageId, Outcome, Secret, SessionKey};
use serde_json::Value;
use stand_ins::telegram::{Filter, Injection, RowKind, StandInBot, TelegramStandIn};
use tokio::sync::mpsc;

use crate::test_server::TestServer;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Tests share a process, so nothing may depend on their order.
pub fn provide_crypto() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// The Telegram stand-in with one bot per token.
pub async fn telegram(tokens: &[&str]) -> TelegramStandIn {
    provide_crypto();
    TelegramStandIn::start(stand_ins::telegram::Settings {
        bots: tokens.iter().map(|token| token.parse::<StandInBot>().unwrap()).collect(),
        retry_first: Duration::from_millis(20),
        retry_most: Duration::from_millis(200),
        ..Default::default()
    })
    .await
    .unwrap()
}

/// Makes a bot of the stand-in's; `more` are further words of the command.
pub fn make_bot(server: &TestServer, id: &str, token: &str, more: &[&str]) -> Value {
    let token = server.secret_file("token", token);
    let words = ["bot", "create", "telegram", "--id", id, "--open", "--token-file", &token];
    server.does(&[&words, more].concat())
}

/// Somebody writes to a bot in their own chat with it.
pub fn says(telegram: &TelegramStandIn, bot: i64, chat: i64, text: &str) {
    telegram.inject(Injection::text(chat, text).to_bot(bot)).unwrap();
}

/// Waits until a bot has written this in that chat.
pub async fn is_told(telegram: &TelegramStandIn, chat: i64, text: &str) -> bool {
    telegram.until(PATIENCE, |telegram| count(telegram, chat, text) > 0).await
}

pub fn count(telegram: &TelegramStandIn, chat: i64, text: &str) -> usize {
    let sent = Filter { kinds: vec![RowKind::Sent], ..Filter::chat(chat) };
    telegram.transcript(&sent).iter().filter(|row| row.text.as_deref() == Some(text)).count()
}

/// A connected agent that reports everything it receives to the test.
pub struct Rider {
    pub transport: WebSocketTransport,
    heard: mpsc::UnboundedReceiver<Inbound>,
}

struct Ear(mpsc::UnboundedSender<Inbound>);

#[async_trait::async_trait]
impl InboundHandler for Ear {
    async fn inbound(&self, inbound: Inbound) -> Result<(), DeliveryDeclined> {
        self.0.send(inbound).map_err(|_| DeliveryDeclined)
    }

    fn interrupted(&self, _: &SessionKey, _: &ChatId) {}
}

impl Rider {
    /// Connects with the output of `agent create`.
    pub async fn dial(server: &TestServer, agent: &Value, identities: &[(&str, &str)]) -> Self {
        let settings = Settings::new(
            server.url.clone(),
            agent["gateway_id"].as_str().unwrap(),
            Secret::new(agent["secret"].as_str().unwrap()),
        )
        .with_bots(identities.iter().map(|(platform, bot)| BotIdentity::new(*platform, *bot)));
        let transport = WebSocketTransport::new(settings).unwrap();
        let (tell, heard) = mpsc::unbounded_channel();
        transport.set_inbound_handler(Arc::new(Ear(tell)));
        transport.connect().await.unwrap();
        Self { transport, heard }
    }

    pub async fn hears(&mut self) -> Inbound {
        tokio::time::timeout(PATIENCE, self.heard.recv()).await.expect("nothing was heard").unwrap()
    }

    pub async fn sends(&self, platform: &str, bot: &str, chat: &str, text: &str) -> Outcome {
        self.asks(platform, bot, message(chat, text, None)).await
    }

    pub async fn replies(&self, platform: &str, bot: &str, chat: &str, text: &str, to: MessageId) -> Outcome {
        self.asks(platform, bot, message(chat, text, Some(to))).await
    }

    pub async fn asks(&self, platform: &str, bot: &str, action: Action) -> Outcome {
        let tag = Tag { platform: Some(platform.into()), bot_id: Some(bot.into()) };
        self.transport.send_outbound(action, &tag).await
    }
}

fn message(chat: &str, text: &str, reply_to: Option<MessageId>) -> Action {
    Action::Send { chat_id: chat.into(), content: text.to_owned(), reply_to, metadata: Default::default() }
}
