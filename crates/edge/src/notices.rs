//! Notices: texts that the server itself sends to a chat, such as a pairing code, with rate limits per chat and bot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ledger::BotRef;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ActionId, ChatId, InstanceId, Outcome, TenantId, ThreadId};
use relay::PermittedAction;

use crate::bot_health::BotHealth;
use crate::bot_uses::{BotUses, UsePurpose};
use crate::bots::OpenedBot;
use crate::platform::Platform;

/// Shortest time between two notices of a bot, over all its chats.
pub(crate) const PER_BOT: Duration = Duration::from_secs(1);
/// Shortest time between two notices of one kind in a chat.
const PER_CHAT: Duration = Duration::from_secs(3600);
/// Answers to link codes in a chat, per [`PER_CHAT`]. They do not count as other notices.
const LINK_ANSWERS: u32 = 10;
/// Answers to link codes of a bot per second. Many tenants may link people at once.
const LINK_ANSWERS_PER_BOT: u32 = 20;
/// Chats whose answers to link codes are counted. Beyond it, others get none.
const LINK_CHATS: usize = 100_000;
/// Deadline for sending a notice.
const TIME_LIMIT: Duration = Duration::from_secs(25);

/// What a notice says. A chat may get one of each kind per hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NoticeKind {
    /// The inbox has no room for a message.
    MailboxFull,
    /// The agent or its tenant gets too many messages.
    OverQuota,
    /// A message waited too long for its agent.
    Expired,
}

/// Clones share the limits. The limits are in memory only: after a restart a chat may get a notice once more.
#[derive(Clone)]
pub(crate) struct Notices {
    timepiece: Timepiece,
    health: BotHealth,
    bot_uses: BotUses,
    sent: Arc<Mutex<RecentNotices>>,
}

#[derive(Default)]
struct RecentNotices {
    bots: HashMap<BotRef, Instant>,
    chats: HashMap<(BotRef, ChatId, NoticeKind), Instant>,
    /// Answers to link codes since a time.
    link_chats: HashMap<(BotRef, ChatId), (Instant, u32)>,
    link_bots: HashMap<BotRef, (Instant, u32)>,
    /// Time of the next removal of expired items.
    sweep_at: Instant,
}

impl Notices {
    pub fn new(timepiece: Timepiece, health: BotHealth, bot_uses: BotUses) -> Self {
        Self { timepiece, health, bot_uses, sent: Arc::default() }
    }

    pub fn is_dead(&self, on: &BotRef) -> bool {
        self.health.is_dead(on)
    }

    /// Whether this bot may send a notice now.
    pub fn may_send(&self, on: &BotRef) -> bool {
        !self.health.is_dead(on) && self.sent.lock().bot_may_send(on, self.timepiece.instant())
    }

    /// Counts one notice of this bot.
    pub fn sent(&self, on: &BotRef) {
        self.sent.lock().bots.insert(on.clone(), self.timepiece.instant());
    }

    /// Whether this bot may send a notice of this kind to this chat now. If so, the notice counts as sent.
    pub fn may_tell(&self, on: &BotRef, chat: &ChatId, kind: NoticeKind) -> bool {
        if self.health.is_dead(on) {
            return false;
        }
        let now = self.timepiece.instant();
        let mut sent = self.sent.lock();
        sent.sweep(now);
        // First, because it nearly always decides while somebody floods the bot, and is the cheaper check.
        if !sent.bot_may_send(on, now) {
            return false;
        }
        let key = (on.clone(), chat.clone(), kind);
        if sent.chats.get(&key).is_some_and(|last| now < *last + PER_CHAT) {
            return false;
        }
        sent.chats.insert(key, now);
        sent.bots.insert(on.clone(), now);
        true
    }

    /// Whether this bot may answer a link code in this chat now. If so, the answer counts as sent.
    pub fn may_answer_link(&self, on: &BotRef, chat: &ChatId) -> bool {
        let now = self.timepiece.instant();
        let mut sent = self.sent.lock();
        sent.sweep(now);
        let key = (on.clone(), chat.clone());
        if sent.link_chats.len() >= LINK_CHATS && !sent.link_chats.contains_key(&key) {
            return false;
        }
        let of_chat = counted(sent.link_chats.get(&key), now, PER_CHAT);
        let of_bot = counted(sent.link_bots.get(on), now, PER_BOT);
        if of_chat.1 > LINK_ANSWERS || of_bot.1 > LINK_ANSWERS_PER_BOT {
            return false;
        }
        sent.link_chats.insert(key, of_chat);
        sent.link_bots.insert(on.clone(), of_bot);
        true
    }

    /// Sends a notice to this chat. If it is about a message to an agent, it is a recorded use of the bot for that agent.
    /// False if sending failed; the failure is logged.
    pub async fn send(
        &self,
        platform: Arc<dyn Platform>,
        bot: Arc<OpenedBot>,
        about: Option<UsePurpose>,
        chat: ChatId,
        thread: Option<ThreadId>,
        text: String,
    ) -> bool {
        let permitted = PermittedAction {
            may_redeem: false,
            ends_turn: false,
            id: ActionId::mint(self.timepiece.now().millis()),
            // No agent requested it.
            tenant: TenantId::new(""),
            instance: about
                .as_ref()
                .map_or_else(|| InstanceId::new(""), |about| about.agent.instance.clone()),
            on: bot.bot_ref(),
            action: Action::Send {
                chat_id: chat,
                content: text,
                reply_to: None,
                metadata: Metadata { thread_id: thread, ..Metadata::default() },
            },
            stream_cursor: String::new(),
            deadline: self.timepiece.instant() + TIME_LIMIT,
        };
        let sending = async { platform.perform(&bot, permitted).await.outcome };
        let outcome = match about.zip(platform.text_call()) {
            Some((about, called)) => {
                let ended = |outcome: &Outcome| match outcome.success {
                    true => "ok".to_owned(),
                    false => outcome.error.clone().unwrap_or_default(),
                };
                let sent = self.bot_uses.record(&about, &bot.platform, called, sending, ended).await;
                sent.unwrap_or_else(|| Outcome::failed("the server could not record the use of the bot"))
            }
            None => sending.await,
        };
        if !outcome.success {
            let error = outcome.error.unwrap_or_default();
            tracing::debug!(bot.id = %bot.id, platform = platform.name(), error, "could not send a notice");
        }
        outcome.success
    }
}

/// The count with one more, since the time it counts from.
fn counted(known: Option<&(Instant, u32)>, now: Instant, per: Duration) -> (Instant, u32) {
    let (since, count) = known.copied().filter(|(since, _)| now < *since + per).unwrap_or((now, 0));
    (since, count + 1)
}

impl RecentNotices {
    fn bot_may_send(&self, on: &BotRef, now: Instant) -> bool {
        self.bots.get(on).is_none_or(|last| now >= *last + PER_BOT)
    }

    fn sweep(&mut self, now: Instant) {
        if now >= self.sweep_at {
            self.chats.retain(|_, last| now < *last + PER_CHAT);
            self.bots.retain(|_, last| now < *last + PER_BOT);
            self.link_chats.retain(|_, (since, _)| now < *since + PER_CHAT);
            self.link_bots.retain(|_, (since, _)| now < *since + PER_BOT);
            self.sweep_at = now + PER_CHAT;
        }
    }
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;
    use posthouse_wire::Secret;
    use vault::{MasterKeys, Vault};

    use super::*;

    #[tokio::test]
    async fn one_notice_per_chat_per_hour_and_one_per_second_per_bot() {
        let clock = Timepiece::wound(Moment::default());
        let ledger = ledger::Ledger::open(ledger::Location::Memory, clock.clone()).await.unwrap();
        let health = BotHealth::new(ledger.dead_bots(), Arc::default(), clock.clone());
        let key = Secret::new("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let (keys, facts) = (MasterKeys::read(&key).unwrap(), ledger.facts());
        let vault =
            Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*facts, clock.clone()).await.unwrap();
        let notices = Notices::new(clock.clone(), health, BotUses::new(vault));
        let on = |bot: &str| BotRef { platform: "telegram".into(), bot: bot.into() };
        let may = |bot: &str, chat: &str| notices.may_tell(&on(bot), &chat.into(), NoticeKind::MailboxFull);
        assert!(may("7001", "a"));
        assert!(!may("7001", "b"), "one per second for the bot");
        assert!(may("7002", "b"), "another bot has its own second");
        clock.wind(Duration::from_secs(1));
        assert!(may("7001", "b"));
        clock.wind(Duration::from_secs(3598));
        let links = (0..12).filter(|_| notices.may_answer_link(&on("7001"), &"a".into())).count();
        assert_eq!(links, 10, "answers to link codes have a count of their own");
        assert!(!may("7001", "a"), "one per hour for the chat");
        clock.wind(Duration::from_secs(1));
        assert!(may("7001", "a"));
        assert!(!may("7001", "b"));
        clock.wind(Duration::from_secs(1));
        assert!(may("7001", "b"));
    }
}
