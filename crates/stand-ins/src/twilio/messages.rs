//! Messages and media of Twilio's REST API.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response};
use serde_json::{Value, json};

use super::{TwilioAccount, TwilioError, TwilioMedia, TwilioPlatform};
use crate::harness::{ApiCall, PlatformRow, form, json_response, respond};

/// The most characters of a message.
const MOST_TEXT: usize = 1600;

/// A form, with its first value of each name.
struct MessageForm(Vec<(String, String)>);

impl MessageForm {
    fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

/// Whether this is a number, or the address of a person who hides it.
fn is_recipient(to: &str) -> bool {
    let is_number = |text: &str| {
        text.strip_prefix('+').is_some_and(|digits| {
            (7..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    match to.strip_prefix("whatsapp:") {
        Some(rest) => is_number(rest) || rest.split_once('.').is_some_and(|(country, _)| country.len() == 2),
        None => is_number(to),
    }
}

impl TwilioPlatform {
    pub(super) fn new_sid(&self, prefix: &str) -> String {
        format!("{prefix}{:032x}", self.harness.next_id())
    }

    /// An RFC 2822 date, as the API writes it.
    fn date(&self) -> String {
        let at = jiff::Timestamp::from_millisecond(self.harness.now_ms()).unwrap_or_default();
        at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
    }

    pub(super) fn resource(&self, account: &TwilioAccount, sid: &str, fields: &Value) -> Value {
        let mut resource = json!({
            "sid": sid, "account_sid": account.sid, "api_version": "2010-04-01", "date_created": self.date(),
            "date_updated": self.date(), "date_sent": null, "error_code": null, "error_message": null,
            "messaging_service_sid": null, "num_segments": "1", "price": null, "price_unit": "USD",
            "uri": format!("/2010-04-01/Accounts/{}/Messages/{sid}.json", account.sid),
            "subresource_uris": {"media": format!("/2010-04-01/Accounts/{}/Messages/{sid}/Media.json", account.sid)},
        });
        for (name, value) in fields.as_object().into_iter().flatten() {
            resource[name] = value.clone();
        }
        resource
    }

    pub(super) fn send(
        self: &Arc<Self>,
        account: &TwilioAccount,
        call: &ApiCall,
    ) -> Result<Response<Body>, TwilioError> {
        let wanted = MessageForm(form::read_pairs(&call.body));
        let (to, from, text) = (wanted.text("To"), wanted.text("From"), wanted.text("Body"));
        let media: Vec<&str> =
            wanted.0.iter().filter(|(name, _)| name == "MediaUrl").map(|(_, url)| url.as_str()).collect();
        let service = wanted.text("MessagingServiceSid");
        if to.is_empty() {
            return Err(TwilioError::new(400, 21_604, "A 'To' phone number is required."));
        }
        if !is_recipient(to) {
            return Err(TwilioError::new(400, 21_211, format!("Invalid 'To' Phone Number: {to}")));
        }
        if from.is_empty() && service.is_empty() {
            return Err(TwilioError::new(400, 21_603, "A 'From' phone number is required."));
        }
        if service.is_empty() && !account.owns(from) {
            let message = format!("The 'From' phone number {from} is not a valid, SMS-capable Twilio number");
            return Err(TwilioError::new(400, 21_606, message));
        }
        if text.is_empty() && media.is_empty() {
            return Err(TwilioError::new(
                400,
                21_619,
                "A text message body or media urls must be specified.",
            ));
        }
        if text.chars().count() > MOST_TEXT {
            let message = format!("The concatenated message body exceeds the {MOST_TEXT} character limit");
            return Err(TwilioError::new(400, 21_617, message));
        }
        self.limit(account)?;
        if self.world.lock().opted_out.get(to).is_some() {
            return Err(TwilioError::new(400, 21_610, "Attempt to send to unsubscribed recipient"));
        }
        let sid = self.new_sid(if media.is_empty() { "SM" } else { "MM" });
        let message = self.resource(
            account,
            &sid,
            &json!({
                "to": to, "from": if from.is_empty() { Value::Null } else { json!(from) }, "body": text,
                "status": "queued", "direction": "outbound-api", "num_media": media.len().to_string(),
            }),
        );
        self.world.lock().messages.insert(sid.clone(), message.clone());
        let row =
            PlatformRow::new(account.sid.clone(), "sent", "POST Messages").chat(to).message(&*sid).text(text);
        self.harness.record(row.raw(json!({"from": from, "media": media})));
        let callback = wanted.text("StatusCallback");
        if !callback.is_empty() {
            self.tell_states(account, &sid, to, from, callback);
        }
        Ok(json_response(201, &message))
    }

    fn limit(&self, account: &TwilioAccount) -> Result<(), TwilioError> {
        let Some(most) = self.settings.messages_per_second else { return Ok(()) };
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        let window = world.windows.entry(account.sid.clone()).or_default();
        window.admit(most, 1_000, now_ms).map_err(|_| TwilioError::new(429, 20_429, "Too Many Requests"))?;
        Ok(())
    }

    pub(super) fn message(&self, account: &TwilioAccount, sid: &str) -> Result<Value, TwilioError> {
        let world = self.world.lock();
        let message = world.messages.get(sid).filter(|message| message["account_sid"] == *account.sid);
        message.cloned().ok_or_else(|| TwilioError::not_found(sid))
    }

    pub(super) fn list(&self, account: &TwilioAccount) -> Result<Response<Body>, TwilioError> {
        let world = self.world.lock();
        let own = world.messages.values().filter(|message| message["account_sid"] == *account.sid);
        let mut messages: Vec<&Value> = own.collect();
        messages.reverse();
        messages.truncate(50);
        Ok(json_response(
            200,
            &json!({"messages": messages, "page": 0, "page_size": 50, "next_page_uri": null}),
        ))
    }

    /// Stores a file of a message and returns its sid.
    pub(super) fn add_media(
        &self,
        account: &TwilioAccount,
        message: &str,
        kind: &str,
        content: Bytes,
    ) -> String {
        let sid = self.new_sid("ME");
        let media = TwilioMedia {
            account: account.sid.clone(),
            message: message.to_owned(),
            kind: kind.to_owned(),
            content,
            signature: format!("signature-{}", self.harness.next_id()),
        };
        self.world.lock().media.insert(sid.clone(), media);
        sid
    }

    pub(super) fn list_media(
        &self,
        account: &TwilioAccount,
        message: &str,
    ) -> Result<Response<Body>, TwilioError> {
        let message = self.message(account, message)?;
        let listed = message["stand_in_media"].as_array().cloned().unwrap_or_default();
        let objects: Vec<Value> = listed
            .iter()
            .map(|sid| json!({"sid": sid, "account_sid": account.sid, "parent_sid": message["sid"], "content_type": null}))
            .collect();
        Ok(json_response(
            200,
            &json!({"media_list": objects, "page": 0, "page_size": 50, "next_page_uri": null}),
        ))
    }

    /// Redirects to a signed storage URL.
    pub(super) fn media(
        &self,
        account: &TwilioAccount,
        message: &str,
        sid: &str,
    ) -> Result<Response<Body>, TwilioError> {
        let world = self.world.lock();
        let is_own = |media: &&TwilioMedia| media.account == account.sid && media.message == message;
        let media = world.media.get(sid).filter(is_own).ok_or_else(|| TwilioError::not_found(sid))?;
        let url = format!("{}/storage/{sid}/{}", self.harness.base_url(), media.signature);
        let mut response = respond(307, "", Body::empty());
        if let Ok(url) = HeaderValue::from_str(&url) {
            response.headers_mut().insert(http::header::LOCATION, url);
        }
        Ok(response)
    }

    pub(super) fn stored(&self, path: &str) -> Result<Response<Body>, TwilioError> {
        let segments: Vec<&str> = path.split('/').collect();
        let (sid, signature) = (segments.get(2).copied().unwrap_or_default(), segments.get(3).copied());
        let world = self.world.lock();
        let media = world.media.get(sid).filter(|media| Some(media.signature.as_str()) == signature);
        let media = media.ok_or_else(|| TwilioError::not_found(sid))?;
        let mut response = respond(200, "", media.content.clone());
        if let Ok(kind) = media.kind.parse() {
            response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        }
        Ok(response)
    }
}
