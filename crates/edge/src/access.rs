//! Access control of bots: decides which senders may write to a bot, for all platforms.
//!
//! A bot is closed unless it is declared open. A person is admitted for their direct conversation, a group or
//! channel by its chat, and a chat that a route names by that route. An unknown sender gets a pairing code, which
//! the operator can use to admit them, and reaches no agent until then. A decision applies to one bot only.
//! Principal policies (relay contract section 18) extend [`PrincipalPolicy`].

use std::sync::Arc;
use std::time::Duration;

use ledger::{
    AccessRule, Consulted, Decision, Identity, Paired, Pairing, PairingLimits, PrincipalPolicy, Subject,
};
use moka::sync::Cache;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::{ChatId, Source, UserId};
use relay::Relay;

use crate::Fault;
use crate::notices::Notices;

/// How long a pairing code is valid.
const CODE_LIFE: Duration = Duration::from_secs(3600);
/// Limits of pending pairing requests. One stranger must not use up all of them: a person may be in many groups
/// (`per_person`), and anybody can create any number of channels (`of_nobody`).
const LIMITS: PairingLimits = PairingLimits { per_bot: 100, per_person: 3, of_nobody: 10 };
/// How long a stranger is ignored after the limit of pending requests was reached.
const FULL_FOR: Duration = Duration::from_secs(60);
/// How long a stranger is ignored after their code could not be sent. A sender who cannot be reached must not use up
/// the bot's rate limit of notices to others.
const UNSENT_FOR: Duration = Duration::from_secs(10);
/// How long a result from the ledger is cached. A change made on this node takes effect at once.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Letters and digits that are not easily confused when read aloud.
const LETTERS: &[u8; 30] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE_LENGTH: usize = 6;
/// Longest stored name, in characters. Senders choose their names; longer ones are cut.
const LONGEST_NAME: usize = 64;

/// Decides whether senders are admitted. Clones share their caches.
#[derive(Clone)]
pub struct AccessControl {
    records: Arc<dyn ledger::Access>,
    relay: Relay,
    timepiece: Timepiece,
    notices: Notices,
    /// Senders with a stored decision. They have a cache of their own, so that many strangers cannot evict them.
    known: Cache<SenderKey, SenderDecisions>,
    unknown: Cache<SenderKey, SenderDecisions>,
    /// Strangers who are ignored until this time.
    asked: Cache<AskedKey, Instant>,
    /// Bots for which the log recently got a warning about too many waiting strangers.
    full: Cache<Identity, ()>,
}

/// A sender, with the bot's version at the time of the lookup.
type SenderKey = (u64, Identity, Option<UserId>, Option<ChatId>, Option<ChatId>);

/// A sender who asks to be admitted, with the bot's version at that time.
type AskedKey = (u64, Identity, Subject);

/// The stored decisions about a sender.
#[derive(Clone, Copy)]
struct SenderDecisions {
    policy: PrincipalPolicy,
    denied: bool,
    user_allowed: bool,
    chat_allowed: bool,
}

/// The decision about a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccessDecision {
    Admitted,
    /// Not admitted. The code, if any, must be sent to them once.
    Stranger(Option<PairingCode>),
    /// Denied by the operator. They get no answer.
    Denied,
}

/// The code that a stranger gives to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairingCode {
    asked: AskedKey,
    code: String,
    /// The code admits everybody in the chat.
    whole_chat: bool,
}

impl PairingCode {
    /// The text that is sent to the stranger.
    pub fn notice(&self) -> String {
        let Self { code, whole_chat, .. } = self;
        let who = if *whole_chat { "this chat" } else { "you" };
        format!(
            "This bot does not know {who} yet. To use it, give this pairing code to the person who runs it: \
             {code}\nThe code is valid for one hour."
        )
    }
}

impl AccessControl {
    pub(crate) fn new(
        records: Arc<dyn ledger::Access>,
        relay: Relay,
        timepiece: Timepiece,
        notices: Notices,
    ) -> Self {
        let cache = |capacity| Cache::builder().max_capacity(capacity).time_to_live(REMEMBERED).build();
        Self {
            records,
            relay,
            timepiece,
            notices,
            known: cache(100_000),
            unknown: cache(100_000),
            full: Cache::builder().max_capacity(1_000).time_to_live(FULL_FOR).build(),
            asked: Cache::builder().max_capacity(20_000).time_to_live(CODE_LIFE).build(),
        }
    }

    /// Decides whether a message from this source is admitted. `is_routed`: a route names its chat or scope.
    pub(crate) async fn judge(
        &self,
        on: &Identity,
        source: &Source,
        is_routed: bool,
    ) -> Result<AccessDecision, Fault> {
        // The version is read before the ledger, so that a change in between makes the cached result unreachable.
        let version = self.relay.bot_version(on);
        let decisions = self.decisions(version, on, source).await?;
        if decisions.denied {
            return Ok(AccessDecision::Denied);
        }
        // A group is admitted only as a whole, because everybody in it reads the answers to one member.
        let admitted = decisions.chat_allowed || (is_direct(source) && decisions.user_allowed);
        if admitted || is_routed || decisions.policy.is_open() {
            return Ok(AccessDecision::Admitted);
        }
        Ok(AccessDecision::Stranger(self.pair(version, on, source).await?))
    }

    async fn decisions(
        &self,
        version: u64,
        on: &Identity,
        source: &Source,
    ) -> Result<SenderDecisions, Fault> {
        let Source { user_id, chat_id, parent_chat_id, .. } = source;
        let key: SenderKey = (version, on.clone(), user_id.clone(), chat_id.clone(), parent_chat_id.clone());
        if let Some(decisions) = self.known.get(&key).or_else(|| self.unknown.get(&key)) {
            return Ok(decisions);
        }
        let user = user_id.clone().map(Subject::User);
        let chats = [chat_id, parent_chat_id].into_iter().flatten().cloned().map(Subject::Chat);
        let subjects: Vec<Subject> = user.into_iter().chain(chats).collect();
        let Consulted { policy, decisions } = self.records.consult(on, &subjects).await?;
        let decided = |wanted: Decision, kind: &str| {
            let mut about = subjects.iter().zip(&decisions);
            about.any(|(subject, decision)| subject.kind() == kind && *decision == Some(wanted))
        };
        let sender = SenderDecisions {
            policy,
            denied: decisions.contains(&Some(Decision::Denied)),
            user_allowed: decided(Decision::Allowed, "user"),
            chat_allowed: decided(Decision::Allowed, "chat"),
        };
        let is_known = decisions.iter().any(Option::is_some);
        if is_known { &self.known } else { &self.unknown }.insert(key, sender);
        Ok(sender)
    }

    /// Stores the pairing request of a stranger and returns its code. A code is returned once: not again while it is
    /// valid. If this bot has just answered somebody else, the stranger has to send one more message.
    async fn pair(&self, version: u64, on: &Identity, source: &Source) -> Result<Option<PairingCode>, Fault> {
        let user = source.user_id.clone().filter(|_| is_direct(source)).map(Subject::User);
        let Some(subject) = user.or_else(|| source.chat_id.clone().map(Subject::Chat)) else {
            return Ok(None);
        };
        let (asked, now) = ((version, on.clone(), subject.clone()), self.timepiece.instant());
        if self.asked.get(&asked).is_some_and(|until| now < until) || !self.notices.may_send(on) {
            return Ok(None);
        }
        let whole_chat = matches!(subject, Subject::Chat(_));
        let name = if whole_chat { &source.chat_name } else { &source.user_name };
        let code = fresh_code()?;
        let at = self.timepiece.now();
        let request = Pairing {
            on: on.clone(),
            subject: subject.clone(),
            code: code.clone(),
            name: name.as_ref().map(|name| name.chars().take(LONGEST_NAME).collect()),
            asked_by: source.user_id.clone().filter(|_| names_person(source)),
            asked: at,
            expires: at + CODE_LIFE,
        };
        let paired = self.records.pair(request, LIMITS).await?;
        let quiet = if paired == Paired::Full { FULL_FOR } else { CODE_LIFE };
        self.asked.insert(asked.clone(), now + quiet);
        match paired {
            Paired::New => {
                tracing::info!(bot.id = %on.bot, platform = %on.platform, %subject, "an unknown sender wrote to bot {on_bot}; to admit them, see `posthouse access list {on_bot}`", on_bot = format_args!("{}:{}", on.platform, on.bot));
                self.notices.sent(on);
                Ok(Some(PairingCode { asked, code, whole_chat }))
            }
            Paired::Full => {
                // Logged once per interval, so that many strangers cannot fill the log.
                if self.full.get(on).is_some() {
                    return Ok(None);
                }
                self.full.insert(on.clone(), ());
                tracing::warn!(bot.id = %on.bot, platform = %on.platform, "too many unknown senders wait to be admitted; more get no pairing code until codes expire");
                Ok(None)
            }
            Paired::Pending => Ok(None),
        }
    }

    /// Deletes a code that could not be sent to the stranger, so that a later message of theirs gets a new one.
    pub(crate) async fn not_told(&self, code: PairingCode) {
        let PairingCode { asked, code, .. } = code;
        self.asked.insert(asked.clone(), self.timepiece.instant() + UNSENT_FOR);
        let (_, on, subject) = asked;
        if let Err(fault) = self.records.withdraw_pairing(&on, &subject, &code).await {
            tracing::error!(%fault, bot.id = %on.bot, platform = %on.platform, "could not delete a pairing code that was not sent");
        }
    }

    /// Stores a decision; it applies from the sender's next message on. False if there is no such bot.
    pub async fn decide(&self, on: &Identity, about: &Subject, decision: Decision) -> Result<bool, Fault> {
        let decided = self.records.decide(on, about, decision).await?;
        self.relay.bot_changed(on);
        Ok(decided)
    }

    /// Stores a decision about the sender who got this code. Case and separators of the code do not matter. `None`
    /// if the code is not pending.
    pub async fn decide_by_code(
        &self,
        on: &Identity,
        code: &str,
        decision: Decision,
    ) -> Result<Option<AccessRule>, Fault> {
        let code: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
        let decided = self.records.decide_by_code(on, &code.to_ascii_uppercase(), decision).await?;
        self.relay.bot_changed(on);
        Ok(decided)
    }

    /// Deletes the decision about a sender. From their next message on they are unknown again.
    pub async fn forget(&self, on: &Identity, about: &Subject) -> Result<bool, Fault> {
        let known = self.records.forget(on, about).await?;
        self.relay.bot_changed(on);
        Ok(known)
    }

    /// Opens a bot to everybody, or closes it again. False if there is no such bot.
    pub async fn set_policy(&self, on: &Identity, policy: PrincipalPolicy) -> Result<bool, Fault> {
        let known = self.records.set_policy(on, policy).await?;
        self.relay.bot_changed(on);
        Ok(known)
    }

    pub async fn rules(&self, on: Option<&Identity>) -> Result<Vec<AccessRule>, Fault> {
        Ok(self.records.rules(on).await?)
    }

    /// Requests whose code is still valid.
    pub async fn pairings(&self, on: Option<&Identity>) -> Result<Vec<Pairing>, Fault> {
        Ok(self.records.pairings(on).await?)
    }
}

/// Whether this is a conversation of one person with the bot alone.
fn is_direct(source: &Source) -> bool {
    source.chat_type == "dm"
}

/// Whether the source names a person. In a channel it names the channel, not the author.
fn names_person(source: &Source) -> bool {
    source.chat_type != "channel"
}

/// A new random code. There are 30^6 codes, so a mistyped one is unlikely to admit somebody else.
fn fresh_code() -> Result<String, Fault> {
    let random = vault::random_hex(16)?;
    let mut number = u128::from_str_radix(random.expose(), 16).unwrap_or_default();
    let mut code = String::with_capacity(CODE_LENGTH);
    for _ in 0..CODE_LENGTH {
        let count = LETTERS.len() as u128;
        code.push(char::from(LETTERS[(number % count) as usize]));
        number /= count;
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_short_readable_and_never_the_same() {
        let codes: std::collections::HashSet<String> = (0..1000).map(|_| fresh_code().unwrap()).collect();
        assert!(codes.len() > 990, "{}", codes.len());
        assert!(codes.iter().all(|code| code.len() == 6 && code.bytes().all(|c| LETTERS.contains(&c))));
    }
}
