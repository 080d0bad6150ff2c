//! Injections into WhatsApp: messages, media, replies to buttons, and reactions of people.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{WhatsAppPlatform, settings::WhatsAppNumber};
use crate::harness::PlatformRow;

/// A person.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WhatsAppPerson {
    /// Number, digits only. `None` for a person who hides it. Default `15550177`.
    pub number: Option<String>,
    /// Business-scoped id. Default `US.77`.
    pub user_id: String,
    /// Name in the profile. Default `Ana`.
    pub name: String,
    /// Username, if the person has one.
    pub username: Option<String>,
}

impl Default for WhatsAppPerson {
    fn default() -> WhatsAppPerson {
        WhatsAppPerson {
            number: Some("15550177".to_owned()),
            user_id: "US.77".to_owned(),
            name: "Ana".to_owned(),
            username: None,
        }
    }
}

/// What a person does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum WhatsAppInjection {
    /// Writes a text.
    Message {
        /// Text.
        text: String,
        /// Who.
        #[serde(default)]
        from: WhatsAppPerson,
        /// Message that it replies to.
        #[serde(default)]
        reply_to: Option<String>,
        /// `phone_number_id`. Default: the first.
        #[serde(default)]
        number: Option<String>,
    },
    /// Sends a file.
    Media {
        /// `image`, `audio`, `video`, `document` or `sticker`.
        kind: String,
        /// The type that the sender claims.
        mime_type: String,
        /// Content in base64.
        base64: String,
        /// Text with it.
        #[serde(default)]
        caption: Option<String>,
        /// File name of a document.
        #[serde(default)]
        filename: Option<String>,
        /// Who.
        #[serde(default)]
        from: WhatsAppPerson,
        /// `phone_number_id`. Default: the first.
        #[serde(default)]
        number: Option<String>,
    },
    /// Presses a button of a message, or chooses from its list.
    Press {
        /// Message of the business.
        message_id: String,
        /// Id of the button or row.
        id: String,
        /// Who.
        #[serde(default)]
        from: WhatsAppPerson,
        /// `phone_number_id`. Default: the first.
        #[serde(default)]
        number: Option<String>,
    },
    /// Reacts to a message.
    React {
        /// Which message.
        message_id: String,
        /// Emoji.
        emoji: String,
        /// Who.
        #[serde(default)]
        from: WhatsAppPerson,
        /// `phone_number_id`. Default: the first.
        #[serde(default)]
        number: Option<String>,
    },
    /// Delivers this message object, completed by sender, id and time.
    UnverifiedRequest {
        /// Message.
        message: Value,
        /// Who.
        #[serde(default)]
        from: WhatsAppPerson,
        /// `phone_number_id`. Default: the first.
        #[serde(default)]
        number: Option<String>,
    },
}

impl WhatsAppPlatform {
    pub(super) fn act(self: &Arc<Self>, injection: WhatsAppInjection) -> Result<Value, String> {
        match injection {
            WhatsAppInjection::Message { text, from, reply_to, number } => {
                let number = self.chosen(number)?;
                let mut message = json!({"type": "text", "text": {"body": text}});
                if let Some(reply) = reply_to {
                    message["context"] = json!({"from": number.display, "id": reply});
                }
                Ok(self.receive(&number, &from, message, &text))
            }
            WhatsAppInjection::Media { kind, mime_type, base64, caption, filename, from, number } => {
                let number = self.chosen(number)?;
                let content = BASE64_STANDARD.decode(base64).map_err(|error| error.to_string())?;
                let sha256 = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &content);
                let sha256 = BASE64_STANDARD.encode(sha256.as_ref());
                let id = self.add_media(&number, &mime_type, content.into());
                let url = format!("{}/media-content/{id}?hash=secret", self.harness.base_url());
                let mut media = json!({"id": id, "mime_type": mime_type, "sha256": sha256, "url": url});
                if let Some(caption) = &caption {
                    media["caption"] = json!(caption);
                }
                if let Some(filename) = filename {
                    media["filename"] = json!(filename);
                }
                let message = json!({"type": kind, &*kind: media});
                Ok(self.receive(&number, &from, message, &caption.unwrap_or_default()))
            }
            WhatsAppInjection::Press { message_id, id, from, number } => {
                let number = self.chosen(number)?;
                let pressed =
                    self.world.lock().messages.get(&message_id).cloned().ok_or("no such message")?;
                let reply = pressed_reply(&pressed["interactive"]["action"], &id).ok_or("no such button")?;
                let message = json!({
                    "type": "interactive", "interactive": reply,
                    "context": {"from": number.display, "id": message_id},
                });
                Ok(self.receive(&number, &from, message, &id))
            }
            WhatsAppInjection::React { message_id, emoji, from, number } => {
                let number = self.chosen(number)?;
                let message =
                    json!({"type": "reaction", "reaction": {"message_id": message_id, "emoji": emoji}});
                Ok(self.receive(&number, &from, message, &emoji))
            }
            WhatsAppInjection::UnverifiedRequest { message, from, number } => {
                let number = self.chosen(number)?;
                if !message.is_object() {
                    return Err("a message is an object".to_owned());
                }
                Ok(self.receive(&number, &from, message, ""))
            }
        }
    }

    fn chosen(&self, number: Option<String>) -> Result<WhatsAppNumber, String> {
        let found = number.map_or_else(|| self.settings.numbers.first(), |id| self.number(&id));
        found.cloned().ok_or_else(|| "no such phone number".to_owned())
    }

    /// Completes a message of a person and delivers it.
    fn receive(
        self: &Arc<Self>,
        number: &WhatsAppNumber,
        from: &WhatsAppPerson,
        mut message: Value,
        text: &str,
    ) -> Value {
        let now_ms = self.harness.now_ms();
        let id = format!("wamid.person{}", self.harness.next_id());
        for (name, value) in [
            ("id", json!(id)),
            ("timestamp", json!((now_ms / 1000).to_string())),
            ("from_user_id", json!(from.user_id)),
        ] {
            if message.get(name).is_none() {
                message[name] = value;
            }
        }
        let id = message["id"].as_str().unwrap_or(&id).to_owned();
        let mut contact = json!({"profile": {"name": from.name}, "user_id": from.user_id});
        if let Some(username) = &from.username {
            contact["profile"]["username"] = json!(username);
        }
        if let Some(own) = &from.number {
            message["from"] = json!(own);
            contact["wa_id"] = json!(own);
        }
        let chat = from.number.clone().unwrap_or_else(|| from.user_id.clone());
        let mut world = self.world.lock();
        world.messages.insert(id.clone(), message.clone());
        world.last_contact.insert(from.user_id.clone(), (now_ms, contact.clone()));
        world.last_contact.insert(chat.clone(), (now_ms, contact.clone()));
        drop(world);
        let kind = message["type"].as_str().unwrap_or_default().to_owned();
        let row = PlatformRow::new(number.id.clone(), "received", kind).chat(&*chat).message(&*id).text(text);
        self.harness.record(row.raw(message.clone()));
        self.notify(number, &id, json!({"contacts": [contact], "messages": [message]}));
        json!({"message_id": id, "chat": chat})
    }
}

/// The reply that pressing a button, or choosing a row of a list, makes.
fn pressed_reply(action: &Value, id: &str) -> Option<Value> {
    let buttons = action["buttons"].as_array().into_iter().flatten();
    if let Some(button) = buttons.map(|button| &button["reply"]).find(|reply| reply["id"] == id) {
        return Some(json!({"type": "button_reply", "button_reply": button}));
    }
    let sections = action["sections"].as_array().into_iter().flatten();
    let mut rows = sections.flat_map(|section| section["rows"].as_array().into_iter().flatten());
    rows.find(|row| row["id"] == id).map(|row| json!({"type": "list_reply", "list_reply": row}))
}
