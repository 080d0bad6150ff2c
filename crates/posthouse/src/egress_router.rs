//! Egress router: sends an agent's actions to people through the edge, to programs through the post.

use std::sync::Arc;

use async_trait::async_trait;
use edge::Edge;
use ledger::{BotRef, Usage};
use post::Conversations;
use posthouse_wire::{Action, Descriptor, Outcome};
use relay::{Egress, EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction};

pub struct EgressRouter {
    pub edge: Edge,
    pub post: Arc<Conversations>,
    pub usage: Arc<dyn Usage>,
}

impl EgressRouter {
    fn of(&self, bot: &BotRef) -> &dyn Egress {
        if self.post.everyones().as_ref() == Some(bot) { &*self.post } else { &self.edge }
    }
}

#[async_trait]
impl Egress for EgressRouter {
    async fn descriptor(&self, of: &BotRef) -> Option<Descriptor> {
        self.of(of).descriptor(of).await
    }

    fn is_built_in(&self, bot: &BotRef) -> bool {
        self.of(bot).is_built_in(bot)
    }

    fn everyones(&self) -> Option<BotRef> {
        self.post.everyones()
    }

    fn may_repeat(&self, bot: &BotRef) -> bool {
        self.of(bot).may_repeat(bot)
    }

    async fn fetch_media(
        &self,
        of: &BotRef,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        self.of(of).fetch_media(of, reference, into).await
    }

    async fn perform(&self, permitted: PermittedAction) -> EgressResult {
        // A follow-up is answered in one place, so that every refusal is the same.
        if matches!(permitted.action, Action::FollowUp { .. }) {
            return self.edge.perform(permitted).await;
        }
        // Messages on a built-in platform are stored here and count against the tenant.
        let is_stored = matches!(
            permitted.action,
            Action::Send { .. }
                | Action::Edit { .. }
                | Action::SendMedia { .. }
                | Action::Prompt { .. }
                | Action::Draft { is_final: true, .. }
        );
        if is_stored && self.is_built_in(&permitted.on) && !self.usage.has_room_for(&permitted.instance) {
            return Outcome::failed(
                "the tenant has used up its storage on this server: the message was not stored",
            )
            .into();
        }
        self.of(&permitted.on).perform(permitted).await
    }
}
