//! Egress of actions: picks the platform and the bot, and sends with that bot's credentials only.

use std::sync::Arc;

use async_trait::async_trait;
use ledger::BotRef;
use posthouse_wire::{Action, Descriptor, Outcome};
use relay::{
    EgressResult, FetchedMedia, FileNotAvailable, MediaSource, MediaWriter, NotFetched, PermittedAction,
};

use crate::asked_prompts::AskedPrompts;
use crate::bots::OpenedBot;
use crate::own_threads::OwnThreads;
use crate::platform::{Platform, StoredMedia};
use crate::{Edge, Fault};

/// Result of every action of a dead bot.
const CREDENTIAL_REFUSED: &str = "unauthorized: this bot's credential is not accepted";

#[async_trait]
impl relay::Egress for Edge {
    async fn descriptor(&self, of: &BotRef) -> Option<Descriptor> {
        let platform = self.platform(of.platform.as_str())?;
        match self.0.bots.find(of).await {
            Ok(bot) => bot.map(|bot| platform.descriptor(&bot)),
            Err(fault) => {
                tracing::error!(%fault, "could not open a bot");
                None
            }
        }
    }

    fn is_built_in(&self, bot_ref: &BotRef) -> bool {
        bot_ref.platform == crate::web::NAME
    }

    async fn fetch_media(
        &self,
        of: &BotRef,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        let platform = self.platform(of.platform.as_str()).ok_or(NotFetched::Gone)?;
        match self.0.bots.find(of).await {
            Ok(Some(bot)) => self.0.bot_uses.fetch_media(&**platform, &bot, reference, into).await,
            Ok(None) => Err(NotFetched::Gone),
            Err(fault) => {
                tracing::error!(%fault, "could not open a bot");
                Err(NotFetched::NoAnswer)
            }
        }
    }

    async fn perform(&self, permitted: PermittedAction) -> EgressResult {
        if matches!(permitted.action, Action::FollowUp { .. }) {
            return self.follow_up(permitted).await;
        }
        let Some(platform) = self.platform(permitted.on.platform.as_str()) else {
            return Outcome::egress_declined(permitted.on.platform.as_str()).into();
        };
        if self.0.health.is_dead(&permitted.on) {
            // At once and without a call: the platform would refuse it.
            return Outcome::failed(CREDENTIAL_REFUSED).into();
        }
        match self.0.bots.find(&permitted.on).await {
            Ok(Some(bot)) => match &permitted.action {
                Action::SendMedia { .. } => self.send_media(&**platform, &bot, permitted).await,
                Action::Edit { chat_id, message_id, .. } => {
                    let limits = platform.message_edit_limits(&bot, chat_id, message_id);
                    // An agent that marks its unfinished texts has ended one without the mark.
                    let is_final = !permitted.stream_cursor.is_empty() && permitted.unfinished().is_none();
                    let message = message_id.clone();
                    let perform = |permitted| self.perform_as(platform, &bot, permitted);
                    let carried = self.0.edit_streams.perform(limits, permitted, perform).await;
                    if is_final && carried.outcome.success {
                        platform.text_is_final(&bot, &message).await;
                    }
                    carried
                }
                _ => self.perform_as(platform, &bot, permitted).await,
            },
            Ok(None) => Outcome::egress_declined(permitted.on.platform.as_str()).into(),
            Err(fault) => {
                tracing::error!(%fault, "could not open a bot");
                Outcome::failed("the server could not open this bot and did nothing").into()
            }
        }
    }
}

impl Edge {
    /// Carries out an action as this bot, and records what later events and actions depend on: who asked a prompt, and
    /// who created a thread.
    async fn perform_as(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &OpenedBot,
        permitted: PermittedAction,
    ) -> EgressResult {
        // People see an unfinished text as it grows, without the cursor that marks it as unfinished.
        let permitted = permitted.without_cursor();
        match self.0.threads.refusal(&**platform, &permitted).await {
            Ok(None) => {}
            Ok(Some(refusal)) => return refusal.into(),
            Err(fault) => {
                tracing::error!(%fault, "could not look up a thread");
                return Outcome::failed("the server could not look up this thread and did nothing").into();
            }
        }
        let (prompt, thread) = (AskedPrompts::of(&permitted), OwnThreads::of(&permitted));
        let mut carried = self.carry_with_capability(&**platform, bot, permitted, None).await;
        if !carried.outcome.success {
            return carried;
        }
        let recorded: Result<(), Fault> = match (prompt, thread, &carried.outcome.message_id) {
            (Some(prompt), _, Some(message)) => self.0.prompts.shown(prompt, message.clone()).await,
            (_, Some(thread), _) => self.0.threads.done(thread, &carried.outcome).await,
            _ => Ok(()),
        };
        if let Err(fault) = recorded {
            tracing::error!(%fault, "could not record what an action has shown");
            // Its presses would not be recognised, so that the agent has to ask in another way.
            carried.outcome =
                Outcome::failed("the server could not record this, so that it cannot be answered");
        }
        carried
    }

    /// Carries out an action, with the capability of its chat if it has one. The use is recorded.
    async fn carry_with_capability(
        &self,
        platform: &dyn Platform,
        bot: &OpenedBot,
        permitted: PermittedAction,
        media: Option<StoredMedia>,
    ) -> EgressResult {
        let granted = match self.0.chat_capabilities.take(platform, &permitted).await {
            Ok(Some(granted)) => granted,
            Ok(None) => {
                return match media {
                    Some(media) => platform.send_media(bot, permitted, media).await,
                    None => platform.perform(bot, permitted).await,
                };
            }
            Err(fault) => {
                tracing::error!(%fault, "could not look up the capability of a chat");
                return Outcome::failed("the server could not look up this chat and did nothing").into();
            }
        };
        let carried = platform.carry_with(bot, permitted, media, &granted.value).await;
        let (called, ended) = (carried.called.as_deref().unwrap_or("nothing"), &carried.outcome);
        let ended = if ended.success { "ok" } else { ended.error.as_deref().unwrap_or("failed") };
        if let Err(fault) = self.0.vault.end_use(&granted, called, ended).await {
            tracing::error!(%fault, "could not record the end of the use of a capability");
        }
        carried
    }

    /// Gets the file that the agent names, and has the platform send it.
    async fn send_media(
        &self,
        platform: &dyn Platform,
        bot: &OpenedBot,
        permitted: PermittedAction,
    ) -> EgressResult {
        let Action::SendMedia { source_url, filename, .. } = &permitted.action else {
            return Outcome::unsupported(permitted.action.op()).into();
        };
        if !platform.descriptor(bot).supported_ops.iter().any(|op| op == permitted.action.op()) {
            return Outcome::unsupported(permitted.action.op()).into();
        }
        let store = self.0.relay.media();
        let source = MediaSource {
            tenant: &permitted.tenant,
            instance: &permitted.instance,
            url: source_url,
            filename: filename.as_deref(),
            deadline: permitted.deadline,
        };
        match store.obtain(source).await {
            Ok(record) => {
                let media = StoredMedia { store: store.clone(), record };
                self.carry_with_capability(platform, bot, permitted, Some(media)).await
            }
            Err(reason) => {
                if let FileNotAvailable::Fault(fault) = &reason {
                    tracing::error!(%fault, "could not get a file to send");
                }
                Outcome::failed(reason.to_string()).into()
            }
        }
    }
}
