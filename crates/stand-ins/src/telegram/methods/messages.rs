//! Bot API methods for messages: send, edit, delete, react.

use serde_json::{Map, Value, json};

use super::MethodCall;
use crate::telegram::{
    answer::{ApiRefusal, ApiSuccess, raw},
    entities::{Composed, utf16_len},
    markdown,
    moment::unix_s,
    params::{flag, integer},
    transcript::{RowKind, TranscriptRow},
    world::{BotState, ChatMessage, World},
};

const LONGEST: usize = 4096;

/// The emoji that a bot may react with.
const REACTIONS: &str = "👍 👎 ❤ 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 \
    💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡";

impl MethodCall<'_> {
    pub(super) fn send_message(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let (text, entities) = self.composed()?;
        let prepared = self.prepare_message(world)?;
        let mut content = vec![("text", json!(text))];
        content.extend(entities.map(|entities| ("entities", entities)));
        Ok(self.add_message(world, prepared, text, content))
    }

    /// Checks everything about a new message but its content.
    pub(super) fn prepare_message(&self, world: &mut World) -> Result<PreparedMessage, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let thread = self.thread(state, chat)?;
        let reply_to = self.reply_to(state, chat)?;
        let markup = self.markup()?;
        self.apply_rate_limit(state, chat)?;
        Ok(PreparedMessage { chat, thread, reply_to, markup })
    }

    /// Adds a message of the bot to its chat.
    pub(super) fn add_message(
        &self,
        world: &mut World,
        prepared: PreparedMessage,
        text: String,
        content: Vec<(&'static str, Value)>,
    ) -> ApiSuccess {
        let PreparedMessage { chat, thread, reply_to, markup } = prepared;
        let state = self.state(world);
        let id = state.next_message_id(chat);
        let mut message = Map::new();
        message.insert("message_id".to_owned(), json!(id));
        message.insert("date".to_owned(), json!(unix_s()));
        let chat_object = state.chats.get(&chat).map_or(Value::Null, |chat| chat.object.clone());
        if chat_object["type"] == "channel" {
            message.insert("sender_chat".to_owned(), chat_object.clone());
        } else {
            message.insert("from".to_owned(), Value::Object(state.user()));
        }
        if let Some(thread) = thread {
            message.insert("message_thread_id".to_owned(), json!(thread));
            if chat_object["is_forum"] == true {
                message.insert("is_topic_message".to_owned(), json!(true));
            }
        }
        message.insert("chat".to_owned(), chat_object);
        if let Some(replied) = reply_to.and_then(|id| state.messages.get(&(chat, id))) {
            let mut replied: Value = serde_json::from_str(replied.object.get()).unwrap_or_default();
            if let Some(fields) = replied.as_object_mut() {
                fields.remove("reply_to_message");
            }
            message.insert("reply_to_message".to_owned(), replied);
        }
        message.extend(content.into_iter().map(|(name, value)| (name.to_owned(), value)));
        message.extend(markup.map(|markup| ("reply_markup".to_owned(), markup)));

        let object = raw(&message);
        state.messages.insert((chat, id), ChatMessage { object: object.clone(), own: true });
        let row = TranscriptRow {
            chat: Some(chat),
            message_id: Some(id),
            thread_id: thread,
            reply_to,
            text: Some(text),
            ..self.row(state, RowKind::Sent)
        };
        world.record(row);
        ApiSuccess { result: object, description: None }
    }

    pub(super) fn edit_message_text(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let id = self.message_id()?;
        let (text, entities) = self.composed()?;
        let markup = self.markup()?;
        self.apply_rate_limit(state, chat)?;
        let missing = || ApiRefusal::bad_request("message to edit not found");
        let stored = state.messages.get_mut(&(chat, id)).ok_or_else(missing)?;
        if !stored.own {
            return Err(ApiRefusal::bad_request("message can't be edited"));
        }
        let mut message: Map<String, Value> =
            serde_json::from_str(stored.object.get()).map_err(|_| missing())?;
        let before = message.clone();
        set_content(&mut message, &text, entities, markup);
        if message == before {
            return Err(ApiRefusal::bad_request(
                "message is not modified: specified new message content and reply markup are exactly the same \
                 as a current content and reply markup of the message",
            ));
        }
        message.insert("edit_date".to_owned(), json!(unix_s()));
        stored.object = raw(&message);
        let object = stored.object.clone();
        let row = TranscriptRow {
            chat: Some(chat),
            message_id: Some(id),
            thread_id: message.get("message_thread_id").and_then(Value::as_i64),
            text: Some(text),
            ..self.row(state, RowKind::Edited)
        };
        world.record(row);
        Ok(ApiSuccess { result: object, description: None })
    }

    pub(super) fn delete_message(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let id = self.message_id()?;
        if state.messages.remove(&(chat, id)).is_none() {
            return Err(ApiRefusal::bad_request("message to delete not found"));
        }
        let row =
            TranscriptRow { chat: Some(chat), message_id: Some(id), ..self.row(state, RowKind::Deleted) };
        world.record(row);
        Ok(ApiSuccess::yes())
    }

    pub(super) fn set_message_reaction(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let id = self.message_id()?;
        if !state.messages.contains_key(&(chat, id)) {
            return Err(ApiRefusal::bad_request("message to react not found"));
        }
        let reactions = self.params.structure("reaction")?.unwrap_or_else(|| json!([]));
        let mut shown = String::new();
        for reaction in reactions.as_array().ok_or_else(|| ApiRefusal::bad_request("REACTION_INVALID"))? {
            let emoji = reaction["emoji"].as_str().unwrap_or("").replace('\u{fe0f}', "");
            if reaction["type"] != "emoji" || !REACTIONS.split_whitespace().any(|one| one == emoji) {
                return Err(ApiRefusal::bad_request("REACTION_INVALID"));
            }
            shown.push_str(&emoji);
        }
        let row = TranscriptRow {
            chat: Some(chat),
            message_id: Some(id),
            text: Some(shown),
            ..self.row(state, RowKind::Reaction)
        };
        world.record(row);
        Ok(ApiSuccess::yes())
    }

    /// The text after parsing, within the limit, with its entities.
    pub(super) fn composed(&self) -> Result<(String, Option<Value>), ApiRefusal> {
        let (text, entities) = self.parsed("text", "entities", LONGEST, "message is too long")?;
        if text.is_empty() {
            return Err(ApiRefusal::bad_request("message text is empty"));
        }
        Ok((text, entities))
    }

    /// A text parameter after parsing, with its entities. It may be empty.
    pub(super) fn parsed(
        &self,
        name: &str,
        entities: &str,
        longest: usize,
        too_long: &str,
    ) -> Result<(String, Option<Value>), ApiRefusal> {
        let text = self.params.text(name).unwrap_or("");
        let (composed, given) = match self.params.text("parse_mode").unwrap_or("") {
            "" => {
                let plain = Composed { text: text.to_owned(), entities: Vec::new() };
                (plain, self.params.structure(entities)?)
            }
            mode if mode.eq_ignore_ascii_case("MarkdownV2") => {
                let parsed = markdown::parse(text)
                    .map_err(|error| ApiRefusal::bad_request(format!("can't parse entities: {error}")))?;
                (parsed, None)
            }
            mode if mode.eq_ignore_ascii_case("HTML") || mode.eq_ignore_ascii_case("Markdown") => {
                return Err(ApiRefusal::bad_request("the stand-in parses MarkdownV2 only"));
            }
            _ => return Err(ApiRefusal::bad_request("unsupported parse_mode")),
        };
        let composed = composed.trim();
        if utf16_len(&composed.text) > longest {
            return Err(ApiRefusal::bad_request(too_long));
        }
        let parsed = (!composed.entities.is_empty()).then(|| json!(composed.entities));
        Ok((composed.text, given.or(parsed)))
    }

    pub(super) fn markup(&self) -> Result<Option<Value>, ApiRefusal> {
        let markup = self.params.structure("reply_markup")?;
        Ok(markup.filter(|markup| markup["inline_keyboard"].as_array().is_some_and(|rows| !rows.is_empty())))
    }

    fn thread(&self, state: &BotState, chat: i64) -> Result<Option<i64>, ApiRefusal> {
        let Some(thread) = self.params.integer("message_thread_id") else { return Ok(None) };
        let known = state.chats.get(&chat).is_some_and(|chat| chat.topics.contains_key(&thread))
            || (state.chats.get(&chat).is_some_and(|chat| !chat.is_forum())
                && state.messages.contains_key(&(chat, thread)));
        if known || self.shared.settings.accept_unknown_chats {
            Ok(Some(thread))
        } else {
            Err(ApiRefusal::bad_request("message thread not found"))
        }
    }

    fn reply_to(&self, state: &BotState, chat: i64) -> Result<Option<i64>, ApiRefusal> {
        let (wanted, lenient) = match self.params.structure("reply_parameters")? {
            Some(reply) => {
                let wanted = integer(&reply["message_id"])
                    .ok_or_else(|| ApiRefusal::bad_request("reply_parameters needs a message_id"))?;
                (wanted, flag(&reply["allow_sending_without_reply"]))
            }
            None => match self.params.integer("reply_to_message_id") {
                Some(wanted) => (wanted, self.params.flag("allow_sending_without_reply")),
                None => return Ok(None),
            },
        };
        match state.messages.contains_key(&(chat, wanted)) {
            true => Ok(Some(wanted)),
            false if lenient => Ok(None),
            false => Err(ApiRefusal::bad_request("message to be replied not found")),
        }
    }
}

/// A new message of a bot, without its content.
pub(super) struct PreparedMessage {
    chat: i64,
    thread: Option<i64>,
    reply_to: Option<i64>,
    markup: Option<Value>,
}

fn set_content(message: &mut Map<String, Value>, text: &str, entities: Option<Value>, markup: Option<Value>) {
    message.insert("text".to_owned(), json!(text));
    for (name, value) in [("entities", entities), ("reply_markup", markup)] {
        match value {
            Some(value) => _ = message.insert(name.to_owned(), value),
            None => _ = message.remove(name),
        }
    }
}
