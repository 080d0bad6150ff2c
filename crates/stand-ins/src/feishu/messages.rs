//! Messages, chats, people, files and reactions of Feishu's Open API.

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::{
    CallResult, FeishuPlatform,
    settings::FeishuApp,
    world::{StandInMessage, StandInReaction, StandInResource},
};
use crate::harness::{ApiCall, PlatformRow, form, respond};

/// Edits that a message takes.
const MOST_EDITS: u32 = 20;
/// The largest contents, in bytes.
const LARGEST_TEXT: usize = 150 * 1024;
const LARGEST_RICH: usize = 30 * 1024;

const NO_MESSAGE: (i64, &str) = (230011, "The message was withdrawn.");
const NOT_IN_CHAT: (i64, &str) = (230002, "Bot/User can NOT be out of the chat.");
const BAD_PARAMETER: (i64, &str) = (230001, "Your request contains an invalid request parameter.");

/// The text that people see of a content.
pub(super) fn shown(content: &str) -> String {
    fn walk(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("text" | "content", Value::String(text)) => out.push(text.clone()),
                        _ => walk(value, out),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk(&serde_json::from_str(content).unwrap_or_default(), &mut out);
    out.join("\n")
}

/// Checks a content as Feishu does.
fn check_content(kind: &str, content: &str) -> Result<(), (i64, &'static str)> {
    let most = if kind == "text" { LARGEST_TEXT } else { LARGEST_RICH };
    if content.len() > most {
        return Err((230025, "The length of the message content reaches its limit."));
    }
    let value: Value = serde_json::from_str(content).map_err(|_| BAD_PARAMETER)?;
    let has = |name: &str| value[name].as_str().is_some_and(|text| !text.is_empty());
    let is_valid = match kind {
        "text" => has("text"),
        "image" => has("image_key"),
        "file" | "audio" | "media" => has("file_key"),
        "post" => {
            let lines = value["zh_cn"]["content"].as_array().or_else(|| value["en_us"]["content"].as_array());
            let mut elements =
                lines.into_iter().flatten().flat_map(|line| line.as_array().into_iter().flatten());
            lines.is_some_and(|lines| !lines.is_empty())
                && elements.all(|element| {
                    let tag = element["tag"].as_str().unwrap_or_default();
                    ["md", "text", "a", "at", "img", "media", "emotion", "hr", "code_block"].contains(&tag)
                })
        }
        "interactive" => value["type"] == "card" || super::cards::is_card(&value),
        _ => false,
    };
    if is_valid { Ok(()) } else { Err(BAD_PARAMETER) }
}

impl FeishuPlatform {
    pub(super) fn carry_out(self: &Arc<Self>, app: &FeishuApp, call: &ApiCall) -> CallResult {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let parts: Vec<&str> =
            call.path.strip_prefix("/open-apis").unwrap_or(&call.path).split('/').skip(1).collect();
        let at = |index: usize| parts.get(index).copied().unwrap_or_default();
        match call.subject.call.as_str() {
            "POST /im/v1/messages" => {
                let chat = body["receive_id"].as_str().unwrap_or_default().to_owned();
                self.send(app, &chat, None, &body)
            }
            "POST /im/v1/messages/{id}/reply" => {
                let chat = self.own_message(app, at(3))?;
                self.send(app, &chat, Some(at(3)), &body)
            }
            "GET /im/v1/messages" => self.list(app, call),
            "GET /im/v1/messages/{id}" => {
                self.own_message(app, at(3))?;
                let world = self.world.lock();
                let message = world.messages.get(at(3)).ok_or(NO_MESSAGE)?;
                Ok(json!({"items": [message.object(at(3))]}))
            }
            "PUT /im/v1/messages/{id}" => self.edit(app, at(3), &body),
            "PATCH /im/v1/messages/{id}" => self.patch_card(app, at(3), &body),
            "DELETE /im/v1/messages/{id}" => {
                self.change(app, at(3), |message| {
                    message.is_recalled = true;
                    Ok(())
                })?;
                self.record(app, "deleted", call, at(3), None, Value::Null);
                Ok(json!({}))
            }
            "POST /im/v1/messages/{id}/reactions" => self.react(app, at(3), &body),
            "GET /im/v1/messages/{id}/reactions" => Ok(self.reactions(at(3))),
            "DELETE /im/v1/messages/{id}/reactions/{id}" => {
                let removed =
                    self.world.lock().reactions.remove(at(5)).ok_or((231003, "no such reaction"))?;
                self.record(app, "unreacted", call, at(3), Some(removed.emoji), Value::Null);
                Ok(json!({}))
            }
            "POST /im/v1/images" | "POST /im/v1/files" => self.upload(call),
            "GET /im/v1/chats/{id}" => {
                let world = self.world.lock();
                let chat = world
                    .chats
                    .get(at(3))
                    .ok_or((232006, "Your request specifies a chat_id which is invalid."))?;
                let mode = if chat.is_direct { "p2p" } else { "group" };
                Ok(
                    json!({"name": chat.name, "chat_mode": mode, "chat_type": "private", "owner_id": "ou_u77"}),
                )
            }
            "GET /im/v1/chats/{id}/members" => self.members(app, at(3), call),
            "GET /contact/v3/users/{id}" => {
                let world = self.world.lock();
                let open_id = format!("ou_{}", at(3).trim_start_matches("ou_").trim_start_matches("on_"));
                let name = world.people.get(&open_id).ok_or((41050, "no user authority error"))?;
                Ok(json!({"user": {"name": name, "open_id": open_id}}))
            }
            _ => self.card_call(app, call, &parts, &body),
        }
    }

    /// The chat of a message that a bot can reach.
    fn own_message(&self, app: &FeishuApp, id: &str) -> Result<String, (i64, &'static str)> {
        let world = self.world.lock();
        let message = world.messages.get(id).filter(|message| !message.is_recalled).ok_or(NO_MESSAGE)?;
        if world.is_in(&app.id, &message.chat) { Ok(message.chat.clone()) } else { Err(NOT_IN_CHAT) }
    }

    fn send(&self, app: &FeishuApp, chat: &str, answered: Option<&str>, body: &Value) -> CallResult {
        let (kind, content) =
            (body["msg_type"].as_str().unwrap_or_default(), body["content"].as_str().unwrap_or_default());
        check_content(kind, content)?;
        let uuid = body["uuid"].as_str().filter(|uuid| !uuid.is_empty());
        if uuid.is_some_and(|uuid| uuid.len() > 50) {
            return Err(BAD_PARAMETER);
        }
        let key = uuid.map(|uuid| format!("{}/{uuid}", app.id));
        let id = format!("om_{}", self.harness.next_id());
        let mut world = self.world.lock();
        if let Some(known) = key.as_ref().and_then(|key| world.uuids.get(key)).cloned() {
            let message = world.messages.get(&known).ok_or(NO_MESSAGE)?;
            return Ok(message.object(&known));
        }
        if !world.is_in(&app.id, chat) {
            return Err(NOT_IN_CHAT);
        }
        let in_thread = body["reply_in_thread"] == true;
        let parent = answered.and_then(|id| world.messages.get(id));
        let root =
            answered.map(|id| parent.and_then(|one| one.root.clone()).unwrap_or_else(|| id.to_owned()));
        let known_thread = parent.and_then(|one| one.thread.clone());
        let thread = known_thread
            .or_else(|| root.as_ref().filter(|_| in_thread).map(|root| root.replacen("om_", "omt_", 1)));
        let message = StandInMessage {
            chat: chat.to_owned(),
            thread: thread.clone(),
            root,
            parent: answered.map(str::to_owned),
            kind: kind.to_owned(),
            content: content.to_owned(),
            app: Some(app.id.clone()),
            edits: 0,
            is_recalled: false,
        };
        let object = message.object(&id);
        world.messages.insert(id.clone(), message);
        if let Some(key) = key {
            world.uuids.insert(key, id.clone());
        }
        let mut text = shown(content);
        let card: Value = serde_json::from_str(content).unwrap_or_default();
        if let Some(card) = card["data"]["card_id"].as_str() {
            let entity =
                world.cards.get_mut(card).filter(|entity| entity.app == app.id && entity.message.is_none());
            // An entity is in one message only.
            let entity = entity.ok_or((230099, "Failed to create card content"))?;
            entity.message = Some(id.clone());
            text = shown(&entity.card.to_string());
        }
        drop(world);
        let call =
            if answered.is_some() { "POST /im/v1/messages/{id}/reply" } else { "POST /im/v1/messages" };
        let mut row = PlatformRow::new(app.id.clone(), "sent", call).chat(chat).message(&*id).text(text);
        row.thread_id = thread;
        row.reply_to = answered.map(str::to_owned);
        self.harness.record(row.raw(json!({"msg_type": kind, "content": card})));
        Ok(object)
    }

    /// Messages of a thread.
    /// The people in a group, one in each page. Bots are not listed.
    fn members(&self, app: &FeishuApp, chat: &str, call: &ApiCall) -> CallResult {
        let query = form::read_pairs(call.head.uri.query().unwrap_or_default().as_bytes());
        let find =
            |name: &str| query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let world = self.world.lock();
        let members = world.chats.get(chat).filter(|_| world.is_in(&app.id, chat)).map(|chat| &chat.members);
        let members = members.ok_or((232011, "Operator can NOT be out of the chat."))?;
        let at = find("page_token").map_or(Ok(0), str::parse::<usize>).map_err(|_| BAD_PARAMETER)?;
        let prefix = match find("member_id_type") {
            Some("user_id") => "",
            Some("union_id") => "on_",
            _ => "ou_",
        };
        let named = members.get(at).map(|user| json!({"member_id": format!("{prefix}{user}"), "name": user}));
        let has_more = at + 1 < members.len();
        let next = if has_more { (at + 1).to_string() } else { String::new() };
        Ok(json!({"items": named.into_iter().collect::<Vec<_>>(), "has_more": has_more, "page_token": next,
            "member_total": members.len()}))
    }

    fn list(&self, app: &FeishuApp, call: &ApiCall) -> CallResult {
        let query = form::read_pairs(call.head.uri.query().unwrap_or_default().as_bytes());
        let find =
            |name: &str| query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let thread = find("container_id").filter(|_| find("container_id_type") == Some("thread"));
        let thread = thread.ok_or(BAD_PARAMETER)?;
        let world = self.world.lock();
        let root = thread.replacen("omt_", "om_", 1);
        let message = world.messages.get(&root).filter(|message| world.is_in(&app.id, &message.chat));
        let message = message.ok_or((231203, "thread not found"))?;
        let mut object = message.object(&root);
        object["thread_id"] = json!(thread);
        Ok(json!({"items": [object], "has_more": false}))
    }

    /// Changes a message of this app.
    fn change(
        &self,
        app: &FeishuApp,
        id: &str,
        change: impl FnOnce(&mut StandInMessage) -> Result<(), (i64, &'static str)>,
    ) -> Result<(), (i64, &'static str)> {
        self.own_message(app, id)?;
        let mut world = self.world.lock();
        let message = world.messages.get_mut(id).ok_or(NO_MESSAGE)?;
        if message.app.as_deref() != Some(&app.id) {
            return Err((230071, "The operator is not the sender of the message."));
        }
        change(message)
    }

    fn edit(&self, app: &FeishuApp, id: &str, body: &Value) -> CallResult {
        let (kind, content) =
            (body["msg_type"].as_str().unwrap_or_default(), body["content"].as_str().unwrap_or_default());
        check_content(kind, content)?;
        self.change(app, id, |message| {
            if !["text", "post"].contains(&kind) || !["text", "post"].contains(&message.kind.as_str()) {
                return Err((230054, "This operation is not supported for this message type."));
            }
            if message.edits >= MOST_EDITS {
                return Err((230072, "The message has reached the number of times it can be edited."));
            }
            message.edits += 1;
            (message.kind, message.content) = (kind.to_owned(), content.to_owned());
            Ok(())
        })?;
        self.record_text(app, "edited", "PUT /im/v1/messages/{id}", id, shown(content));
        Ok(json!({}))
    }

    pub(super) fn patch_card(&self, app: &FeishuApp, id: &str, body: &Value) -> CallResult {
        let content = body["content"].as_str().unwrap_or_default();
        check_content("interactive", content)?;
        self.change(app, id, |message| {
            if message.kind != "interactive" {
                return Err((230001, "This message is NOT a card."));
            }
            message.content = content.to_owned();
            Ok(())
        })?;
        self.record_text(app, "edited", "PATCH /im/v1/messages/{id}", id, shown(content));
        Ok(json!({}))
    }

    /// Records what a bot did to a message.
    pub(super) fn record_text(
        &self,
        app: &FeishuApp,
        kind: &'static str,
        call: &'static str,
        id: &str,
        text: String,
    ) {
        let chat = self.world.lock().messages.get(id).map(|message| message.chat.clone()).unwrap_or_default();
        self.harness.record(PlatformRow::new(app.id.clone(), kind, call).chat(chat).message(id).text(text));
    }

    fn record(
        &self,
        app: &FeishuApp,
        kind: &'static str,
        call: &ApiCall,
        id: &str,
        text: Option<String>,
        raw: Value,
    ) {
        let chat = self.world.lock().messages.get(id).map(|message| message.chat.clone()).unwrap_or_default();
        let mut row =
            PlatformRow::new(app.id.clone(), kind, call.subject.call.clone()).chat(chat).message(id);
        row.text = text;
        self.harness.record(row.raw(raw));
    }

    fn react(&self, app: &FeishuApp, id: &str, body: &Value) -> CallResult {
        self.own_message(app, id)?;
        let emoji = body["reaction_type"]["emoji_type"].as_str().filter(|name| !name.is_empty());
        let emoji = emoji.ok_or((231001, "reaction type is invalid"))?.to_owned();
        let reaction = format!("reaction_{}", self.harness.next_id());
        let new = StandInReaction {
            id: reaction.clone(),
            message: id.to_owned(),
            emoji: emoji.clone(),
            app: app.id.clone(),
        };
        self.world.lock().reactions.insert(reaction.clone(), new);
        self.record_text(app, "reacted", "POST /im/v1/messages/{id}/reactions", id, emoji.clone());
        Ok(json!({"reaction_id": reaction, "reaction_type": {"emoji_type": emoji}}))
    }

    fn reactions(&self, id: &str) -> Value {
        let world = self.world.lock();
        let of_message = world.reactions.values().filter(|reaction| reaction.message == id);
        let items: Vec<Value> = of_message
            .map(|reaction| {
                json!({"reaction_id": reaction.id, "reaction_type": {"emoji_type": reaction.emoji},
                    "operator": {"operator_id": reaction.app, "operator_type": "app"}})
            })
            .collect();
        json!({"items": items, "has_more": false})
    }

    fn upload(&self, call: &ApiCall) -> CallResult {
        let parts = form::parts(&call.head.headers, &call.body).ok_or((234001, "Invalid request param."))?;
        let is_image = call.subject.call.ends_with("images");
        let wanted = if is_image { "image" } else { "file" };
        let part = parts.into_iter().find(|part| part.name == wanted);
        let part = part.ok_or((234001, "Invalid request param."))?;
        if part.content.is_empty() {
            return Err((234010, "File's size can't be 0."));
        }
        let prefix = if is_image { "img_v3_" } else { "file_v3_" };
        let key = format!("{prefix}{}", self.harness.next_id());
        let mime = part.content_type.unwrap_or_default();
        let file = StandInResource { mime, content: part.content };
        self.world.lock().resources.insert(key.clone(), file);
        Ok(json!({if is_image { "image_key" } else { "file_key" }: key}))
    }

    /// Sends a file of a message.
    pub(super) fn download(&self, call: &ApiCall) -> Response<Body> {
        let token = call.credential("Bearer").unwrap_or_default();
        let parts: Vec<&str> = call.path.split('/').collect();
        let (message, key) =
            (parts.get(5).copied().unwrap_or_default(), parts.last().copied().unwrap_or_default());
        let world = self.world.lock();
        let Some(app) = world.app_of_token(token, self.harness.now_ms()) else {
            return super::refusal(400, 99991663, "Invalid access token for authorization");
        };
        let found = world.messages.get(message).filter(|message| world.is_in(&app.id, &message.chat));
        match found.filter(|message| message.content.contains(key)).and(world.resources.get(key)) {
            Some(file) => {
                let mut response = respond(200, "", file.content.clone());
                if let Ok(kind) = file.mime.parse() {
                    response.headers_mut().insert("content-type", kind);
                }
                let disposition = http::HeaderValue::from_static("attachment");
                response.headers_mut().insert("content-disposition", disposition);
                response
            }
            None => super::refusal(400, 234003, "File not in msg."),
        }
    }
}
