//! Expiry of messages that waited too long for their agent: ends them and tells their senders.

use std::sync::Arc;
use std::time::Duration;

use ledger::ExpiredEntry;
use posthouse_time::Timepiece;
use relay::Relay;

use crate::Fault;
use crate::bots::Bots;
use crate::notices::{NoticeKind, Notices};
use crate::platform::Platform;

/// Time between two passes.
const EVERY: Duration = Duration::from_secs(15);

/// Notice to a sender whose message expired.
const EXPIRED: &str =
    "Your message was not delivered, because it waited too long. Please send it again if it is still needed.";

/// Ends stale entries and tells their senders.
#[derive(Clone)]
pub(crate) struct StaleMessages {
    pub relay: Relay,
    pub bots: Bots,
    pub notices: Notices,
    pub timepiece: Timepiece,
}

impl StaleMessages {
    /// Runs until it is dropped. `platform` finds a platform by its name.
    pub async fn run(&self, platform: impl Fn(&str) -> Option<Arc<dyn Platform>>) {
        loop {
            self.timepiece.after(EVERY).await;
            match self.relay.expirations().expire_due().await {
                Ok(expired) => {
                    for entry in expired {
                        let Some(platform) = platform(entry.on.platform.as_str()) else { continue };
                        if let Err(fault) = self.tell_sender(platform, entry).await {
                            tracing::error!(%fault, "could not tell a sender that a message expired");
                        }
                    }
                }
                Err(fault) => tracing::error!(%fault, "could not end the messages that waited too long"),
            }
        }
    }

    async fn tell_sender(&self, platform: Arc<dyn Platform>, expired: ExpiredEntry) -> Result<(), Fault> {
        let ExpiredEntry { instance, on, chat, thread, chat_type, .. } = expired;
        // In a channel it would be published to all readers.
        if chat_type == "channel" || !self.notices.may_tell(&on, &chat, NoticeKind::Expired) {
            return Ok(());
        }
        let Some(bot) = self.bots.find(&on).await? else { return Ok(()) };
        let notices = self.notices.clone();
        self.relay.tasks().spawn(async move {
            notices.send(platform, bot, Some(instance), chat, thread, EXPIRED.to_owned()).await
        });
        Ok(())
    }
}
