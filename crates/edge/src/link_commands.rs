//! `/link CODE`: a person links themselves to an agent by a direct message to a bot. The message is consumed here: it is
//! never stored, traced, logged or delivered.

use std::sync::Arc;
use std::time::Duration;

use identity::{Identity, LinkResult, is_link_code, link_command};
use ledger::BotRef;
use moka::sync::Cache;
use posthouse_wire::{ChatId, DedupKey};
use relay::Relay;

use crate::Fault;
use crate::bots::OpenedBot;
use crate::notices::Notices;
use crate::platform::{Arrival, Platform};

const LINKED: &str = "You are linked now. Your messages to this bot go to your agent.";
const WRONG: &str = "This code is not valid. It may have expired: ask your agent for a new one and send it within ten minutes.";
const TRY_LATER: &str = "Too many codes were wrong. Please try again in an hour.";
const PUBLISHED: &str = "You sent a link code to a group, where others can read it. That code no longer works. \
     Ask your agent for a new one and send it here.";

/// How long a repeat of a consumed message is recognised.
const REPEATS: Duration = Duration::from_secs(600);

/// Consumes link commands. Clones share their memory of repeats.
#[derive(Clone)]
pub(crate) struct LinkCommands {
    identity: Identity,
    relay: Relay,
    notices: Notices,
    /// Messages that were consumed. The platform may deliver one again, and its code works once.
    consumed: Cache<(BotRef, DedupKey), ()>,
}

impl LinkCommands {
    pub fn new(identity: Identity, relay: Relay, notices: Notices) -> Self {
        let consumed = Cache::builder().max_capacity(20_000).time_to_live(REPEATS).build();
        Self { identity, relay, notices, consumed }
    }

    /// Consumes the message if it is a link command in a direct chat with the bot. Elsewhere the message goes its normal
    /// way, but its code ends, because others could read it.
    pub async fn consumes(
        &self,
        platform: &Arc<dyn Platform>,
        bot: &Arc<OpenedBot>,
        arrival: &Arrival,
    ) -> Result<bool, Fault> {
        let source = &arrival.event.source;
        let Some(code) = link_command(&arrival.event.text) else { return Ok(false) };
        let (Some(user), Some(chat)) = (&source.user_id, &source.chat_id) else { return Ok(false) };
        let (on, codes) = (bot.bot_ref(), self.identity.gate.link_codes());
        // A message with a capability comes from a chat that the bot reads for somebody else.
        let is_direct = arrival.is_direct() && arrival.capabilities.is_empty();
        if !is_direct {
            if is_link_code(code) && codes.revoke(&on, user, code).await? {
                let chat = platform.direct_chat(user);
                chat.into_iter().for_each(|chat| self.tell(platform, bot, chat, PUBLISHED));
            }
            return Ok(false);
        }
        // The agent of an owned bot may have a command of that name with another argument.
        if !bot.shared && !is_link_code(code) {
            return Ok(false);
        }
        let repeat = (on.clone(), arrival.dedup.clone());
        if self.consumed.contains_key(&repeat) {
            return Ok(true);
        }
        let text = match codes.redeem(&on, user, chat, code).await? {
            LinkResult::Linked(_) => LINKED,
            LinkResult::Wrong => WRONG,
            LinkResult::TryLater => TRY_LATER,
        };
        self.consumed.insert(repeat, ());
        self.tell(platform, bot, chat.clone(), text);
        Ok(true)
    }

    fn tell(&self, platform: &Arc<dyn Platform>, bot: &Arc<OpenedBot>, chat: ChatId, text: &'static str) {
        if !self.notices.may_answer_link(&bot.bot_ref(), &chat) {
            return;
        }
        let (notices, platform, bot) = (self.notices.clone(), Arc::clone(platform), Arc::clone(bot));
        self.relay
            .tasks()
            .spawn(async move { notices.send(platform, bot, None, chat, None, text.to_owned()).await });
    }
}
