//! Link codes: an author sends `/link CODE` to a bot as a direct message and is linked to the agent that made the code.

use std::time::Duration;

use ledger::{BotRef, LinkingAuthor};
use moka::sync::Cache;
use posthouse_time::{Instant, Moment, Timepiece};
use posthouse_wire::{ChatId, InstanceId, Platform, UserId};
use vault::Keyring;

use super::authors::AuthorLinks;
use super::pairing::random_code;
use crate::Fault;

/// Characters of a link code. Together with five tries an hour, nobody guesses one in its ten minutes.
const CODE_LENGTH: usize = 8;
const CODE_LIFE: Duration = Duration::from_secs(600);
/// Wrong codes of one author before further ones are not checked.
const WRONG_TRIES: u32 = 5;
const WRONG_TRIES_PER: Duration = Duration::from_secs(3600);

/// A code that an agent gives to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkCode {
    pub code: String,
    pub expires: Moment,
}

/// Result of sending a link code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkResult {
    Linked(InstanceId),
    /// Unknown, expired, used, or for another bot. One variant on purpose.
    Wrong,
    /// Too many wrong codes. This one was not checked.
    TryLater,
}

/// Makes and redeems link codes. Clones share their limits.
#[derive(Clone)]
pub struct LinkCodes {
    links: AuthorLinks,
    timepiece: Timepiece,
    /// Wrong tries of an author on a bot since a time: what one bot is sent keeps nobody from linking on another. Of many
    /// authors, those with the oldest tries are forgotten.
    wrong: Cache<(BotRef, UserId), (Instant, u32)>,
}

impl LinkCodes {
    pub(super) fn new(links: AuthorLinks, timepiece: Timepiece) -> Self {
        let wrong = Cache::builder().max_capacity(100_000).time_to_live(WRONG_TRIES_PER).build();
        Self { links, timepiece, wrong }
    }

    /// Makes a code for an agent. `None` when there is no such agent.
    pub async fn mint(
        &self,
        of: &InstanceId,
        platform: Option<&Platform>,
    ) -> Result<Option<LinkCode>, Fault> {
        let (code, expires) = (random_code(CODE_LENGTH)?, self.timepiece.now() + CODE_LIFE);
        let hash = Keyring::token_hash(&code);
        let minted = self.links.records().mint_link_code(of, hash, platform, expires).await?;
        Ok(minted.then_some(LinkCode { code, expires }))
    }

    /// Links the author who sent this code in their direct chat with the bot.
    pub async fn redeem(
        &self,
        on: &BotRef,
        user: &UserId,
        chat: &ChatId,
        presented: &str,
    ) -> Result<LinkResult, Fault> {
        let key = (on.clone(), user.clone());
        let Some((since, tries)) = self.tries(on, user) else { return Ok(LinkResult::TryLater) };
        let by = LinkingAuthor { on: on.clone(), user: user.clone(), chat: chat.clone() };
        let linked = match read(presented) {
            Some(code) => self.links.records().redeem_link_code(Keyring::token_hash(&code), by).await?,
            None => None,
        };
        let Some(to) = linked else {
            self.wrong.insert(key, (since, tries + 1));
            return Ok(LinkResult::Wrong);
        };
        self.wrong.invalidate(&key);
        self.links.roster().author_changed(&on.platform, user);
        tracing::info!(instance.id = %to.instance, bot.id = %on.bot, platform = %on.platform, "an author was linked to an agent");
        Ok(LinkResult::Linked(to.instance))
    }

    /// Ends a code that this author published in a group. It counts as a wrong try. False when there were too many.
    pub async fn revoke(&self, on: &BotRef, user: &UserId, presented: &str) -> Result<bool, Fault> {
        let Some((since, tries)) = self.tries(on, user) else { return Ok(false) };
        self.wrong.insert((on.clone(), user.clone()), (since, tries + 1));
        if let Some(code) = read(presented) {
            self.links.records().revoke_link_code(Keyring::token_hash(&code)).await?;
        }
        Ok(true)
    }

    /// The wrong tries of an author and since when they count. `None` when there were too many.
    fn tries(&self, on: &BotRef, user: &UserId) -> Option<(Instant, u32)> {
        let now = self.timepiece.instant();
        let known = self.wrong.get(&(on.clone(), user.clone()));
        let (since, tries) = known.filter(|(since, _)| now < *since + WRONG_TRIES_PER).unwrap_or((now, 0));
        (tries < WRONG_TRIES).then_some((since, tries))
    }
}

/// The argument of a message that is `/link CODE` or `/link@bot CODE`. `None` for every other message.
pub fn link_command(text: &str) -> Option<&str> {
    let (command, argument) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    let name = command.strip_prefix('/')?;
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    name.eq_ignore_ascii_case("link").then(|| argument.trim())
}

/// Whether this text has the form of a link code.
pub fn is_link_code(presented: &str) -> bool {
    read(presented).is_some()
}

/// The code as it was made: case and separators do not matter.
fn read(presented: &str) -> Option<String> {
    let code: String = presented.chars().filter(|letter| !matches!(letter, '-' | ' ')).collect();
    let fits = code.len() == CODE_LENGTH && code.bytes().all(|letter| letter.is_ascii_alphanumeric());
    fits.then(|| code.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_command_is_recognised_in_every_way_people_write_it() {
        assert_eq!(link_command("/link ABCD2345"), Some("ABCD2345"));
        assert_eq!(link_command(" /LINK@posty_bot  abcd-2345 \n"), Some("abcd-2345"));
        assert_eq!(link_command("/link"), Some(""));
        assert_eq!(link_command("/linked ABCD2345"), None);
        assert_eq!(link_command("link ABCD2345"), None);
        assert_eq!(link_command(""), None);
        assert_eq!(read("abcd-2345").as_deref(), Some("ABCD2345"));
        assert!(is_link_code("abcd 2345") && !is_link_code("ABCD234") && !is_link_code("https://a"));
    }
}
