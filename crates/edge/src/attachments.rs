//! Fetching attachments of messages: when their message is handed over, or early if their references end soon.

use std::sync::Arc;

use ledger::RouteTo;
use posthouse_time::Timepiece;
use posthouse_wire::EntryId;
use relay::{
    AttachmentFile, AttachmentOwner, FETCHED_WITHIN, FetchedMedia, MediaStore, MediaWriter, NamedAttachment,
    NotFetched,
};
use tokio_util::task::TaskTracker;

use crate::bot_uses::{BotUses, UsePurpose};
use crate::bots::OpenedBot;
use crate::platform::Platform;

impl BotUses {
    /// Fetches an attachment. A use of the bot's credentials is recorded for the agent and the message that it is for.
    pub async fn fetch_media(
        &self,
        platform: &dyn Platform,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        let Some(called) = platform.media_call() else {
            return platform.fetch_media(bot, reference, into).await;
        };
        let (tenant, instance) = into.owner();
        let agent = RouteTo { tenant: tenant.clone(), instance: instance.clone() };
        let purpose = UsePurpose { agent, entry: into.entry().cloned() };
        let fetching = platform.fetch_media(bot, reference, into);
        let outcome = |fetched: &Result<FetchedMedia, NotFetched>| {
            let outcome = match fetched {
                Ok(_) => "ok",
                Err(NotFetched::Gone) => "the file is not there",
                Err(NotFetched::NoAnswer) => "no answer",
                Err(NotFetched::NotKept(_)) => "the file was not stored",
            };
            outcome.to_owned()
        };
        let fetched = self.record(&purpose, &bot.platform, called, fetching, outcome).await;
        fetched.unwrap_or(Err(NotFetched::NoAnswer))
    }
}

/// Fetches attachments whose references end before an agent may wake. The store gives each tenant its share of places,
/// and limits how many wait for one.
#[derive(Clone)]
pub(crate) struct EarlyAttachments {
    pub store: MediaStore,
    pub bot_uses: BotUses,
    pub timepiece: Timepiece,
    pub tasks: TaskTracker,
}

impl EarlyAttachments {
    /// Starts to fetch those of a stored message that cannot wait. What fails is tried again when the message is handed
    /// over.
    pub fn start(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        (to, entry): (&RouteTo, &EntryId),
        attachments: Vec<NamedAttachment>,
    ) {
        let hurried = attachments.into_iter().filter(|attachment| platform.ends_early(&attachment.reference));
        for attachment in hurried {
            let (early, platform, bot) = (self.clone(), Arc::clone(platform), Arc::clone(bot));
            let owner = AttachmentOwner {
                tenant: to.tenant.clone(),
                instance: to.instance.clone(),
                entry: entry.clone(),
            };
            self.tasks.spawn(async move {
                let fetching = early.fetch(&*platform, &bot, &owner, &attachment);
                if !matches!(early.timepiece.within(FETCHED_WITHIN, fetching).await, Ok(Ok(()))) {
                    tracing::info!(
                        bot.id = %bot.id, platform = platform.name(), entry = %owner.entry,
                        "could not fetch an attachment early; it is tried again when its message is handed over"
                    );
                }
            });
        }
    }

    async fn fetch(
        &self,
        platform: &dyn Platform,
        bot: &OpenedBot,
        owner: &AttachmentOwner,
        attachment: &NamedAttachment,
    ) -> Result<(), NotFetched> {
        let NamedAttachment { id, reference, media } = attachment;
        if let AttachmentFile::Missing(mut unfetched) = self.store.begin_attachment(owner, id, media).await? {
            let fetched = self.bot_uses.fetch_media(platform, bot, reference, &mut unfetched.writer).await?;
            unfetched.keep_early(fetched).await?;
        }
        Ok(())
    }
}
