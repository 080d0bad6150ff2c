//! Injections into Twilio: text messages of people, with files, by SMS or WhatsApp.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{TwilioAccount, TwilioPlatform};
use crate::harness::PlatformRow;

/// A file that a person sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwilioFile {
    /// The type that the sender claims.
    pub content_type: String,
    /// Content in base64.
    pub base64: String,
}

fn someone() -> String {
    "+15550177".to_owned()
}

/// What a person does.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum TwilioInjection {
    /// Writes a message.
    Message {
        /// Text.
        #[serde(default)]
        text: String,
        /// Number, `whatsapp:+...`, or `whatsapp:US....` for a person who hides the number. Default `+15550177`.
        #[serde(default = "someone")]
        from: String,
        /// Name in the profile, for WhatsApp.
        #[serde(default)]
        profile_name: Option<String>,
        /// Files.
        #[serde(default)]
        files: Vec<TwilioFile>,
        /// Payload of a pressed button, for WhatsApp.
        #[serde(default)]
        button_payload: Option<String>,
        /// Message that it replies to, for WhatsApp.
        #[serde(default)]
        reply_to: Option<String>,
        /// The account. Default: the first.
        #[serde(default)]
        account: Option<String>,
    },
    /// Writes STOP. The carrier answers, and messages to this person are refused.
    OptOut {
        /// Who.
        #[serde(default = "someone")]
        from: String,
        /// The account. Default: the first.
        #[serde(default)]
        account: Option<String>,
    },
    /// Sends exactly these fields to the webhook.
    Form {
        /// Names and values.
        fields: Vec<(String, String)>,
        /// The account. Default: the first.
        #[serde(default)]
        account: Option<String>,
    },
}

impl TwilioPlatform {
    pub(super) fn act(self: &Arc<Self>, injection: TwilioInjection) -> Result<Value, String> {
        match injection {
            TwilioInjection::Message {
                text,
                from,
                profile_name,
                files,
                button_payload,
                reply_to,
                account,
            } => {
                let account = self.chosen(account)?;
                let sid = self.new_sid(if files.is_empty() { "SM" } else { "MM" });
                let mut fields = self.fields(&account, &sid, &from, &text, files.len());
                if let Some(person) = from.strip_prefix("whatsapp:") {
                    fields.push(("ProfileName", profile_name.unwrap_or_else(|| "Ana".to_owned())));
                    match person.strip_prefix('+') {
                        Some(digits) => fields.push(("WaId", digits.to_owned())),
                        None => fields.push(("ExternalUserIdentifier", person.to_owned())),
                    }
                }
                if let Some(payload) = button_payload {
                    fields.push(("ButtonPayload", payload));
                }
                if let Some(original) = reply_to {
                    fields.push(("OriginalRepliedMessageSid", original));
                }
                let mut named: Vec<(String, String)> =
                    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                let mut sids = Vec::new();
                for (at, file) in files.iter().enumerate() {
                    let content = BASE64_STANDARD.decode(&file.base64).map_err(|error| error.to_string())?;
                    let media = self.add_media(&account, &sid, &file.content_type, content.into());
                    let base = self.harness.base_url();
                    let url =
                        format!("{base}/2010-04-01/Accounts/{}/Messages/{sid}/Media/{media}", account.sid);
                    named.push((format!("MediaUrl{at}"), url));
                    named.push((format!("MediaContentType{at}"), file.content_type.clone()));
                    sids.push(media);
                }
                self.receive(&account, &sid, &from, &text, named, &sids)
            }
            TwilioInjection::OptOut { from, account } => {
                let account = self.chosen(account)?;
                self.world.lock().opted_out.insert(from.clone(), ());
                let sid = self.new_sid("SM");
                let mut fields = self.fields(&account, &sid, &from, "STOP", 0);
                fields.push(("OptOutType", "STOP".to_owned()));
                let named = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                self.receive(&account, &sid, &from, "STOP", named, &[])
            }
            TwilioInjection::Form { fields, account } => {
                let account = self.chosen(account)?;
                let url = self.world.lock().webhook.clone().ok_or("no webhook is set")?;
                self.notify(&account, &url, "form", fields);
                Ok(json!({}))
            }
        }
    }

    fn chosen(&self, account: Option<String>) -> Result<TwilioAccount, String> {
        let mut accounts = self.settings.accounts.iter();
        let found = accounts.find(|one| account.as_ref().is_none_or(|sid| *sid == one.sid));
        found.cloned().ok_or_else(|| "no such account".to_owned())
    }

    fn fields(
        &self,
        account: &TwilioAccount,
        sid: &str,
        from: &str,
        text: &str,
        files: usize,
    ) -> Vec<(&'static str, String)> {
        let number = account.numbers.first().cloned().unwrap_or_default();
        let to = if from.starts_with("whatsapp:") { format!("whatsapp:{number}") } else { number };
        vec![
            ("ToCountry", "US".to_owned()),
            ("MessageSid", sid.to_owned()),
            ("SmsMessageSid", sid.to_owned()),
            ("SmsSid", sid.to_owned()),
            ("AccountSid", account.sid.clone()),
            ("From", from.to_owned()),
            ("To", to),
            ("Body", text.to_owned()),
            ("NumMedia", files.to_string()),
            ("NumSegments", "1".to_owned()),
            ("SmsStatus", "received".to_owned()),
            ("ApiVersion", "2010-04-01".to_owned()),
        ]
    }

    fn receive(
        self: &Arc<Self>,
        account: &TwilioAccount,
        sid: &str,
        from: &str,
        text: &str,
        fields: Vec<(String, String)>,
        media: &[String],
    ) -> Result<Value, String> {
        let url = self.world.lock().webhook.clone().ok_or("no webhook is set")?;
        let message = self.resource(
            account,
            sid,
            &json!({
                "from": from, "body": text, "status": "received", "direction": "inbound",
                "num_media": media.len().to_string(), "stand_in_media": media,
            }),
        );
        self.world.lock().messages.insert(sid.to_owned(), message);
        let row =
            PlatformRow::new(account.sid.clone(), "received", "message").chat(from).message(sid).text(text);
        self.harness.record(row);
        self.notify(account, &url, sid, fields);
        Ok(json!({"message_id": sid, "chat": from, "media": media}))
    }
}
