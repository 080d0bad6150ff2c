//! Cards of Feishu: card entities whose text grows, and cards that are replaced with the token of a press.

use http::Method;
use serde_json::{Value, json};

use super::{CallResult, FeishuPlatform, messages::shown, settings::FeishuApp, world::StandInCard};
use crate::harness::ApiCall;

/// Lifetime of the token of a press, and how often it can be used.
const TOKEN_MS: i64 = 30 * 60 * 1000;
const TOKEN_USES: u32 = 2;
/// The largest card, in bytes.
const LARGEST: usize = 30 * 1024;
const NO_CARD: (i64, &str) = (300305, "card id not exists");
const BAD_CARD: (i64, &str) = (200621, "parse card json err");
const BAD_TOKEN: (i64, &str) = (300020, "the token is invalid, expired or used up");

/// Whether this is a card of schema 2.0 whose elements are known.
pub(super) fn is_card(card: &Value) -> bool {
    let elements = card["body"]["elements"].as_array();
    card["schema"] == "2.0"
        && elements.is_some_and(|elements| {
            !elements.is_empty()
                && elements.iter().all(|element| match element["tag"].as_str().unwrap_or_default() {
                    "markdown" => element["content"].is_string(),
                    "button" => element["text"]["content"].is_string() && element["behaviors"].is_array(),
                    "img" | "hr" | "div" | "column_set" => true,
                    _ => false,
                })
        })
}

fn read_card(data: &Value) -> Result<Value, (i64, &'static str)> {
    let data = data.as_str().ok_or(BAD_CARD)?;
    if data.len() > LARGEST {
        return Err((200860, "card over max size"));
    }
    let card: Value = serde_json::from_str(data).map_err(|_| BAD_CARD)?;
    if is_card(&card) { Ok(card) } else { Err(BAD_CARD) }
}

impl FeishuPlatform {
    pub(super) fn card_call(
        &self,
        app: &FeishuApp,
        call: &ApiCall,
        parts: &[&str],
        body: &Value,
    ) -> CallResult {
        match (&call.head.method, parts) {
            (&Method::POST, ["cardkit", "v1", "cards"]) => {
                let card = read_card(&body["data"])
                    .and_then(|card| if body["type"] == "card_json" { Ok(card) } else { Err(BAD_CARD) })?;
                let id = format!("7{:015}", self.harness.next_id());
                let new = StandInCard { app: app.id.clone(), card, sequence: 0, message: None };
                self.world.lock().cards.insert(id.clone(), new);
                Ok(json!({"card_id": id}))
            }
            (&Method::POST, ["cardkit", "v1", "cards", "id_convert"]) => self.convert(app, body),
            (&Method::PUT, ["cardkit", "v1", "cards", id]) => {
                let card = read_card(&body["card"]["data"])?;
                let text = shown(&card.to_string());
                let message = self.change_card(app, id, body, |entity| {
                    entity.card = card;
                    Ok(())
                })?;
                self.record_card(app, "PUT /cardkit/v1/cards/{id}", message, text);
                Ok(json!({}))
            }
            (&Method::PUT, ["cardkit", "v1", "cards", id, "elements", element, "content"]) => {
                let text = body["content"].as_str().filter(|text| !text.is_empty()).ok_or(BAD_CARD)?;
                let message = self.change_card(app, id, body, |entity| {
                    if entity.card["config"]["streaming_mode"] != true {
                        return Err((300309, "streaming mode is closed"));
                    }
                    let elements = entity.card["body"]["elements"].as_array_mut();
                    let found = elements.into_iter().flatten().find(|known| known["element_id"] == **element);
                    found.ok_or((300313, "element id not exists"))?["content"] = json!(text);
                    Ok(())
                })?;
                let call = "PUT /cardkit/v1/cards/{id}/elements/{id}/content";
                self.record_card(app, call, message, text.to_owned());
                Ok(json!({}))
            }
            (&Method::PATCH, ["cardkit", "v1", "cards", id, "settings"]) => {
                let settings: Value = serde_json::from_str(body["settings"].as_str().unwrap_or_default())
                    .map_err(|_| BAD_CARD)?;
                let message = self.change_card(app, id, body, |entity| {
                    entity.card["config"]["streaming_mode"] = settings["config"]["streaming_mode"].clone();
                    Ok(())
                })?;
                if let Some(message) = message {
                    let call = "PATCH /cardkit/v1/cards/{id}/settings";
                    self.record_text(app, "stream_ended", call, &message, settings.to_string());
                }
                Ok(json!({}))
            }
            (&Method::POST, ["interactive", "v1", "card", "update"]) => self.update_by_token(app, body),
            _ => Err((99992402, "field validation failed")),
        }
    }

    /// Changes an entity of this app. Every change has a greater number than the one before.
    fn change_card(
        &self,
        app: &FeishuApp,
        id: &str,
        body: &Value,
        change: impl FnOnce(&mut StandInCard) -> Result<(), (i64, &'static str)>,
    ) -> Result<Option<String>, (i64, &'static str)> {
        let mut world = self.world.lock();
        let entity = world.cards.get_mut(id).filter(|entity| entity.app == app.id).ok_or(NO_CARD)?;
        let sequence = body["sequence"].as_i64().filter(|number| i32::try_from(*number).is_ok());
        let sequence = sequence.ok_or(BAD_CARD)?;
        if sequence <= entity.sequence {
            return Err((300317, "sequence number compare failed"));
        }
        change(entity)?;
        entity.sequence = sequence;
        Ok(entity.message.clone())
    }

    fn record_card(&self, app: &FeishuApp, call: &'static str, message: Option<String>, text: String) {
        if let Some(message) = message {
            self.record_text(app, "edited", call, &message, text);
        }
    }

    /// The entity of a message with a card.
    fn convert(&self, app: &FeishuApp, body: &Value) -> CallResult {
        let id = body["message_id"].as_str().unwrap_or_default();
        let mut world = self.world.lock();
        let message = world.messages.get(id).filter(|message| message.app.as_deref() == Some(&app.id));
        let message = message.filter(|message| message.kind == "interactive");
        let content: Value = serde_json::from_str(&message.ok_or(NO_CARD)?.content).map_err(|_| BAD_CARD)?;
        if let Some(card) = content["data"]["card_id"].as_str() {
            return Ok(json!({"card_id": card}));
        }
        let card = format!("7{:015}", self.harness.next_id());
        let new =
            StandInCard { app: app.id.clone(), card: content, sequence: 0, message: Some(id.to_owned()) };
        world.cards.insert(card.clone(), new);
        Ok(json!({"card_id": card}))
    }

    fn update_by_token(&self, app: &FeishuApp, body: &Value) -> CallResult {
        if !is_card(&body["card"]) {
            return Err(BAD_CARD);
        }
        let now_ms = self.harness.now_ms();
        let message = {
            let mut world = self.world.lock();
            let token = world.card_tokens.get_mut(body["token"].as_str().unwrap_or_default());
            let token = token.filter(|token| token.app == app.id).ok_or(BAD_TOKEN)?;
            if token.uses >= TOKEN_USES || now_ms - token.at_ms >= TOKEN_MS {
                return Err(BAD_TOKEN);
            }
            token.uses += 1;
            let id = token.message.clone();
            if let Some(message) = world.messages.get_mut(&id) {
                message.content = body["card"].to_string();
            }
            id
        };
        let text = shown(&body["card"].to_string());
        self.record_text(app, "followed_up", "POST /interactive/v1/card/update", &message, text);
        Ok(json!({}))
    }
}
