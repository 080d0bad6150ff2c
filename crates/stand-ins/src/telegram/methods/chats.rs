//! Bot API methods for chats, topics, files, typing and button answers.

use serde_json::{Value, json};

use super::MethodCall;
use crate::telegram::{
    answer::{ApiRefusal, ApiSuccess, raw},
    entities::utf16_len,
    files::MOST_DOWNLOAD,
    moment::unix_s,
    transcript::{RowKind, TranscriptRow},
    world::{BotChat, ChatMessage, World},
};

const ACTIONS: [&str; 11] = [
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
];

/// A chat without messages, if such chats are accepted.
pub(super) fn unknown(id: i64) -> BotChat {
    BotChat::new(if id > 0 {
        json!({"id": id, "type": "private", "first_name": "Somebody"})
    } else {
        json!({"id": id, "type": "supergroup", "title": format!("Group {}", id.unsigned_abs())})
    })
}

impl MethodCall<'_> {
    pub(super) fn get_me(&self, world: &mut World) -> ApiSuccess {
        let mut user = self.state(world).user();
        for (name, value) in [
            ("can_join_groups", true),
            ("can_read_all_group_messages", false),
            ("supports_inline_queries", false),
            ("can_connect_to_business", false),
            ("has_main_web_app", false),
        ] {
            user.insert(name.to_owned(), json!(value));
        }
        ApiSuccess::with(&user)
    }

    pub(super) fn get_chat(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let mut full = state.chats.get(&chat).map_or(Value::Null, |chat| chat.object.clone());
        full["accent_color_id"] = json!(0);
        full["max_reaction_count"] = json!(11);
        full["accepted_gift_types"] = json!({
            "unlimited_gifts": false,
            "limited_gifts": false,
            "unique_gifts": false,
            "premium_subscription": false,
            "gifts_from_channels": false,
        });
        Ok(ApiSuccess::with(&full))
    }

    /// Somebody is a member of a group after their first message there, and of their own direct chat.
    pub(super) fn get_chat_member(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let Some(user) = self.params.integer("user_id") else {
            return Err(ApiRefusal::bad_request("invalid user_id specified"));
        };
        let mut written = state.messages.iter().filter(|((of, _), message)| *of == chat && !message.own);
        let wrote = written.any(|(_, message)| {
            let object: Value = serde_json::from_str(message.object.get()).unwrap_or_default();
            object["from"]["id"] == user
        });
        let status = if wrote || chat == user { "member" } else { "left" };
        let member =
            json!({"status": status, "user": {"id": user, "is_bot": false, "first_name": "Somebody"}});
        Ok(ApiSuccess::with(&member))
    }

    pub(super) fn send_chat_action(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let chat = self.chat(state)?;
        let action = self.params.text("action").unwrap_or("");
        if !ACTIONS.contains(&action) {
            return Err(ApiRefusal::bad_request("wrong parameter action in request"));
        }
        let row = TranscriptRow {
            chat: Some(chat),
            thread_id: self.params.integer("message_thread_id"),
            text: Some(action.to_owned()),
            ..self.row(state, RowKind::Action)
        };
        world.record(row);
        Ok(ApiSuccess::yes())
    }

    pub(super) fn answer_callback_query(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        if !state.callbacks.remove(self.params.text("callback_query_id").unwrap_or("")) {
            return Err(ApiRefusal::bad_request(
                "query is too old and response timeout expired or query ID is invalid",
            ));
        }
        let text = self.params.text("text").map(str::to_owned);
        let row = TranscriptRow { text, ..self.row(state, RowKind::CallbackAnswered) };
        world.record(row);
        Ok(ApiSuccess::yes())
    }

    pub(super) fn create_forum_topic(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let state = self.state(world);
        let id = self.chat(state)?;
        let name = self.params.text("name").unwrap_or("");
        if !(1..=128).contains(&utf16_len(name)) {
            return Err(ApiRefusal::bad_request("TOPIC_NAME_INVALID"));
        }
        if !state.chats.get(&id).is_some_and(BotChat::is_forum) {
            return Err(ApiRefusal::bad_request("the chat is not a forum"));
        }
        let thread = state.next_message_id(id);
        let chat = state.chats.get_mut(&id).expect("the chat was just looked at");
        chat.topics.insert(thread, name.to_owned());
        let color = 7_322_096;
        let object = raw(&json!({
            "message_id": thread,
            "message_thread_id": thread,
            "is_topic_message": true,
            "date": unix_s(),
            "chat": chat.object,
            "forum_topic_created": {"name": name, "icon_color": color},
        }));
        state.messages.insert((id, thread), ChatMessage { object, own: true });
        let row = TranscriptRow {
            chat: Some(id),
            message_id: Some(thread),
            thread_id: Some(thread),
            text: Some(name.to_owned()),
            ..self.row(state, RowKind::TopicCreated)
        };
        world.record(row);
        Ok(ApiSuccess::with(&json!({"message_thread_id": thread, "name": name, "icon_color": color})))
    }

    pub(super) fn get_file(&self, world: &mut World) -> Result<ApiSuccess, ApiRefusal> {
        let wanted = self.params.text("file_id").unwrap_or("");
        let missing = || ApiRefusal::bad_request("wrong file_id or the file is temporarily unavailable");
        let file = world.files.by_id(wanted).ok_or_else(missing)?;
        if file.content.len() > MOST_DOWNLOAD {
            return Err(ApiRefusal::bad_request("file is too big"));
        }
        Ok(ApiSuccess::with(&json!({
            "file_id": file.id,
            "file_unique_id": format!("unique-{}", file.id),
            "file_size": file.content.len(),
            "file_path": file.path,
        })))
    }
}
