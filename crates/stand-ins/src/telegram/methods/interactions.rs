//! Bot API methods for buttons, drafts and names of topics.

use serde_json::{Map, Value, json};

use super::MethodCall;
use crate::telegram::{
    answer::{ApiRefusal, ApiSuccess, raw},
    entities::utf16_len,
    moment::unix_s,
    transcript::{RowKind, TranscriptRow},
    world::{BotChat, World},
};

impl MethodCall<'_> {
    /// Replaces the buttons below a message of the bot. Without `reply_markup` they are removed.
    pub(super) fn edit_message_reply_markup(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let id = self.message_id()?;
        let markup = self.markup()?;
        let missing = || ApiRefusal::bad_request("message to edit not found");
        let stored = state.messages.get_mut(&(chat, id)).ok_or_else(missing)?;
        if !stored.own {
            return Err(ApiRefusal::bad_request("message can't be edited"));
        }
        let mut message: Map<String, Value> =
            serde_json::from_str(stored.object.get()).map_err(|_| missing())?;
        let before = match markup.clone() {
            Some(markup) => message.insert("reply_markup".to_owned(), markup),
            None => message.remove("reply_markup"),
        };
        if before == markup {
            return Err(ApiRefusal::bad_request("message is not modified"));
        }
        message.insert("edit_date".to_owned(), json!(unix_s()));
        stored.object = raw(&message);
        let object = stored.object.clone();
        let row = TranscriptRow {
            chat: Some(chat),
            message_id: Some(id),
            ..self.row(state, RowKind::ButtonsChanged)
        };
        world.record(row);
        Ok(ApiSuccess { result: object, description: None })
    }

    /// Shows a preview in a private chat. It is no message.
    pub(super) fn send_message_draft(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        if self.params.integer("draft_id").is_none_or(|draft| draft == 0) {
            return Err(ApiRefusal::bad_request("DRAFT_ID_INVALID"));
        }
        if state.chats.get(&chat).is_none_or(|chat| chat.object["type"] != "private") {
            return Err(ApiRefusal::bad_request("the chat is not private"));
        }
        let (text, _) = self.composed()?;
        let thread = self.params.integer("message_thread_id");
        let row = TranscriptRow {
            chat: Some(chat),
            thread_id: thread,
            text: Some(text),
            ..self.row(state, RowKind::Draft)
        };
        world.record(row);
        Ok(ApiSuccess::yes())
    }

    pub(super) fn edit_forum_topic(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let id = self.chat(state)?;
        let thread = self.params.integer("message_thread_id").unwrap_or(0);
        let name = self.params.text("name").unwrap_or("");
        if utf16_len(name) > 128 {
            return Err(ApiRefusal::bad_request("TOPIC_NAME_INVALID"));
        }
        let chat = state.chats.get_mut(&id).filter(|chat| BotChat::is_forum(chat));
        let topic = chat.and_then(|chat| chat.topics.get_mut(&thread));
        let topic = topic.ok_or_else(|| ApiRefusal::bad_request("TOPIC_ID_INVALID"))?;
        if topic == name {
            return Err(ApiRefusal::bad_request("TOPIC_NOT_MODIFIED"));
        }
        name.clone_into(topic);
        let row = TranscriptRow {
            chat: Some(id),
            thread_id: Some(thread),
            text: Some(name.to_owned()),
            ..self.row(state, RowKind::TopicRenamed)
        };
        world.record(row);
        Ok(ApiSuccess::yes())
    }
}
