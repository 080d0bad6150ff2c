//! Composing the update that the platform would send for a person's action.

use serde_json::{Map, Value, json};

use super::{Injection, Person, ana};
use crate::telegram::{entities::detect, moment::unix_s, world::BotState};

/// The update that the convenience fields describe.
pub(super) fn update(state: &BotState, injection: &Injection) -> Result<Map<String, Value>, String> {
    let chat_id = injection.chat_id.or(injection.from.as_ref().map(|from| from.id)).unwrap_or(1001);
    let from = injection.from.clone().unwrap_or_else(|| Person {
        id: if chat_id > 0 { chat_id } else { 1001 },
        first_name: ana(),
        last_name: None,
        username: None,
        is_bot: false,
    });
    let chat = chat_object(state, injection, chat_id, &from);
    let is_channel = chat["type"] == "channel";
    let stored = |id: i64| {
        let message =
            state.messages.get(&(chat_id, id)).ok_or_else(|| format!("no message {id} in that chat"))?;
        serde_json::from_str::<Value>(message.object.get()).map_err(|error| error.to_string())
    };
    if let Some(data) = &injection.callback_data {
        let message = match injection.message_id {
            Some(id) => stored(id)?,
            None => return Err("callback_data needs the message_id whose button is pressed".to_owned()),
        };
        let query =
            json!({"from": from, "message": message, "chat_instance": chat_id.to_string(), "data": data});
        return Ok(Map::from_iter([("callback_query".to_owned(), query)]));
    }
    let text = injection.text.as_deref().ok_or("either update, text or callback_data is needed")?;
    let mut message = json!({"date": unix_s(), "chat": chat, "text": text});
    if is_channel {
        message["sender_chat"] = message["chat"].clone();
    } else {
        message["from"] = json!(from);
    }
    let entities = detect(text);
    if !entities.is_empty() {
        message["entities"] = json!(entities);
    }
    if let Some(thread) = injection.thread_id {
        message["message_thread_id"] = json!(thread);
        message["is_topic_message"] = json!(true);
    }
    if let Some(id) = injection.reply_to {
        let mut replied = stored(id)?;
        if let Some(fields) = replied.as_object_mut() {
            fields.remove("reply_to_message");
        }
        message["reply_to_message"] = replied;
    }
    let mut kind = if is_channel { "channel_post" } else { "message" }.to_owned();
    if let Some(id) = injection.edit_of {
        message["date"] = stored(id)?["date"].clone();
        message["message_id"] = json!(id);
        message["edit_date"] = json!(unix_s());
        kind = format!("edited_{kind}");
    } else if let Some(id) = injection.message_id {
        message["message_id"] = json!(id);
    }
    Ok(Map::from_iter([(kind, message)]))
}

fn chat_object(state: &BotState, injection: &Injection, chat_id: i64, from: &Person) -> Value {
    let default_kind = if chat_id > 0 { "private" } else { "supergroup" };
    let mut chat = state.chats.get(&chat_id).map_or_else(
        || json!({"id": chat_id, "type": injection.chat_type.as_deref().unwrap_or(default_kind)}),
        |known| known.object.clone(),
    );
    if chat["type"] == "private" {
        if let (Value::Object(chat), Value::Object(mut person)) = (&mut chat, json!(from)) {
            person.remove("id");
            person.remove("is_bot");
            chat.extend(person);
        }
        return chat;
    }
    if let Some(title) = &injection.title {
        chat["title"] = json!(title);
    } else if chat["title"].is_null() {
        chat["title"] = json!(format!("Group {}", chat_id.unsigned_abs()));
    }
    if injection.is_forum || injection.thread_id.is_some() {
        chat["is_forum"] = json!(true);
    }
    chat
}
