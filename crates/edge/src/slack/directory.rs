//! Names of people and channels: looked up once, and kept for an hour.

use std::time::Duration;

use futures_util::future::join_all;
use moka::sync::Cache;
use posthouse_wire::{BotId, ChatInfo};
use serde::Deserialize;

use super::api::WebApiCall;
use super::{LABEL, Slack};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, Reading};
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

const KEPT: Duration = Duration::from_secs(3600);
/// Time for which a failed lookup is not repeated. The name is then the id.
const NOT_REPEATED: Duration = Duration::from_secs(60);
/// Most names of each kind, over all bots.
const MOST: u64 = 50_000;
/// Time limit for all lookups of one event: Slack waits three seconds for its answer.
const TIME_LIMIT: Duration = Duration::from_millis(1_200);
/// Time limit for one lookup. It is longer, so that a silence of Slack is noted for the bot.
const LOOKUP: Duration = Duration::from_secs(5);
/// Most lookups for one event. An event can mention any number of people.
const MOST_LOOKUPS: usize = 8;

/// A channel as Slack describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlackChat {
    pub name: String,
    pub topic: Option<String>,
    pub kind: SlackChatKind,
}

/// Who can be in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlackChatKind {
    /// One person and the bot.
    Direct,
    /// A group direct message: several people and the bot.
    GroupDirect,
    Channel,
}

/// Names by bot and id. Clones share one state.
#[derive(Clone)]
pub(super) struct SlackDirectory {
    people: Cache<(BotId, String), String>,
    chats: Cache<(BotId, String), SlackChat>,
    /// Ids whose lookup failed a moment ago.
    failed: Cache<(BotId, String), ()>,
    /// Bots whose lookups get no answer in time. None is made for a while, so that their messages do not wait.
    silent: Cache<BotId, ()>,
}

impl Default for SlackDirectory {
    fn default() -> Self {
        Self {
            people: Cache::builder().max_capacity(MOST).time_to_live(KEPT).build(),
            chats: Cache::builder().max_capacity(MOST).time_to_live(KEPT).build(),
            failed: Cache::builder().max_capacity(MOST).time_to_live(NOT_REPEATED).build(),
            silent: Cache::builder().max_capacity(10_000).time_to_live(NOT_REPEATED).build(),
        }
    }
}

impl SlackDirectory {
    pub fn keep_person(&self, bot: &BotId, id: &str, name: String) {
        self.people.insert((bot.clone(), id.to_owned()), name);
    }

    pub fn keep_chat(&self, bot: &BotId, id: &str, chat: SlackChat) {
        self.chats.insert((bot.clone(), id.to_owned()), chat);
    }

    pub fn person(&self, bot: &BotId, id: &str) -> Option<String> {
        self.people.get(&(bot.clone(), id.to_owned()))
    }

    pub fn chat(&self, bot: &BotId, id: &str) -> Option<SlackChat> {
        self.chats.get(&(bot.clone(), id.to_owned()))
    }

    fn may_look_up(&self, bot: &BotId, id: &str) -> bool {
        !self.silent.contains_key(bot) && !self.failed.contains_key(&(bot.clone(), id.to_owned()))
    }

    /// Writes the known names into the event of an arrival. Returns the ids whose names are missing: of people, and of a
    /// channel.
    pub fn fill(&self, bot: &BotId, arrival: &mut Arrival) -> MissingNames {
        let mut missing = MissingNames::default();
        let Arrival { event, several_people, .. } = arrival;
        let source = &mut event.source;
        if let Some(user) = source.user_id.as_ref().map(|user| user.as_str()).filter(|id| is_person(id)) {
            match self.person(bot, user) {
                Some(name) => source.user_name = Some(name),
                None => missing.people.push(user.to_owned()),
            }
        }
        if let Some(chat) = source.chat_id.as_ref().filter(|_| source.chat_type != "dm") {
            match self.chat(bot, chat.as_str()) {
                Some(known) => {
                    source.chat_name = Some(known.name);
                    source.chat_topic = known.topic;
                    if known.kind != SlackChatKind::Channel {
                        source.chat_type = "dm".to_owned();
                        *several_people = known.kind == SlackChatKind::GroupDirect;
                    }
                }
                None => missing.chat = Some(chat.as_str().to_owned()),
            }
        }
        for id in mentioned(&event.text) {
            match self.person(bot, &id) {
                Some(name) => event.text = event.text.replace(&format!("@{id}"), &format!("@{name}")),
                None => missing.people.push(id),
            }
        }
        missing.people.retain(|id| self.may_look_up(bot, id));
        missing.chat = missing.chat.filter(|id| self.may_look_up(bot, id));
        missing
    }
}

/// Ids whose names are not known yet.
#[derive(Default)]
pub(super) struct MissingNames {
    people: Vec<String>,
    chat: Option<String>,
}

impl MissingNames {
    pub fn is_empty(&self) -> bool {
        self.people.is_empty() && self.chat.is_none()
    }
}

/// Whether this is the id of a person, and not of a bot.
fn is_person(id: &str) -> bool {
    id.len() <= 20
        && id.starts_with(['U', 'W'])
        && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// The ids after an `@` in a text, which [`super::readable_text`] leaves there if it knows no name.
fn mentioned(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for after in text.split('@').skip(1) {
        let end = after.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(after.len());
        let id = &after[..end];
        // Ids of Slack have at least nine characters; shorter words are names that people typed.
        let is_new = found.len() < MOST_LOOKUPS && !found.iter().any(|known| known == id);
        if is_new && id.len() >= 9 && is_person(id) {
            found.push(id.to_owned());
        }
    }
    found
}

#[derive(Deserialize)]
struct UserAnswer {
    user: SlackUser,
}

#[derive(Deserialize)]
struct SlackUser {
    name: Option<String>,
    real_name: Option<String>,
    profile: Option<UserProfile>,
}

#[derive(Deserialize)]
struct UserProfile {
    display_name: Option<String>,
}

#[derive(Deserialize)]
struct ConversationAnswer {
    channel: SlackConversation,
}

#[derive(Deserialize)]
struct SlackConversation {
    name: Option<String>,
    #[serde(default)]
    is_im: bool,
    #[serde(default)]
    is_mpim: bool,
    topic: Option<ConversationTopic>,
}

#[derive(Deserialize)]
struct ConversationTopic {
    value: Option<String>,
}

impl Slack {
    /// Looks up the names that the events of a reading lack, and writes them into the events.
    pub(super) async fn complete_names(&self, bot: &OpenedBot, mut reading: Reading) -> Reading {
        let mut missing = MissingNames::default();
        for arrival in reading.arrivals.iter_mut().chain(&mut reading.from_bots) {
            let lacks = self.directory.fill(&bot.id, arrival);
            missing.people.extend(lacks.people);
            missing.chat = missing.chat.or(lacks.chat);
        }
        missing.people.dedup();
        missing.people.truncate(MOST_LOOKUPS);
        let people = join_all(missing.people.iter().map(|id| self.look_up_person(bot, id)));
        let chat = async {
            if let Some(id) = &missing.chat {
                let _ = self.look_up_chat(bot, id, LOOKUP).await;
            }
        };
        let all = async { tokio::join!(people, chat) };
        if self.timepiece.within(TIME_LIMIT, all).await.is_err() {
            self.directory.silent.insert(bot.id.clone(), ());
        }
        for arrival in reading.arrivals.iter_mut().chain(&mut reading.from_bots) {
            self.directory.fill(&bot.id, arrival);
        }
        reading.incomplete = false;
        reading
    }

    async fn look_up_person(&self, bot: &OpenedBot, id: &str) {
        let call = WebApiCall::form("users.info", vec![("user", id.to_owned())]);
        match self.call::<UserAnswer>(bot, call, LOOKUP).await {
            Ok(UserAnswer { user }) => {
                let shown =
                    [user.profile.and_then(|profile| profile.display_name), user.real_name, user.name];
                let name = shown.into_iter().flatten().find(|name| !name.is_empty());
                self.directory.keep_person(&bot.id, id, name.unwrap_or_else(|| id.to_owned()));
            }
            Err(failure) => self.note_failure(bot, id, &failure),
        }
    }

    /// Asks Slack for a channel, and keeps the answer.
    pub(super) async fn look_up_chat(
        &self,
        bot: &OpenedBot,
        id: &str,
        limit: Duration,
    ) -> Result<SlackChat, CallFailure> {
        let call = WebApiCall::form("conversations.info", vec![("channel", id.to_owned())]);
        match self.call::<ConversationAnswer>(bot, call, limit).await {
            Ok(ConversationAnswer { channel }) => {
                let chat = SlackChat {
                    name: channel.name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.to_owned()),
                    topic: channel.topic.and_then(|topic| topic.value).filter(|topic| !topic.is_empty()),
                    kind: match (channel.is_im, channel.is_mpim) {
                        (true, _) => SlackChatKind::Direct,
                        (_, true) => SlackChatKind::GroupDirect,
                        _ => SlackChatKind::Channel,
                    },
                };
                self.directory.keep_chat(&bot.id, id, chat.clone());
                Ok(chat)
            }
            Err(failure) => {
                self.note_failure(bot, id, &failure);
                Err(failure)
            }
        }
    }

    fn note_failure(&self, bot: &OpenedBot, id: &str, failure: &CallFailure) {
        self.directory.failed.insert((bot.id.clone(), id.to_owned()), ());
        if let CallFailure::Refused(CallRefusal { kind: RefusalKind::Forbidden, .. }) = failure {
            tracing::warn!(bot.id = %bot.id, "could not read a name from Slack: {}", failure.cause(LABEL));
        }
    }
}

impl From<SlackChat> for ChatInfo {
    fn from(chat: SlackChat) -> Self {
        let kind = if chat.kind == SlackChatKind::Channel { "group" } else { "dm" };
        Self { name: chat.name, kind: kind.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_people_are_found_in_a_text_and_names_are_not() {
        assert_eq!(
            mentioned("@U012345678 and @W987654321, @ana @UPPER mail@U1"),
            ["U012345678", "W987654321"]
        );
        let many = "@U00000000".repeat(3) + &(0..99).map(|n| format!("@U0000000{n:02}")).collect::<String>();
        assert_eq!(mentioned(&many).len(), MOST_LOOKUPS);
    }
}
