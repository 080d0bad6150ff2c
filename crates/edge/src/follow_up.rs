//! Follow-ups: messages that are sent with a capability which an earlier event brought.
//!
//! The capability is redeemed here, before the platform is called, because platforms hold no vault. Without a usable
//! capability every follow-up gets the same answer after the same work.

use posthouse_wire::{Action, CapabilityKind, Outcome, Secret};
use relay::{EgressResult, PermittedAction};
use vault::Redemption;

use crate::{Edge, Fault};

/// A follow-up with its redeemed capability.
pub struct FollowUp<'a> {
    pub permitted: &'a PermittedAction,
    pub kind: &'a CapabilityKind,
    pub content: &'a str,
    pub value: &'a Secret,
}

/// The end of a follow-up.
pub struct FollowedUp {
    pub outcome: Outcome,
    /// The call that was made.
    pub called: &'static str,
    /// The call certainly had no effect, so that the capability can be used again.
    pub had_no_effect: bool,
}

impl Edge {
    pub(crate) async fn follow_up(&self, permitted: PermittedAction) -> EgressResult {
        match self.redeem_and_send(&permitted).await {
            Ok(carried) => carried,
            Err(fault) => {
                tracing::error!(%fault, "could not carry out a follow-up");
                // The same as for a missing capability: a fault must not tell that there is one.
                Outcome::no_capability().into()
            }
        }
    }

    async fn redeem_and_send(&self, permitted: &PermittedAction) -> Result<EgressResult, Fault> {
        let Action::FollowUp { session_key, kind, content, .. } = &permitted.action else {
            return Ok(Outcome::unsupported(permitted.action.op()).into());
        };
        let platform = self.platform(permitted.on.platform.as_str());
        let prefix = platform.map(|platform| platform.capability_prefix());
        let is_of_platform = kind.as_str().split_once('.').is_some_and(|(of, _)| prefix == Some(of));
        // No capability has an empty kind. It is looked for all the same, so that the refusal takes the same time.
        let none = CapabilityKind::new("");
        let wanted = if permitted.may_redeem && is_of_platform { kind } else { &none };
        let redemption = self
            .0
            .vault
            .redeem(&permitted.tenant, &permitted.instance, session_key, wanted, Some(&permitted.id))
            .await?;
        let Redemption::Granted(granted) = redemption else { return Ok(Outcome::no_capability().into()) };
        let bot = self.0.bots.find(&permitted.on).await?;
        let (Some(platform), Some(bot)) = (platform, bot) else {
            self.0.vault.give_back(granted).await?;
            return Ok(Outcome::no_capability().into());
        };
        let posted = self.0.timepiece.now();
        let follow_up = FollowUp { permitted, kind, content, value: &granted.value };
        let FollowedUp { outcome, called, had_no_effect } = platform.follow_up(&bot, follow_up).await;
        let ended = if outcome.success { "ok" } else { outcome.error.as_deref().unwrap_or("failed") };
        self.0.vault.end_use(&granted, called, ended).await?;
        if had_no_effect {
            self.0.vault.give_back(granted).await?;
        }
        Ok(EgressResult { outcome, posted: Some(posted), called: None })
    }
}
