//! Settings of the Feishu stand-in: apps, limits, timing.

use std::{fmt, str::FromStr, time::Duration};

use crate::harness::HarnessSettings;

/// An app of one company.
#[derive(Clone)]
pub struct FeishuApp {
    /// `cli_...`
    pub id: String,
    /// Secret of the app.
    pub secret: String,
    /// Key of encrypted events. Empty: events are neither encrypted nor signed.
    pub encrypt_key: String,
    /// Token inside every event.
    pub verification_token: String,
    /// Name of the bot.
    pub name: String,
}

impl FeishuApp {
    /// Id of the bot as a member of chats.
    #[must_use]
    pub fn open_id(&self) -> String {
        format!("ou_bot_{}", self.id.trim_start_matches("cli_"))
    }

    /// The company.
    #[must_use]
    pub fn tenant_key(&self) -> String {
        format!("tk_{}", self.id.trim_start_matches("cli_"))
    }
}

/// `<app id>:<app secret>:<encrypt key>:<verification token>[@<name>]`, as a command line names an app.
impl FromStr for FeishuApp {
    type Err = String;
    fn from_str(text: &str) -> Result<FeishuApp, String> {
        let (rest, name) = text.split_once('@').unwrap_or((text, "posty"));
        let parts: Vec<&str> = rest.split(':').collect();
        match parts[..] {
            [id, secret, encrypt_key, verification_token]
                if id.len() > 4 && id.starts_with("cli_") && !secret.is_empty() =>
            {
                Ok(FeishuApp {
                    id: id.to_owned(),
                    secret: secret.to_owned(),
                    encrypt_key: encrypt_key.to_owned(),
                    verification_token: verification_token.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("write an app as cli_<id>:<app secret>:<encrypt key>:<verification token>[@<name>]"
                .to_owned()),
        }
    }
}

impl fmt::Debug for FeishuApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeishuApp").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Rate limits.
#[derive(Clone, Copy, Debug)]
pub struct FeishuLimits {
    /// Messages a second in one chat. Default 5.
    pub messages_per_second: u32,
    /// Updates a second of one card. Default 10.
    pub card_updates_per_second: u32,
}

impl Default for FeishuLimits {
    fn default() -> FeishuLimits {
        FeishuLimits { messages_per_second: 5, card_updates_per_second: 10 }
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address and sizes.
    pub harness: HarnessSettings,
    /// Apps. Default: none, so every call is unauthorized.
    pub apps: Vec<FeishuApp>,
    /// Default none: no limits.
    pub limits: Option<FeishuLimits>,
    /// Time for the answer to an event on a long connection. Default 3 s.
    pub acknowledgement: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            harness: HarnessSettings::default(),
            apps: Vec::new(),
            limits: None,
            acknowledgement: Duration::from_secs(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_is_named_by_its_id_and_its_secrets_are_not_printed() {
        let app: FeishuApp = "cli_a1:canary-secret:canary-key:canary-token@posty".parse().unwrap();
        assert_eq!((app.open_id().as_str(), app.name.as_str()), ("ou_bot_a1", "posty"));
        assert!(!format!("{app:?}").contains("canary"));
        for wrong in ["", "cli_a1", "a1:b:c:d", "cli_a1::c:d", "cli_a1:b:c"] {
            assert!(wrong.parse::<FeishuApp>().is_err(), "{wrong}");
        }
    }
}
