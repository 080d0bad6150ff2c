//! Visibility of chats: answers for the gate whether a person can see a chat, by asking the platform.

use std::sync::Weak;

use async_trait::async_trait;
use ledger::BotRef;
use posthouse_wire::{ChatId, UserId};

use crate::edge::Inner;

/// It holds the edge weakly: the edge holds the gate.
pub(crate) struct PlatformVisibility(pub Weak<Inner>);

#[async_trait]
impl identity::ChatVisibility for PlatformVisibility {
    async fn sees(&self, on: &BotRef, user: &UserId, chat: &ChatId) -> bool {
        let Some(edge) = self.0.upgrade() else { return false };
        let Some(platform) = edge.platforms.get(on.platform.as_str()) else { return false };
        match edge.bots.find(on).await {
            Ok(Some(bot)) => platform.sees(&bot, user, chat).await,
            Ok(None) => false,
            Err(fault) => {
                tracing::error!(%fault, "could not open a bot");
                false
            }
        }
    }
}
