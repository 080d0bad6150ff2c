//! Messages of a business on WhatsApp: checks, the 24-hour window, delivery states.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    WhatsAppPlatform,
    graph::{GraphError, GraphResult},
    settings::WhatsAppNumber,
};
use crate::harness::{ApiCall, PlatformRow, json_response};

/// Free texts are possible for this long after a person wrote.
const WINDOW_MS: i64 = 24 * 60 * 60 * 1000;

/// Whether this is a business-scoped user id: country, dot, letters and digits.
pub(super) fn is_scoped_id(id: &str) -> bool {
    let Some((country, rest)) = id.split_once('.') else { return false };
    country.len() == 2
        && country.bytes().all(|byte| byte.is_ascii_uppercase())
        && (1..=128).contains(&rest.len())
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl WhatsAppPlatform {
    pub(super) fn post_message(self: &Arc<Self>, number: &WhatsAppNumber, call: &ApiCall) -> GraphResult {
        let body: Value =
            serde_json::from_slice(&call.body).map_err(|_| GraphError::parameter("The body is not JSON"))?;
        if body["messaging_product"] != "whatsapp" {
            return Err(GraphError::parameter("The parameter messaging_product is required."));
        }
        if body["status"] == "read" {
            return self.mark_read(number, &body);
        }
        let to = body["to"].as_str().map(|to| to.trim_start_matches('+').to_owned());
        let person = to.clone().or_else(|| body["recipient"].as_str().map(str::to_owned));
        let person = person.ok_or_else(|| GraphError::parameter("The parameter to is required."))?;
        if to.is_none() && !is_scoped_id(&person) {
            return Err(GraphError::parameter("Param recipient must be a business-scoped user id"));
        }
        let text = check(&body)?;
        self.check_media(number, &body)?;
        self.limit(number, &person)?;
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        let is_open = world.last_contact.get(&person).is_some_and(|(last, _)| now_ms - last < WINDOW_MS);
        if !is_open && body["type"] != "template" {
            let details = "Message failed to send because more than 24 hours have passed since the customer last \
                replied to this number.";
            return Err(GraphError::of_message(400, 131_047, "Re-engagement message", details));
        }
        if let Some(reply) = body["context"]["message_id"].as_str()
            && world.messages.get(reply).is_none()
        {
            return Err(GraphError::of_message(
                400,
                131_009,
                "Parameter value is not valid",
                "unknown context",
            ));
        }
        let id = format!("wamid.standin{}", self.harness.next_id());
        world.messages.insert(id.clone(), body.clone());
        drop(world);
        let kind = if body["type"] == "reaction" { "reaction" } else { "sent" };
        let mut row = PlatformRow::new(number.id.clone(), kind, "POST messages")
            .chat(&*person)
            .message(&*id)
            .text(text);
        row.reply_to = body["context"]["message_id"].as_str().map(str::to_owned);
        self.harness.record(row.raw(body.clone()));
        // As on WhatsApp, an id in place of a number is accepted, but the message is lost.
        let is_lost = to.as_deref().is_some_and(is_scoped_id);
        self.tell_states(number, &id, &person, is_lost);
        let contact = if is_scoped_id(&person) {
            json!({"input": person, "user_id": person})
        } else {
            json!({"input": person, "wa_id": person})
        };
        let answer =
            json!({"messaging_product": "whatsapp", "contacts": [contact], "messages": [{"id": id}]});
        Ok(json_response(200, &answer))
    }

    fn mark_read(&self, number: &WhatsAppNumber, body: &Value) -> GraphResult {
        let id = body["message_id"].as_str().unwrap_or_default();
        let message = self.world.lock().messages.get(id).cloned();
        let message = message.ok_or_else(|| GraphError::parameter("Invalid message_id"))?;
        let kind = if body["typing_indicator"]["type"] == "text" { "typing" } else { "read" };
        let from = message["from"].as_str().or_else(|| message["from_user_id"].as_str()).unwrap_or_default();
        let row = PlatformRow::new(number.id.clone(), kind, "POST messages").chat(from).message(id);
        self.harness.record(row.raw(body.clone()));
        Ok(json_response(200, &json!({"success": true})))
    }

    /// Media of a message must exist.
    fn check_media(&self, number: &WhatsAppNumber, body: &Value) -> Result<(), GraphError> {
        let kind = body["type"].as_str().unwrap_or("text");
        if !matches!(kind, "image" | "audio" | "video" | "document" | "sticker") {
            return Ok(());
        }
        let world = self.world.lock();
        let known = |id: &str| world.media.get(id).is_some_and(|media| media.number == number.id);
        match (body[kind]["id"].as_str(), body[kind]["link"].as_str()) {
            (Some(id), None) if known(id) => Ok(()),
            (Some(id), None) => Err(GraphError::unknown_object(id)),
            (None, Some(_)) => Ok(()),
            _ => Err(GraphError::parameter("Either id or link is required")),
        }
    }

    fn limit(&self, number: &WhatsAppNumber, person: &str) -> Result<(), GraphError> {
        let Some(limits) = self.settings.limits else { return Ok(()) };
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        if world.windows.len() > 10_000 {
            world.windows.clear();
        }
        let all = world.windows.entry(number.id.clone()).or_default();
        all.admit(limits.per_number_per_second, 1_000, now_ms).map_err(|_| GraphError::too_many(true))?;
        let pair = world.windows.entry(format!("{}/{person}", number.id)).or_default();
        pair.admit(limits.per_person_per_6_seconds, 6_000, now_ms)
            .map_err(|_| GraphError::too_many(false))?;
        Ok(())
    }
}

/// Checks the content of a message and returns its text.
fn check(body: &Value) -> Result<String, GraphError> {
    let too_long = |what: &str, most: usize| {
        GraphError::parameter(&format!("Param {what} must be at most {most} characters long."))
    };
    let within = |value: &Value, what: &str, most: usize| match value.as_str() {
        Some(text) if text.chars().count() > most => Err(too_long(what, most)),
        text => Ok(text.unwrap_or_default().to_owned()),
    };
    match body["type"].as_str().unwrap_or("text") {
        "text" => {
            let text = within(&body["text"]["body"], "text['body']", 4096)?;
            if text.trim().is_empty() {
                Err(GraphError::parameter("The parameter text['body'] is required."))
            } else {
                Ok(text)
            }
        }
        kind @ ("image" | "video" | "document") => within(&body[kind]["caption"], "caption", 1024),
        "interactive" => {
            let interactive = &body["interactive"];
            let text = within(&interactive["body"]["text"], "interactive['body']['text']", 1024)?;
            let buttons = interactive["action"]["buttons"].as_array().cloned().unwrap_or_default();
            if interactive["type"] == "button" && !(1..=3).contains(&buttons.len()) {
                return Err(GraphError::parameter(
                    "Invalid buttons count. Min allowed buttons: 1, Max allowed buttons: 3",
                ));
            }
            for button in &buttons {
                within(&button["reply"]["title"], "button title", 20)?;
                within(&button["reply"]["id"], "button id", 256)?;
            }
            Ok(text)
        }
        "reaction" => Ok(body["reaction"]["emoji"].as_str().unwrap_or_default().to_owned()),
        "audio" | "sticker" | "location" | "contacts" | "template" => Ok(String::new()),
        _ => Err(GraphError::parameter("Param type must be one of the known types")),
    }
}
