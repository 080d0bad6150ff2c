//! Storing of one event of the gateway. It may wait until Discord has described its channel.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::Shards;
use crate::bots::OpenedBot;
use crate::discord::{Discord, LABEL};
use crate::event_feed::StoringEvent;
use crate::platform::{Platform, Reading};

/// Attempts to learn of a channel over one connection. The next connection gets the event again.
const ATTEMPTS: u32 = 5;
/// Pause after the first attempt. It doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The work of storing a reading. It fails if Discord does not describe the channel before `closing`.
pub(super) fn store<'a>(
    shards: Shards<'a>,
    closing: CancellationToken,
    mut reading: Reading,
) -> StoringEvent<'a> {
    let (discord, sessions) = (shards.discord, shards.sessions);
    let platform: Arc<dyn Platform> = Arc::new(discord.clone());
    let storing = async move {
        let bot = sessions.bot();
        if reading.incomplete {
            let described = closing.run_until_cancelled(describe(discord, bot, &mut reading)).await;
            if described != Some(true) {
                return false;
            }
        }
        let taken = sessions.intake().take(&platform, bot, reading, None).await;
        taken
            .inspect_err(|fault| tracing::error!(%fault, bot.id = %bot.id, "could not store an event"))
            .is_ok()
    };
    storing.boxed()
}

/// Asks Discord about the channel of a reading, several times if it does not answer. Other channels do not wait.
async fn describe(discord: &Discord, bot: &OpenedBot, reading: &mut Reading) -> bool {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        match discord.describe_places(bot, reading).await {
            Ok(()) => return true,
            Err(failure) => {
                let cause = failure.cause(LABEL);
                tracing::warn!(bot.id = %bot.id, "a message waits until {LABEL} describes its channel: {cause}");
            }
        }
        if attempt == ATTEMPTS {
            break;
        }
        discord.timepiece.after(pause).await;
        pause *= 2;
    }
    false
}
