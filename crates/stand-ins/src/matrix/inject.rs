//! Injections into Matrix: rooms, invitations, messages and files of people.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::MatrixPlatform;
use crate::harness::PlatformRow;

fn ana() -> String {
    "@ana:hs.test".to_owned()
}

/// What a person does. The person is `@ana:hs.test` unless another one is named.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum MatrixInjection {
    /// Makes a room with these members, who have all joined.
    Room {
        /// Id.
        room: String,
        /// Name.
        #[serde(default)]
        name: Option<String>,
        /// User ids.
        members: Vec<String>,
        /// Whether it is encrypted.
        #[serde(default)]
        encrypted: bool,
    },
    /// Invites a user to a room.
    Invite {
        /// Room.
        room: String,
        /// Who is invited.
        user: String,
        /// Who invites.
        #[serde(default = "ana")]
        from: String,
        /// Whether it is a direct conversation.
        #[serde(default)]
        direct: bool,
    },
    /// Writes a text.
    Message {
        /// Room.
        room: String,
        /// Text.
        text: String,
        /// Who.
        #[serde(default = "ana")]
        from: String,
        /// Who is mentioned.
        #[serde(default)]
        mentions: Vec<String>,
        /// Message that it replies to.
        #[serde(default)]
        reply_to: Option<String>,
        /// First message of the thread.
        #[serde(default)]
        thread: Option<String>,
    },
    /// Sends a file.
    Media {
        /// Room.
        room: String,
        /// `m.image`, `m.audio`, `m.video` or `m.file`.
        msgtype: String,
        /// Type of the content.
        mime_type: String,
        /// Content in base64.
        base64: String,
        /// File name.
        filename: String,
        /// Text with it.
        #[serde(default)]
        caption: Option<String>,
        /// Who.
        #[serde(default = "ana")]
        from: String,
    },
    /// Adds this event to a room.
    Event {
        /// Room.
        room: String,
        /// Type.
        kind: String,
        /// Content.
        content: Value,
        /// Key of a state event.
        #[serde(default)]
        state_key: Option<String>,
        /// Who.
        #[serde(default = "ana")]
        from: String,
    },
}

impl MatrixPlatform {
    pub(super) fn act(self: &Arc<Self>, injection: MatrixInjection) -> Result<Value, String> {
        match injection {
            MatrixInjection::Room { room, name, members, encrypted } => {
                self.make_room(&room)?;
                for member in &members {
                    let shown = member.trim_start_matches('@').split(':').next().unwrap_or_default();
                    let content = json!({ "membership": "join", "displayname": shown });
                    self.add_event(&room, member, "m.room.member", Some(member), content);
                }
                let first = members.first().cloned().unwrap_or_else(ana);
                if let Some(name) = name {
                    self.add_event(&room, &first, "m.room.name", Some(""), json!({ "name": name }));
                }
                if encrypted {
                    let content = json!({ "algorithm": "m.megolm.v1.aes-sha2" });
                    self.add_event(&room, &first, "m.room.encryption", Some(""), content);
                }
                Ok(json!({ "room": room }))
            }
            MatrixInjection::Invite { room, user, from, direct } => {
                self.make_room(&room)?;
                let mut content = json!({ "membership": "invite" });
                if direct {
                    content["is_direct"] = json!(true);
                }
                let id = self.add_event(&room, &from, "m.room.member", Some(&user), content);
                Ok(json!({ "event_id": id }))
            }
            MatrixInjection::Message { room, text, from, mentions, reply_to, thread } => {
                let mut content = json!({ "msgtype": "m.text", "body": text });
                if !mentions.is_empty() {
                    content["m.mentions"] = json!({ "user_ids": mentions });
                }
                if let Some(thread) = thread {
                    content["m.relates_to"] = json!({ "rel_type": "m.thread", "event_id": thread,
                        "is_falling_back": reply_to.is_none(),
                        "m.in_reply_to": { "event_id": reply_to.as_deref().unwrap_or(&thread) } });
                } else if let Some(reply_to) = reply_to {
                    content["m.relates_to"] = json!({ "m.in_reply_to": { "event_id": reply_to } });
                }
                Ok(self.receive(&room, &from, content))
            }
            MatrixInjection::Media { room, msgtype, mime_type, base64, filename, caption, from } => {
                let content = BASE64_STANDARD.decode(base64).map_err(|error| error.to_string())?;
                let id = format!("media{}", self.harness.next_id());
                let info = json!({ "mimetype": mime_type, "size": content.len() });
                self.world.lock().media.insert(id.clone(), (mime_type, content.into()));
                let body = caption.as_deref().unwrap_or(&filename);
                let content = json!({ "msgtype": msgtype, "body": body, "filename": filename, "info": info,
                    "url": format!("mxc://hs.test/{id}") });
                Ok(self.receive(&room, &from, content))
            }
            MatrixInjection::Event { room, kind, content, state_key, from } => {
                self.make_room(&room)?;
                let id = self.add_event(&room, &from, &kind, state_key.as_deref(), content);
                Ok(json!({ "event_id": id }))
            }
        }
    }

    fn receive(self: &Arc<Self>, room: &str, from: &str, content: Value) -> Value {
        let text = content["body"].as_str().unwrap_or_default().to_owned();
        let id = self.add_event(room, from, "m.room.message", None, content);
        self.harness
            .record(PlatformRow::new(from, "received", "message").chat(room).message(&*id).text(text));
        json!({ "event_id": id })
    }
}
