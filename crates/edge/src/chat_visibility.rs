//! Visibility of chats: answers for the gate whether a person can see a chat, by asking the platform.

use std::sync::Weak;

use async_trait::async_trait;
use ledger::{BotRef, RouteTo};
use posthouse_wire::{ChatId, UserId};

use crate::bot_uses::UsePurpose;
use crate::edge::Inner;

/// It holds the edge weakly: the edge holds the gate.
pub(crate) struct PlatformVisibility(pub Weak<Inner>);

#[async_trait]
impl identity::ChatVisibility for PlatformVisibility {
    async fn sees(&self, of: &RouteTo, on: &BotRef, user: &UserId, chat: &ChatId) -> bool {
        let Some(edge) = self.0.upgrade() else { return false };
        let Some(platform) = edge.platforms.get(on.platform.as_str()) else { return false };
        match edge.bots.find(on).await {
            Ok(Some(bot)) => {
                let asking = platform.sees(&bot, user, chat);
                let Some(called) = platform.visibility_call() else { return asking.await };
                let purpose = UsePurpose { agent: of.clone(), entry: None };
                let outcome =
                    |sees: &bool| if *sees { "ok" } else { "not a member, or no answer" }.to_owned();
                // If the use cannot be recorded, the platform is not asked and the answer is no.
                edge.bot_uses.record(&purpose, &bot.platform, called, asking, outcome).await.unwrap_or(false)
            }
            Ok(None) => false,
            Err(fault) => {
                tracing::error!(%fault, "could not open a bot");
                false
            }
        }
    }
}
