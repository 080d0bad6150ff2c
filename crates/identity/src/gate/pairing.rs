//! Pairing codes: how a sender whom a bot does not know asks the operator to be admitted.

use std::sync::Arc;
use std::time::Duration;

use ledger::{BotRef, Pairing, PairingLimits, PairingResult, Subject};
use moka::sync::Cache;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::{Source, UserId};

use super::IncomingMessage;
use crate::Fault;

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
/// Letters and digits that are not easily confused when read aloud.
const LETTERS: &[u8; 30] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";
const CODE_LENGTH: usize = 6;
/// Longest stored name, in characters. Senders choose their names; longer ones are cut.
const LONGEST_NAME: usize = 64;

/// A sender who asks to be admitted, with the bot's version at that time.
type PairingKey = (u64, BotRef, Subject);

/// A sender whom a bot does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    key: PairingKey,
    name: Option<String>,
    asked_by: Option<UserId>,
}

impl Stranger {
    /// `None` if the source names neither a person nor a chat that could be admitted.
    pub(super) fn new(version: u64, incoming: IncomingMessage<'_>) -> Option<Self> {
        let (on, source) = (incoming.on, incoming.origin.source);
        let user = source.user_id.clone().filter(|_| incoming.is_direct()).map(Subject::User);
        let subject = user.or_else(|| source.chat_id.clone().map(Subject::Chat))?;
        let name = match subject {
            Subject::Chat(_) => &source.chat_name,
            Subject::User(_) => &source.user_name,
        };
        Some(Self {
            name: name.as_ref().map(|name| name.chars().take(LONGEST_NAME).collect()),
            asked_by: source.user_id.clone().filter(|_| names_person(source)),
            key: (version, on.clone(), subject),
        })
    }
}

/// The code that a stranger gives to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingCode {
    key: PairingKey,
    code: String,
}

impl PairingCode {
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Whether the code admits everybody in the chat.
    pub fn admits_whole_chat(&self) -> bool {
        matches!(self.key.2, Subject::Chat(_))
    }
}

/// Makes pairing codes. Clones share their caches.
#[derive(Clone)]
pub(super) struct PairingRequests {
    records: Arc<dyn ledger::Access>,
    timepiece: Timepiece,
    /// Strangers who are ignored until this time.
    ignored: Cache<PairingKey, Instant>,
    /// Bots for which the log recently got a warning about too many waiting strangers.
    full: Cache<BotRef, ()>,
}

impl PairingRequests {
    pub fn new(records: Arc<dyn ledger::Access>, timepiece: Timepiece) -> Self {
        Self {
            records,
            timepiece,
            ignored: Cache::builder().max_capacity(20_000).time_to_live(CODE_LIFE).build(),
            full: Cache::builder().max_capacity(1_000).time_to_live(FULL_FOR).build(),
        }
    }

    /// Stores the request of a stranger and returns its code. A code is made once: not again while it is valid.
    pub async fn pair(&self, stranger: Stranger) -> Result<Option<PairingCode>, Fault> {
        let Stranger { key, name, asked_by } = stranger;
        let (at, now) = self.timepiece.readings();
        if self.ignored.get(&key).is_some_and(|until| now < until) {
            return Ok(None);
        }
        let (_, on, subject) = &key;
        let code = random_code(CODE_LENGTH)?;
        let request = Pairing {
            on: on.clone(),
            subject: subject.clone(),
            code: code.clone(),
            name,
            asked_by,
            asked: at,
            expires: at + CODE_LIFE,
        };
        let paired = self.records.pair(request, LIMITS).await?;
        let quiet = if paired == PairingResult::Full { FULL_FOR } else { CODE_LIFE };
        self.ignored.insert(key.clone(), now + quiet);
        match paired {
            PairingResult::New => {
                tracing::info!(bot.id = %on.bot, platform = %on.platform, %subject, "an unknown sender wrote to bot {on_bot}; to admit them, see `posthouse access list --bot {on_bot}`", on_bot = format_args!("{}:{}", on.platform, on.bot));
                Ok(Some(PairingCode { key, code }))
            }
            PairingResult::Full => {
                self.warn_full(on);
                Ok(None)
            }
            PairingResult::Pending => Ok(None),
        }
    }

    /// Logged once per interval, so that many strangers cannot fill the log.
    fn warn_full(&self, on: &BotRef) {
        if self.full.get(on).is_none() {
            self.full.insert(on.clone(), ());
            tracing::warn!(bot.id = %on.bot, platform = %on.platform, "too many unknown senders wait to be admitted; more get no pairing code until codes expire");
        }
    }

    /// Deletes a code that could not be sent to the stranger, so that a later message of theirs gets a new one.
    pub async fn withdraw(&self, code: PairingCode) {
        let PairingCode { key, code } = code;
        self.ignored.insert(key.clone(), self.timepiece.instant() + UNSENT_FOR);
        let (_, on, subject) = key;
        if let Err(fault) = self.records.withdraw_pairing(&on, &subject, &code).await {
            tracing::error!(%fault, bot.id = %on.bot, platform = %on.platform, "could not delete a pairing code that was not sent");
        }
    }
}

/// Whether the source names a person. In a channel it names the channel, not the author.
fn names_person(source: &Source) -> bool {
    source.chat_type != "channel"
}

/// A new random code of this many characters, at most 16. There are 30^6 codes of six, so a mistyped one is unlikely to
/// admit somebody else.
pub(super) fn random_code(length: usize) -> Result<String, Fault> {
    let random = vault::random_hex(16)?;
    let mut number = u128::from_str_radix(random.expose(), 16).unwrap_or_default();
    let mut code = String::with_capacity(length);
    for _ in 0..length {
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
        let codes: std::collections::HashSet<String> = (0..1000).map(|_| random_code(6).unwrap()).collect();
        assert!(codes.len() > 990, "{}", codes.len());
        assert!(codes.iter().all(|code| code.len() == 6 && code.bytes().all(|c| LETTERS.contains(&c))));
    }
}
