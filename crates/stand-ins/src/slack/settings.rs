//! Settings of the Slack stand-in: apps, limits, timing.

use std::{fmt, str::FromStr, time::Duration};

use crate::harness::HarnessSettings;

/// An app, installed in one workspace.
#[derive(Clone)]
pub struct SlackApp {
    /// `A...`
    pub id: String,
    /// Workspace that it is installed in, `T...`.
    pub team_id: String,
    /// User of its bot, `U...`.
    pub bot_user_id: String,
    /// Its bot, `B...`.
    pub bot_id: String,
    /// Name of the bot.
    pub name: String,
    /// Bot token, `xoxb-...`.
    pub bot_token: String,
    /// App-level token, `xapp-...`, for Socket Mode.
    pub app_token: String,
    /// Key of signatures.
    pub signing_secret: String,
}

impl SlackApp {
    /// An app whose other ids are derived from its own, which looks like `A1`.
    #[must_use]
    pub fn new(id: &str, bot_token: &str, app_token: &str, signing_secret: &str, name: &str) -> SlackApp {
        let number = id.trim_start_matches('A');
        SlackApp {
            id: id.to_owned(),
            team_id: format!("T{number}"),
            bot_user_id: format!("UBOT{number}"),
            bot_id: format!("B{number}"),
            name: name.to_owned(),
            bot_token: bot_token.to_owned(),
            app_token: app_token.to_owned(),
            signing_secret: signing_secret.to_owned(),
        }
    }
}

/// `<app id>:<bot token>:<app token>:<signing secret>[@<name>]`, as a command line names an app.
impl FromStr for SlackApp {
    type Err = String;
    fn from_str(text: &str) -> Result<SlackApp, String> {
        let (rest, name) = text.split_once('@').unwrap_or((text, "posty"));
        let parts: Vec<&str> = rest.split(':').collect();
        match parts[..] {
            [id, bot_token, app_token, secret]
                if id.len() > 1
                    && id.starts_with('A')
                    && bot_token.starts_with("xoxb-")
                    && !secret.is_empty() =>
            {
                Ok(SlackApp::new(id, bot_token, app_token, secret, name))
            }
            _ => Err("write an app as A<id>:xoxb-<bot token>:xapp-<app token>:<signing secret>[@<name>]"
                .to_owned()),
        }
    }
}

impl fmt::Debug for SlackApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlackApp").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Rate limits.
#[derive(Clone, Copy, Debug)]
pub struct SlackLimits {
    /// Messages a second in one channel. Default 1.
    pub messages_per_second: u32,
    /// Calls a minute of each other method. Default 50, which is tier 3.
    pub calls_per_minute: u32,
}

impl Default for SlackLimits {
    fn default() -> SlackLimits {
        SlackLimits { messages_per_second: 1, calls_per_minute: 50 }
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address and sizes.
    pub harness: HarnessSettings,
    /// Apps. Default: none, so every call is unauthorized.
    pub apps: Vec<SlackApp>,
    /// Default none: no limits.
    pub limits: Option<SlackLimits>,
    /// Time for an acknowledgement. Default 3 s.
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
        let app: SlackApp = "A1:xoxb-canary:xapp-canary:canary@posty".parse().unwrap();
        assert_eq!((&*app.team_id, &*app.bot_user_id, &*app.name), ("T1", "UBOT1", "posty"));
        assert!(!format!("{app:?}").contains("canary"));
        for wrong in
            ["", "A1", "A1:xoxb-a:xapp-b", "B1:xoxb-a:xapp-b:c", "A1:wrong:xapp-b:c", "A1:xoxb-a:xapp-b:"]
        {
            assert!(wrong.parse::<SlackApp>().is_err(), "{wrong}");
        }
    }
}
