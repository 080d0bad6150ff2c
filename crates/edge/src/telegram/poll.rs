//! Long polling for updates, for bots without a webhook.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::bots::OpenedBot;
use crate::intake::Intake;
use crate::platform::{Platform, VerifiedBody};

use super::api::{ApiError, Failure};
use super::update::UpdateHead;
use super::{ALLOWED_UPDATES, Telegram};

/// Time for which Telegram holds a poll while there are no updates.
const HOLD_SECONDS: u64 = 30;
/// Time limit of a poll.
const PATIENCE: Duration = Duration::from_secs(HOLD_SECONDS + 10);
const BATCH: u32 = 100;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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

/// Polls until `stop`. The offset is in memory only: Telegram keeps unconfirmed updates, and an update that comes again
/// after a restart has the same dedup key.
pub(super) async fn fetch(telegram: &Telegram, bot: Arc<OpenedBot>, intake: Intake, stop: CancellationToken) {
    let mut offset = None;
    let mut pause = FIRST_PAUSE;
    while !stop.is_cancelled() {
        // A dropped poll loses nothing, so stopping need not wait for its response.
        let Some(polled) = stop.run_until_cancelled(ask(telegram, &bot, offset)).await else { return };
        let kept = match polled {
            Ok(updates) => keep(telegram, &bot, &intake, updates, &mut offset, &stop).await,
            Err(broken) => Err(broken),
        };
        if kept.is_ok() {
            pause = FIRST_PAUSE;
            continue;
        }
        stop.run_until_cancelled(telegram.timepiece.after(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn ask(
    telegram: &Telegram,
    bot: &OpenedBot,
    offset: Option<i64>,
) -> Result<Vec<Box<RawValue>>, PollFailed> {
    let params = GetUpdates { offset, timeout: HOLD_SECONDS, limit: BATCH, allowed_updates: ALLOWED_UPDATES };
    telegram.call(bot, "getUpdates", &params, PATIENCE).await.map_err(|failure| {
        match failure {
            Failure::Refused(ApiError { code: 409, description, .. }) => {
                tracing::warn!(bot.id = %bot.id, "bot {} cannot poll because another client or a webhook takes its updates: {description}", bot.id);
            }
            // The token is checked now. If it is not valid, that is logged then.
            Failure::Refused(refused) if refused.is_dead() => {}
            failure => {
                tracing::warn!(bot.id = %bot.id, "could not poll updates of bot {}: {}", bot.id, failure.cause());
            }
        }
        PollFailed
    })
}

/// Stores the updates in order. The offset passes an update only after it is stored.
async fn keep(
    telegram: &Telegram,
    bot: &Arc<OpenedBot>,
    intake: &Intake,
    updates: Vec<Box<RawValue>>,
    offset: &mut Option<i64>,
    stop: &CancellationToken,
) -> Result<(), PollFailed> {
    let platform: Arc<dyn Platform> = Arc::new(telegram.clone());
    for update in updates {
        if stop.is_cancelled() {
            return Ok(());
        }
        let Ok(head) = serde_json::from_str::<UpdateHead>(update.get()) else {
            tracing::warn!(bot.id = %bot.id, "Telegram sent an item without update_id in a batch of updates");
            return Err(PollFailed);
        };
        let received = telegram.timepiece.now();
        let body = Bytes::copy_from_slice(update.get().as_bytes());
        let verified = VerifiedBody { body, received };
        match platform.normalize(bot, verified) {
            Ok(reading) => {
                if let Err(fault) = intake.take(&platform, bot, reading, None).await {
                    tracing::error!(bot.id = %bot.id, update.id = head.update_id, "could not store an update: {fault}");
                    return Err(PollFailed);
                }
            }
            Err(refusal) => {
                tracing::warn!(bot.id = %bot.id, update.id = head.update_id, "skipped an update: {}", refusal.reason);
            }
        }
        *offset = Some(head.update_id.saturating_add(1).max(offset.unwrap_or(i64::MIN)));
    }
    Ok(())
}
