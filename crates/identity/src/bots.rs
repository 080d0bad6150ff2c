//! Bots, routes and settings of agents: changing the stored records. Every change is announced before it returns.

use ledger::{Bot, BotRef, Created, Discriminator, Removed, Route, Sealed, StalePolicy};
use posthouse_wire::{ChatId, InstanceId};

use crate::{Accounts, Fault};

/// New values of an agent's settings. `None` leaves a setting as it is, `Some(None)` removes its value.
#[derive(Clone, Debug, Default)]
pub struct AgentSettings {
    pub wake_url: Option<Option<String>>,
    pub callback_url: Option<Option<String>>,
    /// The mark at the end of a text that the agent is still writing.
    pub stream_cursor: Option<Option<String>>,
}

impl Accounts {
    /// Creates a bot with its sealed secrets.
    pub async fn create_bot(&self, bot: Bot, secrets: Vec<(String, Sealed)>) -> Result<Created, Fault> {
        let on = BotRef { platform: bot.platform.clone(), bot: bot.id.clone() };
        let created = self.roster.records().create_bot_with_secrets(bot, secrets).await?;
        self.roster.bot_changed(&on);
        Ok(created)
    }

    /// Sets some of the settings of a bot, given as a JSON object.
    pub async fn change_bot_settings(&self, on: &BotRef, changed: &str) -> Result<bool, Fault> {
        let known = self.roster.records().change_bot_settings(on, changed).await?;
        self.roster.bot_changed(on);
        Ok(known)
    }

    /// Removes a bot with its secrets and routes. The relay has more to do then; see its `RouteRemovals`.
    pub async fn remove_bot(&self, on: &BotRef) -> Result<Removed, Fault> {
        let removed = self.roster.records().remove_bot(&on.platform, &on.bot).await?;
        self.roster.bot_changed(on);
        Ok(removed)
    }

    /// Creates a route from a bot to an agent, with what happens to its messages that waited too long.
    pub async fn create_route(&self, route: Route, stale: Option<StalePolicy>) -> Result<Created, Fault> {
        let on = BotRef { platform: route.platform.clone(), bot: route.bot.clone() };
        let records = self.roster.records();
        let created = match stale {
            Some(policy) => records.create_route_with_policy(route, policy).await?,
            None => records.create_route(route).await?,
        };
        self.roster.bot_changed(&on);
        Ok(created)
    }

    /// Removes a route. The relay has more to do then; see its `RouteRemovals`.
    pub async fn remove_route(&self, on: &BotRef, which: &Discriminator) -> Result<Removed, Fault> {
        let removed = self.roster.records().remove_route(&on.platform, &on.bot, which).await?;
        self.roster.bot_changed(on);
        Ok(removed)
    }

    /// Rewrites the routes and access decisions of a chat that has got a new id.
    pub async fn move_chat(&self, on: &BotRef, from: &ChatId, to: &ChatId) -> Result<(), Fault> {
        let changed = self.roster.records().move_chat(on, from, to).await?;
        // Anybody can give a group of theirs a new id. That must not empty the caches of the bot's other chats.
        for chat in [from, to] {
            self.roster.place_changed(on, &Discriminator::Chat(chat.clone()));
        }
        if changed {
            self.roster.bot_changed(on);
        }
        Ok(())
    }

    /// Changes settings of an agent. The URLs must have been checked.
    pub async fn change_agent(&self, of: &InstanceId, settings: AgentSettings) -> Result<(), Fault> {
        let changed = self.write_settings(of, settings).await;
        // Announced also after a fault: some of the settings may have been written.
        self.roster.agent_changed(of);
        changed
    }

    async fn write_settings(&self, of: &InstanceId, settings: AgentSettings) -> Result<(), Fault> {
        let AgentSettings { wake_url, callback_url, stream_cursor } = settings;
        let records = self.roster.records();
        if let Some(wake_url) = wake_url {
            records.set_wake_url(of, wake_url.as_deref()).await?;
        }
        if let Some(callback_url) = callback_url {
            records.set_callback_url(of, callback_url.as_deref()).await?;
        }
        if let Some(cursor) = stream_cursor {
            records.set_stream_cursor(of, cursor.as_deref()).await?;
        }
        Ok(())
    }
}
