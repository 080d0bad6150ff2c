//! Permission of actions: the bot that an action uses, and whether the agent may act there as that bot.

use std::sync::Arc;

use ledger::{BotRef, Roster};
use posthouse_wire::frame::Outbound;
use posthouse_wire::session_key::UNKNOWN_PLATFORM;
use posthouse_wire::{Action, Outcome, Platform};

use super::{ActionRequest, NotBegun};

/// Decides by the server's own records, never by the frame alone.
pub(super) struct Permissions {
    pub roster: Arc<dyn Roster>,
}

impl Permissions {
    /// Returns the identity for an action, if the action is permitted.
    pub async fn permit(&self, asked: &ActionRequest) -> Result<BotRef, NotBegun> {
        let on = self.identity_for(asked).await?;
        self.guard(asked, &on).await?;
        Ok(on)
    }

    /// Chooses the identity for an action (contract section 11.1).
    async fn identity_for(&self, asked: &ActionRequest) -> Result<BotRef, NotBegun> {
        let Outbound { action, platform, bot_id, .. } = &asked.outbound;
        if asked.advertised.is_empty() {
            let platform = platform.as_ref().map_or("relay", Platform::as_str);
            return Err(NotBegun::Refused(Outcome::egress_declined(platform)));
        }
        // In scheduled sends, later stock agents use the placeholder `relay` for a platform that they have no name for.
        // It means the same as no platform.
        match platform.as_ref().filter(|platform| **platform != UNKNOWN_PLATFORM) {
            Some(platform) => {
                let advertised = asked.advertised.iter().find(|identity| {
                    identity.platform == *platform && bot_id.as_ref().is_none_or(|bot| identity.bot == *bot)
                });
                // Only credentials of an identity that this socket sent a hello for may be used.
                advertised
                    .cloned()
                    .ok_or_else(|| NotBegun::Refused(Outcome::egress_declined(platform.as_str())))
            }
            None => {
                let last = match action {
                    Action::FollowUp { session_key, .. } => self
                        .roster
                        .chat_of_session(&asked.holder.instance, session_key)
                        .await?
                        .map(|(on, _)| on),
                    _ => match action.chat_id() {
                        Some(chat) => self.roster.last_identity(&asked.holder.instance, chat).await?,
                        None => None,
                    },
                };
                last.or_else(|| asked.advertised.first().cloned())
                    .ok_or_else(|| NotBegun::Refused(Outcome::egress_declined("relay")))
            }
        }
    }

    /// Checks that the agent may act in this chat as this bot. The server's own records decide: there must be a
    /// current route, and the chat must have been delivered or routed to the agent (contract section 11.3).
    async fn guard(&self, asked: &ActionRequest, on: &BotRef) -> Result<(), NotBegun> {
        let (roster, instance) = (&self.roster, &asked.holder.instance);
        let needs_no_route = asked.egress.everyones().is_some_and(|everyones| everyones == *on);
        let may = match &asked.outbound.action {
            // A follow-up also needs a capability that is bound to its session, which the egress checks.
            Action::FollowUp { session_key, .. } => {
                match roster.chat_of_session(instance, session_key).await? {
                    Some((was_on, _)) if was_on != *on => false,
                    _ if needs_no_route => true,
                    Some((_, chat)) => roster.may_reach(instance, on, &chat).await?,
                    None => roster.has_route(instance, on).await?,
                }
            }
            action => match action.chat_id() {
                Some(chat) if needs_no_route => roster.knows_chat(instance, on, chat).await?,
                Some(chat) => roster.may_reach(instance, on, chat).await?,
                None => needs_no_route || roster.has_route(instance, on).await?,
            },
        };
        if may { Ok(()) } else { Err(NotBegun::Refused(Outcome::egress_declined(on.platform.as_str()))) }
    }
}
