//! SDK agents that accept every message at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::{BoxFuture, ready};
use posthouse_agent::{
    BotIdentity, DeliveryDeclined, Inbound, InboundHandler, RelayTransport, Settings, WebSocketTransport,
};
use posthouse_wire::{ChatId, SessionKey};

use super::fixtures::{BenchAgent, PLATFORM, poster_of};
use super::server::ServerProcess;
use super::stopwatch::Stopwatch;
use super::tally::MessageTally;

/// A message that has not arrived within this time is lost.
const ARRIVED_WITHIN: Duration = Duration::from_secs(120);

pub struct SdkAgents(Vec<WebSocketTransport>);

impl SdkAgents {
    /// Connects every agent and waits until the server has described its platform.
    pub async fn dial(
        server: &ServerProcess,
        agents: &[BenchAgent],
        window: u16,
        tally: &Arc<MessageTally>,
    ) -> anyhow::Result<Self> {
        let mut lines = Vec::with_capacity(agents.len());
        for agent in agents {
            let settings = Settings::new(&server.url, agent.gateway.clone(), agent.secret.clone())
                .with_bots([BotIdentity::new(PLATFORM, agent.bot.clone())])
                .window(window);
            let line = WebSocketTransport::new(settings)?;
            line.set_inbound_handler(Arc::new(CountingHandler(Arc::clone(tally))));
            line.connect().await.context("an agent could not connect")?;
            lines.push(line);
        }
        Ok(Self(lines))
    }

    pub async fn leave(self) {
        for line in self.0 {
            line.disconnect().await;
        }
    }
}

/// Waits until agents have every answered message, and the server has stored their acknowledgements.
pub async fn everything_acknowledged(server: &ServerProcess, tally: &MessageTally) -> anyhow::Result<()> {
    everything_received(tally).await?;
    server.acknowledged(tally.count_answered()).await
}

/// Waits until agents have every answered message of this tally.
pub async fn everything_received(tally: &MessageTally) -> anyhow::Result<()> {
    let watch = Stopwatch::start();
    while tally.count_received() < tally.count_answered() {
        ensure!(
            watch.elapsed() < ARRIVED_WITHIN,
            "agents have {} of {} messages",
            tally.count_received(),
            tally.count_answered()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

struct CountingHandler(Arc<MessageTally>);

impl InboundHandler for CountingHandler {
    // Written without `async`: nothing is awaited, so the future is ready at once.
    fn inbound<'a, 'b>(&'a self, inbound: Inbound) -> BoxFuture<'b, Result<(), DeliveryDeclined>>
    where
        'a: 'b,
        Self: 'b,
    {
        let event = &inbound.event;
        let number = match &event.post {
            // From a program: the server chooses the id of the message, so the number is in another field.
            Some(posted) => {
                let meta = posted.meta.as_ref();
                meta.and_then(|meta| meta.correlation_id.as_ref()).map(|number| number.as_str())
            }
            None => event.message_id.as_ref().map(|id| id.as_str()),
        };
        let chat = event.source.chat_id.as_ref().and_then(|chat| poster_of(chat.as_str()));
        if let (Some(number), Some(chat)) = (number.and_then(|number| number.parse().ok()), chat) {
            self.0.received(number, chat);
        }
        Box::pin(ready(Ok(())))
    }

    fn interrupted(&self, _: &SessionKey, _: &ChatId) {}
}
