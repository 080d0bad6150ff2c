//! Webhooks of WhatsApp: handshake, signed notifications, delivery states.

use std::sync::Arc;

use aws_lc_rs::hmac;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    WhatsAppPlatform,
    graph::{GraphError, GraphResult},
    send::is_scoped_id,
    settings::WhatsAppNumber,
};
use crate::harness::{ApiCall, OutgoingRequest, PlatformRow, form, json_response};

/// JSON as the platform writes it: every character outside ASCII is escaped.
fn escaped(value: &Value) -> Bytes {
    let text = value.to_string().replace('/', "\\/");
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    Bytes::from(out)
}

impl WhatsAppPlatform {
    /// Stores the URL, and verifies a new one.
    pub(super) fn set_webhook(self: &Arc<Self>, url: Option<String>) {
        self.world.lock().webhook.clone_from(&url);
        let (Some(url), Some(number)) = (url, self.settings.numbers.first().cloned()) else { return };
        let platform = self.clone();
        self.harness.spawn(async move {
            platform.verify_url(&number, &url, &number.verify_token).await;
        });
    }

    /// The URL for events of a number: its own, or that of the app.
    fn webhook_of(&self, number: &WhatsAppNumber) -> Option<String> {
        let world = self.world.lock();
        world.overrides.get(&number.id).cloned().or_else(|| world.webhook.clone())
    }

    /// Sets the webhook of a number, after the URL has echoed a challenge. An empty URL removes it.
    pub(super) async fn configure(self: &Arc<Self>, call: &ApiCall) -> GraphResult {
        let id = call.path.split('/').nth(2).unwrap_or_default();
        let number = self.own_number(self.caller(call)?, id)?.clone();
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let wanted = &body["webhook_configuration"];
        let url = wanted["override_callback_uri"]
            .as_str()
            .ok_or_else(|| GraphError::parameter("The parameter webhook_configuration is required."))?;
        if url.is_empty() {
            self.world.lock().overrides.remove(&number.id);
            return Ok(json_response(200, &json!({"success": true})));
        }
        let token = wanted["verify_token"].as_str().unwrap_or_default();
        if !self.verify_url(&number, url, token).await {
            let message = "Callback verification failed: the URL did not echo the challenge";
            return Err(GraphError::new(400, 2200, "OAuthException", message));
        }
        self.world.lock().overrides.insert(number.id, url.to_owned());
        Ok(json_response(200, &json!({"success": true})))
    }

    /// Whether a URL echoes a challenge.
    async fn verify_url(&self, number: &WhatsAppNumber, url: &str, token: &str) -> bool {
        let challenge = format!("{}", 1_158_201_444 + self.harness.next_id());
        let query = form::write_pairs(&[
            ("hub.mode".to_owned(), "subscribe".to_owned()),
            ("hub.challenge".to_owned(), challenge.clone()),
            ("hub.verify_token".to_owned(), token.to_owned()),
        ]);
        let request = OutgoingRequest {
            method: http::Method::GET,
            url: format!("{url}?{query}"),
            headers: Vec::new(),
            body: Bytes::new(),
        };
        let answer = self.harness.attempt(&number.id, "verification", 1, request).await;
        let echoes = answer.is_ok_and(|answer| answer.status == 200 && answer.body == challenge.as_bytes());
        let kind = if echoes { "webhook_verified" } else { "webhook_refused" };
        self.harness.record(PlatformRow::new(number.id.clone(), kind, "verification"));
        echoes
    }

    /// Delivers one value of the field `messages`.
    pub(super) fn notify(self: &Arc<Self>, number: &WhatsAppNumber, event: &str, mut value: Value) {
        value["messaging_product"] = json!("whatsapp");
        value["metadata"] = json!({"display_phone_number": number.display, "phone_number_id": number.id});
        let body = escaped(&json!({
            "object": "whatsapp_business_account",
            "entry": [{"id": number.account_id, "changes": [{"value": value, "field": "messages"}]}],
        }));
        let make = || {
            let (platform, number, event, body) =
                (self.clone(), number.clone(), event.to_owned(), body.clone());
            async move {
                let Some(url) = platform.webhook_of(&number) else { return };
                let key = hmac::Key::new(hmac::HMAC_SHA256, number.app_secret.as_bytes());
                let signature = format!("sha256={}", hex::encode(hmac::sign(&key, &body).as_ref()));
                let build = |_, _: Option<&Result<_, String>>| OutgoingRequest {
                    method: http::Method::POST,
                    url: url.clone(),
                    headers: vec![
                        ("content-type", "application/json".to_owned()),
                        ("user-agent", "facebookexternalua".to_owned()),
                        ("x-hub-signature-256", signature.clone()),
                    ],
                    body: body.clone(),
                };
                let answer =
                    platform.harness.deliver(&number.id, &event, build, |answer| answer.status == 200).await;
                let kind = if answer.is_some() { "acknowledged" } else { "unacknowledged" };
                platform.harness.record(PlatformRow::new(number.id, kind, "messages").message(event));
            }
        };
        self.harness.dispatch(&number.id, make);
    }

    /// Sends the delivery states of a message of the business.
    pub(super) fn tell_states(
        self: &Arc<Self>,
        number: &WhatsAppNumber,
        id: &str,
        person: &str,
        is_lost: bool,
    ) {
        let contact = self.world.lock().last_contact.get(person).map(|(_, contact)| contact.clone());
        let contacts = contact.map_or_else(|| json!([]), |contact| json!([contact]));
        let states: &[&str] = if is_lost { &["failed"] } else { &["sent", "delivered"] };
        for state in states {
            let mut status = json!({
                "id": id, "status": state, "timestamp": (self.harness.now_ms() / 1000).to_string(),
                "conversation": {"id": "conversation", "origin": {"type": "service"}},
                "pricing": {"billable": false, "pricing_model": "PMP", "category": "service", "type": "free_customer_service"},
            });
            let name = if is_scoped_id(person) { "recipient_user_id" } else { "recipient_id" };
            status[name] = json!(person);
            if is_lost {
                status["errors"] = json!([{
                    "code": 131_026, "title": "Message undeliverable", "message": "Message undeliverable",
                    "error_data": {"details": "Message Undeliverable."},
                }]);
            }
            self.notify(
                number,
                &format!("{id}/{state}"),
                json!({"contacts": contacts, "statuses": [status]}),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_outside_ascii_are_escaped_and_mean_the_same() {
        let value = json!({"text": "é 🦉 \"/\\"});
        let written = escaped(&value);
        assert!(written.is_ascii());
        assert!(String::from_utf8_lossy(&written).contains("\\u00e9 \\ud83e\\udd89"));
        assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), value);
    }
}
