//! Long polling for updates, for bots without a webhook.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::bots::OpenedBot;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::platform::{Platform, VerifiedRequest};
use crate::platform_calls::{CallFailure, CallRefusal};

use super::update::UpdateHead;
use super::{ALLOWED_UPDATES, LABEL, Telegram};

/// Time for which Telegram holds a poll while there are no updates.
const HOLD_SECONDS: u64 = 30;
/// Time limit of a poll.
const TIME_LIMIT: Duration = Duration::from_secs(HOLD_SECONDS + 10);
const BATCH: u32 = 100;

#[derive(Serialize)]
struct GetUpdates {
    /// Confirms all updates before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<i64>,
    timeout: u64,
    limit: u32,
    allowed_updates: &'static [&'static str],
}

/// A poll failed, or not all of its updates were stored. The reason has been logged.
struct PollFailed;

/// Polls until the feed is stopped or a poll fails. The offset is in memory only: Telegram keeps unconfirmed updates,
/// and an update that comes again after a restart has the same dedup key.
pub(super) async fn fetch(telegram: &Telegram, feed: &mut EventFeed) -> FeedEnd {
    let (bot, stop) = (Arc::clone(&feed.bot), feed.stop.clone());
    while !stop.is_cancelled() {
        let offset = feed.cursor().and_then(|offset| offset.parse().ok());
        // A dropped poll loses nothing, so stopping need not wait for its response.
        let Some(polled) = stop.run_until_cancelled(ask(telegram, &bot, offset)).await else {
            return FeedEnd::Stopped;
        };
        let kept = match polled {
            Ok(updates) => keep(telegram, feed, updates, offset).await,
            Err(broken) => Err(broken),
        };
        match kept {
            Ok(()) => feed.works(),
            Err(PollFailed) => return FeedEnd::Failed,
        }
    }
    FeedEnd::Stopped
}

async fn ask(
    telegram: &Telegram,
    bot: &OpenedBot,
    offset: Option<i64>,
) -> Result<Vec<Box<RawValue>>, PollFailed> {
    let params = GetUpdates { offset, timeout: HOLD_SECONDS, limit: BATCH, allowed_updates: ALLOWED_UPDATES };
    telegram.call(bot, "getUpdates", &params, TIME_LIMIT).await.map_err(|failure| {
        match failure {
            CallFailure::Refused(CallRefusal { code: 409, description, .. }) => {
                tracing::warn!(bot.id = %bot.id, "bot {} cannot poll because another client or a webhook takes its updates: {description}", bot.id);
            }
            // The token is checked now. If it is not valid, that is logged then.
            failure if failure.is_credential_dead() => {}
            failure => {
                tracing::warn!(bot.id = %bot.id, "could not poll updates of bot {}: {}", bot.id, failure.cause(LABEL));
            }
        }
        PollFailed
    })
}

/// Stores the updates in order. The offset passes an update only after it is stored.
async fn keep(
    telegram: &Telegram,
    feed: &mut EventFeed,
    updates: Vec<Box<RawValue>>,
    offset: Option<i64>,
) -> Result<(), PollFailed> {
    let platform: Arc<dyn Platform> = Arc::new(telegram.clone());
    let bot = &Arc::clone(&feed.bot);
    let mut offset = offset.unwrap_or(i64::MIN);
    for update in updates {
        if feed.stop.is_cancelled() {
            return Ok(());
        }
        let Ok(head) = serde_json::from_str::<UpdateHead>(update.get()) else {
            tracing::warn!(bot.id = %bot.id, "Telegram sent an item without update_id in a batch of updates");
            return Err(PollFailed);
        };
        let received = telegram.timepiece.now();
        let verified = VerifiedRequest::fetched(Bytes::copy_from_slice(update.get().as_bytes()), received);
        match platform.normalize(bot, verified) {
            Ok(reading) => {
                if let Err(fault) = feed.intake.take(&platform, bot, reading, None).await {
                    tracing::error!(bot.id = %bot.id, update.id = head.update_id, "could not store an update: {fault}");
                    return Err(PollFailed);
                }
            }
            Err(refusal) => {
                tracing::warn!(bot.id = %bot.id, update.id = head.update_id, "skipped an update: {}", refusal.reason);
            }
        }
        offset = offset.max(head.update_id.saturating_add(1));
        feed.set_cursor(Some(offset.to_string()));
    }
    Ok(())
}
