//! Directory of people, chats and messages: names, kinds of chats, and the chat of each message.
//!
//! Feishu addresses a message by its id alone. An action that names one must therefore be checked against the chat for
//! which it is permitted, see [`super::egress`].

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::{BotId, ChatInfo};
use serde::Deserialize;

use super::api::{FeishuCall, is_path_part};
use super::{Feishu, LABEL};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, Reading};
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

const KEPT: Duration = Duration::from_secs(3600);
/// Time for which a failed lookup is not repeated. The name is then the id.
const NOT_REPEATED: Duration = Duration::from_secs(60);
/// Most entries of each kind, over all bots.
const MOST: u64 = 50_000;
/// Time limit for all lookups of one event: Feishu waits three seconds for its answer.
const TIME_LIMIT: Duration = Duration::from_millis(1_200);
const LOOKUP: Duration = Duration::from_secs(5);

/// A chat as Feishu describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeishuChat {
    pub name: String,
    /// A direct chat of one person with the bot.
    pub is_direct: bool,
}

/// Where a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FeishuPlace {
    pub chat: String,
    /// The id of its thread (`omt_…`).
    pub thread: Option<String>,
}

type Key = (BotId, String);

/// Clones share one state.
#[derive(Clone)]
pub(super) struct FeishuDirectory {
    people: Cache<Key, String>,
    chats: Cache<Key, FeishuChat>,
    /// Whether a chat is a direct one, also where its name is not known.
    kinds: Cache<Key, bool>,
    places: Cache<Key, FeishuPlace>,
    /// Messages of the bot, and threads in which it has written.
    own: Cache<Key, ()>,
    /// A message of each thread. Only by answering one can the bot write there.
    threads: Cache<Key, String>,
    failed: Cache<Key, ()>,
    /// Bots whose lookups get no answer in time. None is made for a while, so that their messages do not wait.
    silent: Cache<BotId, ()>,
}

impl Default for FeishuDirectory {
    fn default() -> Self {
        fn kept<V: Clone + Send + Sync + 'static>() -> Cache<Key, V> {
            Cache::builder().max_capacity(MOST).time_to_live(KEPT).build()
        }
        Self {
            people: kept(),
            chats: kept(),
            kinds: kept(),
            places: kept(),
            own: Cache::builder().max_capacity(MOST).time_to_idle(KEPT * 24).build(),
            threads: kept(),
            failed: Cache::builder().max_capacity(MOST).time_to_live(NOT_REPEATED).build(),
            silent: Cache::builder().max_capacity(10_000).time_to_live(NOT_REPEATED).build(),
        }
    }
}

fn key(bot: &BotId, id: &str) -> Key {
    (bot.clone(), id.to_owned())
}

impl FeishuDirectory {
    pub fn keep_person(&self, bot: &BotId, id: &str, name: &str) {
        self.people.insert(key(bot, id), name.to_owned());
    }

    pub fn person(&self, bot: &BotId, id: &str) -> Option<String> {
        self.people.get(&key(bot, id))
    }

    pub fn keep_chat(&self, bot: &BotId, id: &str, chat: FeishuChat) {
        self.kinds.insert(key(bot, id), chat.is_direct);
        self.chats.insert(key(bot, id), chat);
    }

    pub fn chat(&self, bot: &BotId, id: &str) -> Option<FeishuChat> {
        self.chats.get(&key(bot, id))
    }

    pub fn keep_direct(&self, bot: &BotId, chat: &str) {
        self.kinds.insert(key(bot, chat), true);
    }

    /// Whether a chat is a direct one. `None` if that is not known.
    pub fn is_direct(&self, bot: &BotId, chat: &str) -> Option<bool> {
        self.kinds.get(&key(bot, chat))
    }

    pub fn keep_place(&self, bot: &BotId, message: &str, place: FeishuPlace) {
        if let Some(thread) = &place.thread {
            self.threads.insert(key(bot, thread), message.to_owned());
        }
        self.places.insert(key(bot, message), place);
    }

    pub fn place(&self, bot: &BotId, message: &str) -> Option<FeishuPlace> {
        self.places.get(&key(bot, message))
    }

    /// A message of a thread.
    pub fn message_of(&self, bot: &BotId, thread: &str) -> Option<String> {
        self.threads.get(&key(bot, thread))
    }

    /// Notes a message of the bot.
    pub fn keep_own(&self, bot: &BotId, message: &str, place: FeishuPlace) {
        self.own.insert(key(bot, message), ());
        if let Some(thread) = &place.thread {
            self.own.insert(key(bot, thread), ());
        }
        self.keep_place(bot, message, place);
    }

    /// Whether the bot wrote this message, or has written in this thread.
    pub fn is_own(&self, bot: &BotId, id: &str) -> bool {
        self.own.contains_key(&key(bot, id))
    }

    fn may_look_up(&self, bot: &BotId, id: &str) -> bool {
        is_path_part(id) && !self.silent.contains_key(bot) && !self.failed.contains_key(&key(bot, id))
    }
}

#[derive(Deserialize)]
struct ContactAnswer {
    user: FeishuUser,
}

#[derive(Deserialize)]
struct FeishuUser {
    name: Option<String>,
}

#[derive(Deserialize)]
struct ChatAnswer {
    name: Option<String>,
    /// `group`, `topic` or `p2p`.
    chat_mode: Option<String>,
}

#[derive(Deserialize)]
struct MessageList {
    #[serde(default)]
    items: Vec<MessageItem>,
}

/// A message as its lookup describes it.
#[derive(Deserialize)]
pub(super) struct MessageItem {
    pub message_id: String,
    pub chat_id: String,
    pub thread_id: Option<String>,
}

impl Feishu {
    /// Looks up the names that the events of a reading lack, and writes them into the events.
    pub(super) async fn complete_names(&self, bot: &OpenedBot, mut reading: Reading) -> Reading {
        reading.incomplete = false;
        let Some(arrival) = reading.arrivals.iter_mut().chain(&mut reading.from_bots).next() else {
            return reading;
        };
        let asked = async {
            tokio::join!(
                self.ask_person(bot, arrival),
                self.ask_chat(bot, arrival),
                self.ask_message(bot, arrival)
            );
        };
        if self.timepiece.within(TIME_LIMIT, asked).await.is_err() {
            self.directory.silent.insert(bot.id.clone(), ());
        }
        self.fill(bot, arrival);
        reading
    }

    fn fill(&self, bot: &OpenedBot, arrival: &mut Arrival) {
        let source = &mut arrival.event.source;
        let ids = [source.user_id_alt.as_ref(), source.user_id.as_ref()];
        let known = ids.into_iter().flatten().find_map(|id| self.directory.person(&bot.id, id.as_str()));
        source.user_name = source.user_name.take().or(known);
        let Some(chat) = source.chat_id.as_ref().map(|chat| chat.as_str()) else { return };
        if let Some(is_direct) = self.directory.is_direct(&bot.id, chat) {
            source.chat_type = if is_direct { "dm" } else { "group" }.to_owned();
        }
        match self.directory.chat(&bot.id, chat) {
            Some(known) if !known.name.is_empty() => source.chat_name = Some(known.name),
            _ if source.chat_type == "dm" && source.user_name.is_some() => {
                source.chat_name = source.user_name.clone();
            }
            _ => {}
        }
        let message = source.message_id.as_ref().map(|message| message.as_str());
        let place = message.and_then(|message| self.directory.place(&bot.id, message));
        if let Some(place) = place.filter(|place| place.chat == chat && source.thread_id.is_none()) {
            source.thread_id = place.thread.as_deref().map(Into::into);
        }
    }

    async fn ask_person(&self, bot: &OpenedBot, arrival: &Arrival) {
        let source = &arrival.event.source;
        let id = source.user_id_alt.as_ref().or(source.user_id.as_ref()).map(|id| id.as_str());
        let Some(id) = id.filter(|id| source.user_name.is_none() && self.directory.may_look_up(&bot.id, id))
        else {
            return;
        };
        let kind = match id {
            id if id.starts_with("on_") => "union_id",
            id if id.starts_with("ou_") => "open_id",
            _ => "user_id",
        };
        let call = FeishuCall::get("GET users", format!("/contact/v3/users/{id}?user_id_type={kind}"));
        match self.call::<ContactAnswer>(bot, &call, LOOKUP).await {
            Ok(ContactAnswer { user }) => {
                let name = user.name.filter(|name| !name.is_empty());
                self.directory.keep_person(&bot.id, id, name.as_deref().unwrap_or(id));
            }
            Err(failure) => self.note_failure(bot, id, &failure),
        }
    }

    async fn ask_chat(&self, bot: &OpenedBot, arrival: &Arrival) {
        let directory = &self.directory;
        let Some(chat) = arrival.event.source.chat_id.as_ref().map(|chat| chat.as_str()) else { return };
        let is_known = directory.chat(&bot.id, chat).is_some();
        if is_known || directory.is_direct(&bot.id, chat) == Some(true) {
            return;
        }
        if directory.may_look_up(&bot.id, chat) {
            let _ = self.look_up_chat(bot, chat, LOOKUP).await;
        }
    }

    /// Of a press it is not known in which thread the card is.
    async fn ask_message(&self, bot: &OpenedBot, arrival: &Arrival) {
        let source = &arrival.event.source;
        let Some(message) = source.message_id.as_ref().map(|message| message.as_str()) else { return };
        let is_known = self.directory.place(&bot.id, message).is_some();
        if !is_known && self.directory.may_look_up(&bot.id, message) {
            match self.look_up_message(bot, message, LOOKUP).await {
                Ok(_) => {}
                Err(failure) => self.note_failure(bot, message, &failure),
            }
        }
    }

    /// Asks Feishu for a chat, and keeps the answer.
    pub(super) async fn look_up_chat(
        &self,
        bot: &OpenedBot,
        id: &str,
        limit: Duration,
    ) -> Result<FeishuChat, CallFailure> {
        let call = FeishuCall::get("GET chats", format!("/im/v1/chats/{id}"));
        match self.call::<ChatAnswer>(bot, &call, limit).await {
            Ok(answer) => {
                let is_direct = answer.chat_mode.as_deref() == Some("p2p");
                let name = answer.name.filter(|name| !name.is_empty());
                let chat = FeishuChat { name: name.unwrap_or_else(|| id.to_owned()), is_direct };
                self.directory.keep_chat(&bot.id, id, chat.clone());
                Ok(chat)
            }
            Err(failure) => {
                self.note_failure(bot, id, &failure);
                Err(failure)
            }
        }
    }

    /// Asks Feishu where a message is, and keeps the answer.
    pub(super) async fn look_up_message(
        &self,
        bot: &OpenedBot,
        id: &str,
        limit: Duration,
    ) -> Result<FeishuPlace, CallFailure> {
        let call = FeishuCall::get("GET messages", format!("/im/v1/messages/{id}"));
        self.first_of_list(bot, &call, limit).await
    }

    /// Asks Feishu for a message of a thread.
    pub(super) async fn look_up_thread(
        &self,
        bot: &OpenedBot,
        thread: &str,
        limit: Duration,
    ) -> Result<FeishuPlace, CallFailure> {
        let query = format!("container_id_type=thread&container_id={thread}&page_size=1");
        let call = FeishuCall::get("GET messages of a thread", format!("/im/v1/messages?{query}"));
        self.first_of_list(bot, &call, limit).await
    }

    async fn first_of_list(
        &self,
        bot: &OpenedBot,
        call: &FeishuCall<'_>,
        limit: Duration,
    ) -> Result<FeishuPlace, CallFailure> {
        let found: MessageList = self.call(bot, call, limit).await?;
        let Some(item) = found.items.into_iter().next() else {
            let refusal = CallRefusal::new(RefusalKind::Gone, 0, "message to edit not found".to_owned());
            return Err(CallFailure::Refused(refusal));
        };
        let place =
            FeishuPlace { chat: item.chat_id, thread: item.thread_id.filter(|thread| !thread.is_empty()) };
        self.directory.keep_place(&bot.id, &item.message_id, place.clone());
        Ok(place)
    }

    fn note_failure(&self, bot: &OpenedBot, id: &str, failure: &CallFailure) {
        self.directory.failed.insert(key(&bot.id, id), ());
        if let CallFailure::Refused(CallRefusal { kind: RefusalKind::Forbidden, .. }) = failure {
            tracing::warn!(bot.id = %bot.id, "could not look something up at Feishu: {}", failure.cause(LABEL));
        }
    }
}

impl From<FeishuChat> for ChatInfo {
    fn from(chat: FeishuChat) -> Self {
        let kind = if chat.is_direct { "dm" } else { "group" };
        Self { name: chat.name, kind: kind.to_owned() }
    }
}
