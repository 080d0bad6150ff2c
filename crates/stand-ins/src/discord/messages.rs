//! Messages of Discord: validation, the message object, and the events about it.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use super::{
    errors::RestError,
    settings::Settings,
    world::{DiscordWorld, StandInFile, timestamp},
};
use crate::harness::form;

/// The most characters of a message.
const MOST_TEXT: usize = 2000;
/// A message that only one person sees.
pub(super) const EPHEMERAL: u64 = 1 << 6;

/// The body of a call that writes a message.
pub(super) struct MessageBody {
    pub fields: Value,
    pub files: Vec<NewFile>,
}

/// A file of a new message.
pub(super) struct NewFile {
    pub name: String,
    pub content_type: String,
    pub content: Bytes,
}

impl MessageBody {
    /// Reads JSON, or a form with `payload_json` and files.
    pub fn read(headers: &HeaderMap, body: &Bytes, settings: &Settings) -> Result<MessageBody, RestError> {
        let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("multipart/form-data") {
            let fields = serde_json::from_slice(body).map_err(|_| RestError::not_json())?;
            return Ok(MessageBody { fields, files: Vec::new() });
        }
        let mut read = MessageBody { fields: json!({}), files: Vec::new() };
        for part in form::parts(headers, body).ok_or_else(RestError::not_json)? {
            match part.file_name {
                Some(name) if part.content.len() <= settings.most_file_bytes => read.files.push(NewFile {
                    name,
                    content_type: part.content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
                    content: part.content,
                }),
                Some(_) => return Err(RestError::new(413, 40005, "Request entity too large")),
                None if part.name == "payload_json" => {
                    read.fields = serde_json::from_slice(&part.content).map_err(|_| RestError::not_json())?;
                }
                None => {
                    read.fields[part.name] = String::from_utf8_lossy(&part.content).into_owned().into();
                }
            }
        }
        if read.files.len() > 10 {
            return Err(RestError::field(
                &["files"],
                "BASE_TYPE_MAX_LENGTH",
                "Must be 10 or fewer in length.",
            ));
        }
        Ok(read)
    }

    pub fn text(&self) -> &str {
        self.fields["content"].as_str().unwrap_or_default()
    }

    /// The fields for the transcript, with the names and sizes of files.
    pub fn described(&self) -> Value {
        let mut fields = self.fields.clone();
        if !self.files.is_empty() {
            let file = |file: &NewFile| json!({"filename": file.name, "size": file.content.len()});
            fields["files"] = self.files.iter().map(file).collect();
        }
        fields
    }

    /// Checks lengths and parts of a message.
    pub fn check(&self, is_new: bool) -> Result<(), RestError> {
        if !self.fields.is_object() {
            return Err(RestError::not_json());
        }
        if self.text().chars().count() > MOST_TEXT {
            return Err(RestError::too_long(&["content"], MOST_TEXT));
        }
        let list = |name: &str| self.fields[name].as_array().map_or(0, Vec::len);
        let is_empty = self.text().trim().is_empty()
            && list("embeds") + list("components") + list("sticker_ids") + self.files.len() == 0
            && self.fields["poll"].is_null();
        if is_new && is_empty {
            return Err(RestError::new(400, 50006, "Cannot send an empty message"));
        }
        check_embeds(&self.fields["embeds"])?;
        check_components(&self.fields["components"])?;
        let nonce = self.fields["nonce"].as_str().unwrap_or_default();
        if nonce.chars().count() > 25 {
            return Err(RestError::too_long(&["nonce"], 25));
        }
        Ok(())
    }
}

fn check_embeds(embeds: &Value) -> Result<(), RestError> {
    let Some(embeds) = embeds.as_array() else { return Ok(()) };
    let length = |value: &Value| value.as_str().map_or(0, |text| text.chars().count());
    let total: usize = embeds
        .iter()
        .map(|embed| {
            length(&embed["title"]) + length(&embed["description"]) + length(&embed["footer"]["text"])
        })
        .sum();
    if embeds.len() > 10 || total > 6000 {
        return Err(RestError::field(
            &["embeds"],
            "MAX_EMBED_SIZE_EXCEEDED",
            "Embed size exceeds maximum size of 6000",
        ));
    }
    Ok(())
}

/// Rows of buttons and selects: at most five rows of five buttons, ids of at most 100 characters.
fn check_components(components: &Value) -> Result<(), RestError> {
    let Some(rows) = components.as_array() else { return Ok(()) };
    let wrong = |message: &str| RestError::field(&["components"], "BASE_TYPE_BAD_LENGTH", message);
    if rows.len() > 5 {
        return Err(wrong("Must be between 1 and 5 in length."));
    }
    let mut seen = std::collections::HashSet::new();
    for component in buttons(rows) {
        let text = |name: &str| component[name].as_str().unwrap_or_default().chars().count();
        if text("custom_id") > 100 {
            return Err(RestError::too_long(&["components", "0", "components", "0", "custom_id"], 100));
        }
        if text("label") > 80 {
            return Err(RestError::too_long(&["components", "0", "components", "0", "label"], 80));
        }
        if let Some(id) = component["custom_id"].as_str()
            && !seen.insert(id)
        {
            let message = "Component custom id cannot be duplicated";
            return Err(RestError::field(&["components"], "COMPONENT_CUSTOM_ID_DUPLICATED", message));
        }
    }
    let most = rows.iter().filter_map(|row| row["components"].as_array().map(Vec::len)).max();
    if most.is_some_and(|most| most > 5) {
        return Err(wrong("Must be between 1 and 5 in length."));
    }
    Ok(())
}

/// Buttons and selects of rows.
pub(super) fn buttons(rows: &[Value]) -> impl Iterator<Item = &Value> {
    rows.iter().flat_map(|row| row["components"].as_array().into_iter().flatten())
}

/// Who writes a message, and how.
#[derive(Clone, Copy)]
pub(super) struct Authorship<'a> {
    pub channel: &'a str,
    pub author: &'a str,
    /// Type of the message: 0 default, 19 reply, 20 answer to a command.
    pub kind: u8,
    pub now_ms: i64,
    pub base_url: &'a str,
}

impl DiscordWorld {
    /// Stores a message and returns its object. The caller has checked the body and the permissions.
    pub(super) fn write(&mut self, by: Authorship<'_>, body: &MessageBody, id: Option<String>) -> Value {
        let id = id.unwrap_or_else(|| self.snowflake(by.now_ms));
        let attachments: Vec<Value> = body.files.iter().map(|file| self.attach(by, file)).collect();
        let text = body.text();
        let mut message = json!({
            "id": id, "channel_id": by.channel, "author": self.user(by.author), "content": text,
            "timestamp": timestamp(by.now_ms), "edited_timestamp": null, "tts": false,
            "mention_everyone": allows(&body.fields, "everyone") && text.contains("@everyone"),
            "mentions": self.mentions(text, &body.fields), "mention_roles": [], "attachments": attachments,
            "embeds": list(&body.fields["embeds"]), "components": list(&body.fields["components"]),
            "pinned": false, "type": by.kind, "flags": body.fields["flags"].as_u64().unwrap_or(0),
        });
        if let Some(nonce) = body.fields.get("nonce") {
            message["nonce"] = nonce.clone();
        }
        let referenced = id_of(&body.fields["message_reference"]["message_id"]);
        if let Some(original) = referenced.and_then(|id| self.messages.get(&id)).cloned() {
            let guild = self.channels.get(by.channel).and_then(|channel| channel.guild_id.clone());
            message["type"] = json!(19);
            message["message_reference"] = json!({
                "type": 0, "message_id": original["id"], "channel_id": original["channel_id"],
            });
            if let Some(guild) = guild {
                message["message_reference"]["guild_id"] = json!(guild);
            }
            message["referenced_message"] = original;
        }
        if let Some(channel) = self.channels.get_mut(by.channel) {
            channel.last_message_id = Some(id.clone());
        }
        self.messages.insert(id, message.clone());
        message
    }

    fn attach(&mut self, by: Authorship<'_>, file: &NewFile) -> Value {
        let id = self.snowflake(by.now_ms);
        let expires = by.now_ms / 1000 + 86_400;
        let signature = format!("ex={expires:x}&is={:x}&hm={id}", by.now_ms / 1000);
        let url = format!("{}/attachments/{}/{id}/{}?{signature}", by.base_url, by.channel, file.name);
        let (content, content_type) = (file.content.clone(), file.content_type.clone());
        self.files.insert(id.clone(), StandInFile { content, content_type, signature });
        json!({
            "id": id, "filename": file.name, "size": file.content.len(), "content_type": file.content_type,
            "url": url, "proxy_url": url,
        })
    }

    /// The people that a text mentions, if the message allows it.
    fn mentions(&self, text: &str, fields: &Value) -> Vec<Value> {
        let listed = fields["allowed_mentions"]["users"].as_array();
        let mut found: Vec<Value> = Vec::new();
        for start in text.split("<@").skip(1) {
            let id = start.trim_start_matches('!').split('>').next().unwrap_or_default();
            let allowed = allows(fields, "users")
                || listed.is_some_and(|users| users.iter().any(|user| id_of(user).as_deref() == Some(id)));
            if allowed && self.knows(id) && !found.iter().any(|user| user["id"] == id) {
                found.push(self.user(id));
            }
        }
        found
    }

    /// Tells every bot that sees the channel about a message.
    pub(super) fn announce_message(&mut self, event: &str, message: &Value) -> usize {
        let Some(channel) = message["channel_id"].as_str().and_then(|id| self.channels.get(id)) else {
            return 0;
        };
        let guild = channel.guild_id.clone();
        let mut payload = message.clone();
        if let Some(id) = &guild {
            payload["guild_id"] = json!(id);
            let author = message["author"]["id"].as_str().unwrap_or_default();
            let found = self.guilds.get(id).and_then(|guild| Some((guild, guild.members.get(author)?)));
            if let Some((guild, member)) = found {
                payload["member"] = guild.partial_member(member);
            }
        }
        let bots = self.bots_in(message["channel_id"].as_str().unwrap_or_default());
        bots.into_iter().map(|bot| self.dispatch(&bot, event, guild.as_deref(), &payload)).sum()
    }
}

/// An id. The platform also takes numbers, and some clients send them.
pub(super) fn id_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|id| id.to_string()))
}

fn list(value: &Value) -> Value {
    if value.is_array() { value.clone() } else { json!([]) }
}

/// Whether a message may mention this kind. Without `allowed_mentions` it may.
fn allows(fields: &Value, kind: &str) -> bool {
    match fields["allowed_mentions"]["parse"].as_array() {
        Some(kinds) => kinds.iter().any(|allowed| allowed == kind),
        None => !fields["allowed_mentions"].is_object(),
    }
}
