//! Webhooks of Twilio: signed requests and status callbacks.

use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;

use super::{TwilioAccount, TwilioPlatform};
use crate::harness::{OutgoingRequest, PlatformRow, form};

/// A form with its signature: the URL, then every name and value in the order of names. A repeated name is written with
/// each of its different values.
pub(super) fn signed(account: &TwilioAccount, url: &str, fields: &[(String, String)]) -> OutgoingRequest {
    let mut sorted = fields.to_vec();
    sorted.sort();
    sorted.dedup();
    let mut text = url.to_owned();
    for (name, value) in &sorted {
        text.push_str(name);
        text.push_str(value);
    }
    let (algorithm, secret) = match &account.shared_key {
        Some(key) => (hmac::HMAC_SHA256, &key.secret),
        None => (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &account.auth_token),
    };
    let tag = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), text.as_bytes());
    let mut headers = vec![
        ("content-type", "application/x-www-form-urlencoded".to_owned()),
        ("user-agent", "TwilioProxy/1.1".to_owned()),
        ("x-twilio-signature", BASE64_STANDARD.encode(tag.as_ref())),
    ];
    if let Some(key) = &account.shared_key {
        let settings = format!("key={},algorithm=HMAC_SHA256", key.id);
        headers.push(("x-twilio-webhooks-signature-settings", settings));
    }
    OutgoingRequest {
        method: http::Method::POST,
        url: url.to_owned(),
        headers,
        body: Bytes::from(form::write_pairs(fields)),
    }
}

impl TwilioPlatform {
    /// Delivers a form to a URL.
    pub(super) fn notify(
        self: &Arc<Self>,
        account: &TwilioAccount,
        url: &str,
        event: &str,
        fields: Vec<(String, String)>,
    ) {
        let make = || {
            let (platform, account, url) = (self.clone(), account.clone(), url.to_owned());
            let (event, fields) = (event.to_owned(), fields.clone());
            async move {
                let build = |_, _: Option<&Result<_, String>>| signed(&account, &url, &fields);
                let accepted = |answer: &crate::harness::ReceiverAnswer| (200..300).contains(&answer.status);
                let answer = platform.harness.deliver(&account.sid, &event, build, accepted).await;
                let kind = if answer.is_some() { "acknowledged" } else { "unacknowledged" };
                let said = answer.map(|answer| String::from_utf8_lossy(&answer.body).into_owned());
                let mut row = PlatformRow::new(account.sid, kind, "webhook").message(event);
                row.text = said;
                platform.harness.record(row);
            }
        };
        self.harness.dispatch(&account.sid, make);
    }

    /// Sends a status callback for every state of a message, one after another.
    pub(super) fn tell_states(
        self: &Arc<Self>,
        account: &TwilioAccount,
        sid: &str,
        to: &str,
        from: &str,
        url: &str,
    ) {
        let (platform, account) = (self.clone(), account.clone());
        let (sid, to, from, url) = (sid.to_owned(), to.to_owned(), from.to_owned(), url.to_owned());
        self.harness.spawn(async move {
            for state in ["sent", "delivered"] {
                if let Some(message) = platform.world.lock().messages.get_mut(&sid) {
                    message["status"] = state.into();
                }
                let fields = [
                    ("MessageSid", &*sid),
                    ("SmsSid", &*sid),
                    ("MessageStatus", state),
                    ("SmsStatus", state),
                    ("To", &*to),
                    ("From", &*from),
                    ("AccountSid", &*account.sid),
                    ("ApiVersion", "2010-04-01"),
                ];
                let fields: Vec<_> = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
                let event = format!("{sid}/{state}");
                let build = |_, _: Option<&Result<_, String>>| signed(&account, &url, &fields);
                let accepted = |answer: &crate::harness::ReceiverAnswer| (200..300).contains(&answer.status);
                platform.harness.deliver(&account.sid, &event, build, accepted).await;
            }
            platform
                .harness
                .record(PlatformRow::new(account.sid, "delivered", "status").chat(to).message(sid));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::signed;

    /// The example in Twilio's documentation of signatures.
    #[test]
    fn the_signature_is_that_of_the_documented_example() {
        let account = "AC1:12345:+15550100".parse().unwrap();
        let fields = [
            ("CallSid", "CA1234567890ABCDE"),
            ("Caller", "+14158675309"),
            ("Digits", "1234"),
            ("From", "+14158675309"),
            ("To", "+18005551212"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = signed(&account, "https://mycompany.com/myapp.php?foo=1&bar=2", &fields);
        let signature = request.headers.iter().find(|(name, _)| *name == "x-twilio-signature");
        assert_eq!(signature.map(|(_, value)| value.as_str()), Some("RSOYDt4T1cUTdK1PDd93/VVr8B8="));
    }
}
