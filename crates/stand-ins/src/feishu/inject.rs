//! Injections into Feishu: carries out messages, presses and recalls of people.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    FeishuPlatform,
    injection::{FeishuInjection, FeishuSharedFile},
    settings::FeishuApp,
    world::{FeishuWorld, StandInCardToken, StandInChat, StandInMessage, StandInResource},
};
use crate::harness::PlatformRow;

/// The ids of a person.
fn ids(user: &str) -> Value {
    json!({"user_id": user, "open_id": format!("ou_{user}"), "union_id": format!("on_{user}")})
}

/// The chat of a message. Creates what does not exist.
fn place(world: &mut FeishuWorld, app: &FeishuApp, user: &str, chat: Option<String>) -> String {
    let is_direct = chat.is_none();
    let number = app.id.trim_start_matches("cli_");
    let id = chat.unwrap_or_else(|| format!("oc_p2p_{number}_{user}"));
    match world.chats.get_mut(&id) {
        Some(known) if known.apps.contains(&app.id) => {}
        Some(known) => known.apps.push(app.id.clone()),
        None => {
            let name = if is_direct { String::new() } else { format!("Group {id}") };
            let apps = vec![app.id.clone()];
            world.chats.insert(id.clone(), StandInChat { name, is_direct, apps, members: Vec::new() });
        }
    }
    if let Some(chat) = world.chats.get_mut(&id).filter(|chat| chat.members.iter().all(|known| known != user))
    {
        chat.members.push(user.to_owned());
    }
    id
}

/// Message type and content of a file, which is stored.
fn file_content(
    world: &mut FeishuWorld,
    file: &FeishuSharedFile,
    number: u64,
) -> Result<(String, String), String> {
    let content = BASE64_STANDARD.decode(&file.base64).map_err(|error| error.to_string())?;
    let is_image = file.kind == "image";
    let key = format!("{}{number}", if is_image { "img_v3_" } else { "file_v3_" });
    let resource = StandInResource { mime: file.mime.clone(), content: content.into() };
    world.resources.insert(key.clone(), resource);
    let content = match file.kind.as_str() {
        "image" => json!({"image_key": key}),
        "file" | "media" => json!({"file_key": key, "file_name": file.name}),
        "audio" => json!({"file_key": key, "duration": 2000}),
        _ => return Err("the kind of a file is image, file, audio or media".to_owned()),
    };
    Ok((file.kind.clone(), content.to_string()))
}

impl FeishuPlatform {
    pub(super) fn act(self: &Arc<Self>, injection: FeishuInjection) -> Result<Value, String> {
        match injection {
            FeishuInjection::Press { message, value, user } => self.person_presses(&message, &value, &user),
            FeishuInjection::Recall { message } => {
                let (app, chat) = {
                    let mut world = self.world.lock();
                    let known = world.messages.get_mut(&message).ok_or("no such message")?;
                    known.is_recalled = true;
                    let chat = known.chat.clone();
                    let app = world.chats.get(&chat).and_then(|chat| chat.apps.first().cloned());
                    (self.settings_of(&world, app)?, chat)
                };
                let event = json!({"message_id": message, "chat_id": chat, "recall_type": "message_owner"});
                Ok(json!({"event": self.announce(&app, "im.message.recalled_v1", &event)}))
            }
            FeishuInjection::Event { event_type, event, app } => {
                let app = self.settings_of(&self.world.lock(), app)?;
                Ok(json!({"event": self.announce(&app, &event_type, &event)}))
            }
            message @ FeishuInjection::Message { .. } => self.person_writes(message),
        }
    }

    fn settings_of(&self, world: &FeishuWorld, app: Option<String>) -> Result<FeishuApp, String> {
        let found = app.map_or_else(|| world.apps.first(), |id| world.app(&id));
        found.cloned().ok_or_else(|| "no such app".to_owned())
    }

    fn person_writes(self: &Arc<Self>, injection: FeishuInjection) -> Result<Value, String> {
        let FeishuInjection::Message {
            text,
            user,
            user_name,
            chat,
            mention,
            parent,
            in_thread,
            file,
            by_app,
            app,
        } = injection
        else {
            return Err("not a message".to_owned());
        };
        let (number, now_ms) = (self.harness.next_id(), self.harness.now_ms());
        let id = format!("om_{number}");
        let mut world = self.world.lock();
        let app = self.settings_of(&world, app)?;
        let chat = place(&mut world, &app, &user, chat);
        let open_id = format!("ou_{user}");
        if let Some(name) = user_name {
            world.people.insert(open_id.clone(), name);
        } else if world.people.get(&open_id).is_none() {
            world.people.insert(open_id.clone(), user.clone());
        }
        let said = if mention { format!("@_user_1 {text}") } else { text.clone() };
        let (kind, content) = match &file {
            Some(file) => file_content(&mut world, file, number)?,
            None => ("text".to_owned(), json!({"text": said}).to_string()),
        };
        let answered = parent.as_ref().and_then(|parent| world.messages.get(parent));
        if parent.is_some() && answered.is_none() {
            return Err("no such message to answer".to_owned());
        }
        let root = parent
            .as_ref()
            .map(|parent| answered.and_then(|one| one.root.clone()).unwrap_or_else(|| parent.clone()));
        let thread = answered.and_then(|one| one.thread.clone());
        let thread = thread
            .or_else(|| root.as_ref().filter(|_| in_thread).map(|root| root.replacen("om_", "omt_", 1)));
        let is_direct = world.chats.get(&chat).is_some_and(|chat| chat.is_direct);
        let mut message = json!({
            "message_id": id, "chat_id": chat, "chat_type": if is_direct { "p2p" } else { "group" },
            "message_type": kind, "content": content, "create_time": now_ms.to_string(),
        });
        for (name, value) in [("parent_id", &parent), ("root_id", &root), ("thread_id", &thread)] {
            if let Some(value) = value {
                message[name] = json!(value);
            }
        }
        if mention {
            message["mentions"] = json!([{"key": "@_user_1", "name": app.name,
                "id": {"open_id": app.open_id(), "union_id": "on_bot", "user_id": ""},
                "tenant_key": app.tenant_key()}]);
        }
        let stored = StandInMessage {
            chat: chat.clone(),
            thread: thread.clone(),
            root,
            parent: parent.clone(),
            kind,
            content,
            app: None,
            edits: 0,
            is_recalled: false,
        };
        world.messages.insert(id.clone(), stored);
        drop(world);
        let mut row =
            PlatformRow::new(app.id.clone(), "received", "message").chat(&*chat).message(&*id).text(text);
        (row.thread_id, row.reply_to) = (thread, parent);
        self.harness.record(row);
        let kind = if by_app { "app" } else { "user" };
        let sender = json!({"sender_id": ids(&user), "sender_type": kind, "tenant_key": app.tenant_key()});
        let event = json!({"sender": sender, "message": message});
        let event = self.announce(&app, "im.message.receive_v1", &event);
        Ok(json!({"chat": chat, "message": id, "event": event}))
    }

    fn person_presses(self: &Arc<Self>, id: &str, wanted: &str, user: &str) -> Result<Value, String> {
        let token = format!("card-token-{}", self.harness.next_id());
        let (app, chat, value) = {
            let mut world = self.world.lock();
            let message = world.messages.get(id).ok_or("no such message")?;
            let (chat, app) = (message.chat.clone(), message.app.clone().ok_or("not a message of a bot")?);
            let card: Value = serde_json::from_str(&message.content).map_err(|error| error.to_string())?;
            let buttons = card["body"]["elements"].as_array().into_iter().flatten();
            let values = buttons.flat_map(|button| button["behaviors"].as_array().into_iter().flatten());
            let mut values = values.map(|behavior| behavior["value"].clone());
            let value = values.find(|value| value.to_string().contains(wanted)).ok_or("no such button")?;
            let new = StandInCardToken {
                app: app.clone(),
                message: id.to_owned(),
                at_ms: self.harness.now_ms(),
                uses: 0,
            };
            world.card_tokens.insert(token.clone(), new);
            (self.settings_of(&world, Some(app))?, chat, value)
        };
        let mut operator = ids(user);
        operator["tenant_key"] = json!(app.tenant_key());
        let event = json!({
            "operator": operator, "token": token, "action": {"value": value, "tag": "button"}, "host": "im_message",
            "context": {"open_message_id": id, "open_chat_id": chat},
        });
        self.harness.record(PlatformRow::new(app.id.clone(), "received", "press").chat(&*chat).message(id));
        let event = self.announce(&app, "card.action.trigger", &event);
        Ok(json!({"chat": chat, "token": token, "event": event}))
    }
}
