//! Permission of actions: the bot that an action uses, and whether the agent may act there as that bot.

use std::sync::Arc;

use ledger::{BotRef, Roster};
use posthouse_wire::frame::Outbound;
use posthouse_wire::session_key::UNKNOWN_PLATFORM;
use posthouse_wire::{Action, CapabilityKind, ChatId, Outcome, Platform, SessionKey};

use super::{ActionRequest, NotBegun};

/// Decides by the server's own records, never by the frame alone.
pub(super) struct Permissions {
    pub roster: Arc<dyn Roster>,
}

/// A permitted action.
pub(super) struct Permit {
    /// The identity that it uses.
    pub on: BotRef,
    /// See [`crate::PermittedAction::may_redeem`].
    pub may_redeem: bool,
}

impl Permissions {
    /// Returns the identity for an action, if the action is permitted.
    pub async fn permit(&self, asked: &ActionRequest) -> Result<Permit, NotBegun> {
        if let Action::FollowUp { session_key, kind, .. } = &asked.outbound.action {
            return self.permit_follow_up(asked, session_key, kind).await;
        }
        let on = self.identity_for(asked).await?;
        self.guard(asked, &on).await?;
        Ok(Permit { on, may_redeem: false })
    }

    /// A follow-up is not declined here, because unknown, foreign and expired sessions must look alike, in the answer
    /// and in the work that is done (contract section 12). The same lookups are made in every case. The egress then
    /// looks for the capability, also in every case.
    async fn permit_follow_up(
        &self,
        asked: &ActionRequest,
        session_key: &SessionKey,
        kind: &CapabilityKind,
    ) -> Result<Permit, NotBegun> {
        let Outbound { platform, bot_id, .. } = &asked.outbound;
        let Some(default) = asked.advertised.first() else {
            return Err(NotBegun::Refused(Outcome::no_capability()));
        };
        let (roster, instance) = (&self.roster, &asked.holder.instance);
        let session = roster.chat_of_session(instance, session_key).await?;
        let advertised = |platform: &str| {
            asked.advertised.iter().find(|identity| {
                identity.platform == *platform && bot_id.as_ref().is_none_or(|bot| identity.bot == *bot)
            })
        };
        let of_kind = kind.as_str().split_once('.').map_or("", |(platform, _)| platform);
        let on = match platform.as_ref().filter(|platform| **platform != UNKNOWN_PLATFORM) {
            Some(platform) => advertised(platform.as_str()),
            None => session.as_ref().map(|(on, _)| on).or_else(|| advertised(of_kind)),
        };
        let (on, is_advertised) = (on.unwrap_or(default).clone(), on.is_some());
        let is_of_bot = session.as_ref().is_none_or(|(was_on, _)| *was_on == on);
        let is_session_known = session.is_some();
        let chat = session.map_or_else(|| ChatId::new(""), |(_, chat)| chat);
        let reaches = roster.may_reach(instance, &on, &chat).await?;
        let has_route = roster.has_route(instance, &on).await?;
        let may_redeem = is_advertised && is_of_bot && if is_session_known { reaches } else { has_route };
        Ok(Permit { on, may_redeem })
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
                let last = match action.chat_id() {
                    Some(chat) => self.roster.last_identity(&asked.holder.instance, chat).await?,
                    None => None,
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
        let may = match asked.outbound.action.chat_id() {
            Some(chat) if needs_no_route => roster.knows_chat(instance, on, chat).await?,
            Some(chat) => roster.may_reach(instance, on, chat).await?,
            None => needs_no_route || roster.has_route(instance, on).await?,
        };
        if may { Ok(()) } else { Err(NotBegun::Refused(Outcome::egress_declined(on.platform.as_str()))) }
    }
}
