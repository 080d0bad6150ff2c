//! Injection of what people do: the scripted inbound side.

mod compose;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    answer::raw,
    moment::{unix_ms, unix_s},
    transcript::{RowKind, TranscriptRow},
    world::{BotChat, BotState, ChatMessage, LARGEST_ID, World},
};

/// A person.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Person {
    /// The user's id.
    pub id: i64,
    /// Default `Ana`.
    #[serde(default = "ana")]
    pub first_name: String,
    /// Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_name: Option<String>,
    /// Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Default false.
    #[serde(default)]
    pub is_bot: bool,
}

fn ana() -> String {
    "Ana".to_owned()
}

/// A bot by id or username.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum BotName {
    /// Its user id.
    Id(i64),
    /// Its username, or its id in digits.
    Name(String),
}

/// Something that a person does: either a raw `update`, or what the other fields describe. Unset fields get
/// plausible values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Injection {
    /// The bot that receives it, by token.
    pub token: Option<String>,
    /// The bot that receives it, by id or username. Default: the first bot.
    pub bot: Option<BotName>,
    /// A complete `Update`. Missing `update_id`, `message_id` and `date` are filled in.
    pub update: Option<Value>,
    /// The text. Commands and mentions in it are marked as a client would.
    pub text: Option<String>,
    /// The chat. Default: the private chat with `from`.
    pub chat_id: Option<i64>,
    /// Default `private` for positive chat ids, else `supergroup`.
    pub chat_type: Option<String>,
    /// The group's name.
    pub title: Option<String>,
    /// The sender. Default: Ana, with the id of the private chat, otherwise 1001.
    pub from: Option<Person>,
    /// The forum topic. It makes the chat a forum.
    #[serde(alias = "message_thread_id", alias = "thread")]
    pub thread_id: Option<i64>,
    /// Whether the group is a forum.
    pub is_forum: bool,
    /// The message replied to.
    #[serde(alias = "reply_to_message_id")]
    pub reply_to: Option<i64>,
    /// Makes this an edit of that message.
    pub edit_of: Option<i64>,
    /// Makes this the press of a button with this data, under `message_id`.
    pub callback_data: Option<String>,
    /// The id for the message, or the message whose button is pressed.
    pub message_id: Option<i64>,
    /// The id for the update.
    pub update_id: Option<i64>,
}

impl Injection {
    /// A person writes `text` in `chat`.
    #[must_use]
    pub fn text(chat: i64, text: &str) -> Injection {
        Injection { chat_id: Some(chat), text: Some(text.to_owned()), ..Injection::default() }
    }

    /// A raw update.
    #[must_use]
    pub fn update(update: Value) -> Injection {
        Injection { update: Some(update), ..Injection::default() }
    }

    /// Sets the receiving bot.
    #[must_use]
    pub fn to_bot(self, id: i64) -> Injection {
        Injection { bot: Some(BotName::Id(id)), ..self }
    }

    /// Sets the sender.
    #[must_use]
    pub fn by(self, id: i64, first_name: &str) -> Injection {
        let from =
            Person { id, first_name: first_name.to_owned(), last_name: None, username: None, is_bot: false };
        Injection { from: Some(from), ..self }
    }
}

/// Result of an injection.
#[derive(Clone, Debug, Serialize)]
pub struct Injected {
    /// The update's id.
    pub update_id: i64,
    /// The message's id, if it is about one.
    pub message_id: Option<i64>,
    /// The chat's id, if it is about one.
    pub chat_id: Option<i64>,
    /// False if the bot's `allowed_updates` exclude this kind.
    pub queued: bool,
    /// The complete update.
    pub update: Value,
}

const MESSAGE_KINDS: [&str; 6] = [
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_message",
    "edited_business_message",
];

impl World {
    /// Carries out the injection: the chat becomes known, and the update waits for the bot.
    pub fn inject(&mut self, injection: Injection, most_pending: usize) -> Result<Injected, String> {
        let at = self.hearer(&injection)?;
        let state = &mut self.bots[at];
        if state.pending.len() >= most_pending {
            return Err("too many updates are pending".to_owned());
        }
        let mut update = match injection.update.clone() {
            Some(Value::Object(update)) => update,
            Some(_) => return Err("update is not an object".to_owned()),
            None => compose::update(state, &injection)?,
        };
        let update_id = match update.get("update_id").and_then(Value::as_i64).or(injection.update_id) {
            Some(chosen) => chosen,
            None => state.next_update,
        };
        if update_id < LARGEST_ID {
            state.next_update = state.next_update.max(update_id + 1);
        }
        update.insert("update_id".to_owned(), json!(update_id));
        let kind = update.keys().find(|key| *key != "update_id").cloned();
        let kind = kind.ok_or("an update needs something besides its id")?;

        let about = update.get_mut(&kind).expect("the key was just read");
        let (chat, message, text) = learn(state, &kind, about);
        let queue = chat.or_else(|| about["from"]["id"].as_i64()).unwrap_or(0);
        let (thread, reply_to) = match &about {
            Value::Object(fields) => (
                fields.get("message_thread_id").and_then(Value::as_i64),
                fields.get("reply_to_message").and_then(|replied| replied["message_id"].as_i64()),
            ),
            _ => (None, None),
        };

        let written = raw(&update);
        let queued = state.allows(&kind);
        if queued {
            let body = Bytes::copy_from_slice(written.get().as_bytes());
            state.pending.insert(update_id, (queue, body.clone()));
            let bot = state.bot.id;
            if let Some(webhook) = state.webhook.as_mut() {
                let fault = self.faults.fault_for_delivery(bot);
                webhook.enqueue(queue, update_id, body, fault);
            } else {
                state.arrived.notify_waiters();
            }
        }
        let bot = self.bots[at].bot.id;
        self.record(TranscriptRow {
            chat,
            message_id: message,
            update_id: Some(update_id),
            thread_id: thread,
            reply_to,
            text,
            ..TranscriptRow::new(bot, RowKind::Received, kind, written)
        });
        let update = Value::Object(update);
        Ok(Injected { update_id, message_id: message, chat_id: chat, queued, update })
    }

    fn hearer(&self, injection: &Injection) -> Result<usize, String> {
        let found = match (&injection.token, &injection.bot) {
            (Some(token), _) => self.bot_by_token(token),
            (None, Some(BotName::Id(id))) => self.bot_by_id(*id),
            (None, Some(BotName::Name(name))) => self.bot_by_name(name),
            (None, None) => (!self.bots.is_empty()).then_some(0),
        };
        found.ok_or_else(|| "no such bot".to_owned())
    }
}

/// Fills in what the platform would know, and stores chat, message and button.
fn learn(state: &mut BotState, kind: &str, about: &mut Value) -> (Option<i64>, Option<i64>, Option<String>) {
    if !about.is_object() {
        return (None, None, None);
    }
    if kind == "callback_query" {
        let id = about["id"].as_str().map(str::to_owned).unwrap_or_else(|| {
            let id = format!("{}{:04}", unix_ms(), state.next_update % 10_000);
            about["id"] = json!(id);
            id
        });
        // Limits the number of unanswered buttons.
        if state.callbacks.len() >= 10_000 {
            state.callbacks.clear();
        }
        state.callbacks.insert(id);
        let chat = about["message"]["chat"].clone();
        know_chat(state, &chat, None);
        let data = about["data"].as_str().map(str::to_owned);
        return (chat["id"].as_i64(), about["message"]["message_id"].as_i64(), data);
    }
    let Some(chat) = about["chat"]["id"].as_i64() else { return (None, None, None) };
    let thread = about["message_thread_id"].as_i64().filter(|_| about["is_topic_message"] == true);
    let object = about["chat"].clone();
    know_chat(state, &object, thread);
    if let Some(known) = state.chats.get_mut(&chat) {
        match about["business_connection_id"].as_str() {
            Some(connection) => known.business = Some(connection.to_owned()),
            None => known.is_own = true,
        }
    }
    if !MESSAGE_KINDS.contains(&kind) {
        return (Some(chat), about["message_id"].as_i64(), None);
    }
    let id = match about["message_id"].as_i64() {
        Some(chosen) => {
            state.saw_message_id(chat, chosen);
            chosen
        }
        None => state.next_message_id(chat),
    };
    about["message_id"] = json!(id);
    if about["date"].is_null() {
        about["date"] = json!(unix_s());
    }
    state.messages.insert((chat, id), ChatMessage { object: raw(about), own: false });
    let text = about["text"].as_str().or_else(|| about["caption"].as_str()).map(str::to_owned);
    (Some(chat), Some(id), text)
}

fn know_chat(state: &mut BotState, object: &Value, thread: Option<i64>) {
    let Some(id) = object["id"].as_i64() else { return };
    let chat = state.chats.entry(id).or_insert_with(|| BotChat::new(object.clone()));
    chat.object = object.clone();
    if let Some(thread) = thread {
        chat.topics.entry(thread).or_insert_with(|| format!("Topic {thread}"));
    }
}
