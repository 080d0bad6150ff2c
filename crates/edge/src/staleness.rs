//! Expiry of messages that waited too long for their agent: ends them and tells their senders.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ledger::{BotRef, ExpiredEntry, RouteTo};
use posthouse_time::{Instant, Timepiece};
use relay::Relay;

use crate::Fault;
use crate::bot_uses::UsePurpose;
use crate::bots::Bots;
use crate::notices::{NoticeKind, Notices, PER_BOT};
use crate::platform::Platform;

/// Time between two passes.
const EVERY: Duration = Duration::from_secs(15);
/// Notices about one agent that may wait for a bot. Further senders are not told.
const OF_AN_AGENT: usize = 64;

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

/// Senders to be told, by bot. A bot sends one notice per second.
type WaitingNotices = HashMap<BotRef, VecDeque<ExpiredEntry>>;

impl StaleMessages {
    /// Runs until it is dropped. `platform` finds a platform by its name.
    pub async fn run(&self, platform: impl Fn(&str) -> Option<Arc<dyn Platform>>) {
        let mut waiting = WaitingNotices::new();
        let mut next_pass = self.timepiece.instant() + EVERY;
        loop {
            self.timepiece.sleep_until(next_look(&waiting, next_pass, self.timepiece.instant())).await;
            let now = self.timepiece.instant();
            if now >= next_pass {
                next_pass = now + EVERY;
                match self.relay.expirations().expire_due().await {
                    Ok(expired) => expired.into_iter().for_each(|entry| enqueue(&mut waiting, entry)),
                    Err(fault) => tracing::error!(%fault, "could not end the messages that waited too long"),
                }
            }
            // A dead bot cannot tell anybody.
            waiting.retain(|on, queue| !queue.is_empty() && !self.notices.is_dead(on));
            for (_, queue) in waiting.iter_mut().filter(|(on, _)| self.notices.may_send(on)) {
                let Some(entry) = queue.pop_front() else { continue };
                let Some(platform) = platform(entry.on.platform.as_str()) else { continue };
                if let Err(fault) = self.tell_sender(platform, entry).await {
                    tracing::error!(%fault, "could not tell a sender that a message expired");
                }
            }
            waiting.retain(|_, queue| !queue.is_empty());
        }
    }

    async fn tell_sender(&self, platform: Arc<dyn Platform>, expired: ExpiredEntry) -> Result<(), Fault> {
        let ExpiredEntry { entry, tenant, instance, on, chat, thread, .. } = expired;
        if !self.notices.may_tell(&on, &chat, NoticeKind::Expired) {
            return Ok(());
        }
        let Some(bot) = self.bots.find(&on).await? else { return Ok(()) };
        let notices = self.notices.clone();
        let agent = tenant.map(|tenant| RouteTo { tenant, instance });
        let about = agent.map(|agent| UsePurpose { agent, entry: Some(entry) });
        self.relay
            .tasks()
            .spawn(async move { notices.send(platform, bot, about, chat, thread, EXPIRED.to_owned()).await });
        Ok(())
    }
}

/// When there is something to do: the next pass, or the next notice.
fn next_look(waiting: &WaitingNotices, next_pass: Instant, now: Instant) -> Instant {
    match waiting.is_empty() {
        true => next_pass,
        false => next_pass.min(now + PER_BOT),
    }
}

/// Adds a sender to be told: one per chat, and not too many of one agent, so that another agent of the same bot gets
/// its turn.
fn enqueue(waiting: &mut WaitingNotices, entry: ExpiredEntry) {
    // In a channel it would be published to all readers.
    if entry.chat_type == "channel" {
        return;
    }
    let queue = waiting.entry(entry.on.clone()).or_default();
    let is_known = queue.iter().any(|other| other.chat == entry.chat);
    let of_agent = queue.iter().filter(|other| other.instance == entry.instance).count();
    if !is_known && of_agent < OF_AN_AGENT {
        queue.push_back(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chat_waits_once_and_no_agent_fills_the_queue_of_a_bot() {
        let entry = |instance: &str, chat: &str, chat_type: &str| ExpiredEntry {
            entry: "ent_1".into(),
            tenant: Some("ten_acme".into()),
            instance: instance.into(),
            on: BotRef { platform: "telegram".into(), bot: "42".into() },
            chat: chat.into(),
            thread: None,
            chat_type: chat_type.to_owned(),
        };
        let mut waiting = WaitingNotices::new();
        for chat in 0..1000 {
            enqueue(&mut waiting, entry("loud", &chat.to_string(), "dm"));
            enqueue(&mut waiting, entry("loud", "0", "dm"));
        }
        enqueue(&mut waiting, entry("quiet", "news", "channel"));
        enqueue(&mut waiting, entry("quiet", "q", "dm"));
        let queue = waiting.values().next().unwrap();
        assert_eq!(queue.len(), OF_AN_AGENT + 1);
        assert_eq!(queue.back().unwrap().chat.as_str(), "q");
    }
}
