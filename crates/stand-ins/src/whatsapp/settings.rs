//! Settings of the WhatsApp stand-in: phone numbers, limits.

use std::{fmt, str::FromStr};

use crate::harness::HarnessSettings;

/// A business phone number with the credentials of its app.
#[derive(Clone)]
pub struct WhatsAppNumber {
    /// `phone_number_id`.
    pub id: String,
    /// The number that people see, digits only.
    pub display: String,
    /// Id of the business account.
    pub account_id: String,
    /// Access token.
    pub token: String,
    /// Key of signatures.
    pub app_secret: String,
    /// Token of the verification handshake.
    pub verify_token: String,
}

/// `<phone number id>:<token>:<app secret>:<verify token>`, as a command line names a number.
impl FromStr for WhatsAppNumber {
    type Err = String;
    fn from_str(text: &str) -> Result<WhatsAppNumber, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [id, token, app_secret, verify_token] = parts[..] else {
            return Err("write a number as <phone number id>:<token>:<app secret>:<verify token>".to_owned());
        };
        if id.is_empty()
            || !id.bytes().all(|byte| byte.is_ascii_digit())
            || token.is_empty()
            || app_secret.is_empty()
        {
            return Err("the phone number id is a number, and no part may be empty".to_owned());
        }
        Ok(WhatsAppNumber {
            id: id.to_owned(),
            display: format!("1555{id}"),
            account_id: format!("900{id}"),
            token: token.to_owned(),
            app_secret: app_secret.to_owned(),
            verify_token: verify_token.to_owned(),
        })
    }
}

impl fmt::Debug for WhatsAppNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhatsAppNumber").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Rate limits.
#[derive(Clone, Copy, Debug)]
pub struct WhatsAppLimits {
    /// Messages a second of one number. Default 80.
    pub per_number_per_second: u32,
    /// Messages in six seconds to one person. Default 10.
    pub per_person_per_6_seconds: u32,
}

impl Default for WhatsAppLimits {
    fn default() -> WhatsAppLimits {
        WhatsAppLimits { per_number_per_second: 80, per_person_per_6_seconds: 10 }
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Address and sizes.
    pub harness: HarnessSettings,
    /// Phone numbers. Default: none, so every call is unauthorized.
    pub numbers: Vec<WhatsAppNumber>,
    /// Default none: no limits.
    pub limits: Option<WhatsAppLimits>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_named_by_its_id_and_its_secrets_are_not_printed() {
        let number: WhatsAppNumber = "106:canary:canary:canary".parse().unwrap();
        assert_eq!((&*number.id, &*number.verify_token), ("106", "canary"));
        assert!(!format!("{number:?}").contains("canary"));
        for wrong in ["", "106", "x:a:b:c", "106::b:c", "106:a:b:c:d"] {
            assert!(wrong.parse::<WhatsAppNumber>().is_err(), "{wrong}");
        }
    }
}
