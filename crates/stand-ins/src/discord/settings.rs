//! Settings of the Discord stand-in: applications, limits, timing.

use std::{fmt, str::FromStr, time::Duration};

use crate::harness::HarnessSettings;

/// An application with its bot user. Both have the same id, as on Discord.
#[derive(Clone)]
pub struct DiscordBot {
    /// Application id and user id.
    pub id: String,
    /// The bot token.
    pub token: String,
    /// Name of the bot user.
    pub username: String,
    /// Seed of the key that signs interactions. Default: derived from the id.
    pub signing_seed: Option<[u8; 32]>,
    /// Where interactions go. Default: to the gateway.
    pub interactions_url: Option<String>,
    /// Whether the portal allows the privileged intents. Default true.
    pub privileged_intents: bool,
}

impl DiscordBot {
    /// An application with default settings.
    #[must_use]
    pub fn new(id: &str, token: &str, username: &str) -> DiscordBot {
        DiscordBot {
            id: id.to_owned(),
            token: token.to_owned(),
            username: username.to_owned(),
            signing_seed: None,
            interactions_url: None,
            privileged_intents: true,
        }
    }
}

/// `<application id>:<token>` or `<application id>:<token>@<username>`, as a command line names a bot.
impl FromStr for DiscordBot {
    type Err = String;
    fn from_str(text: &str) -> Result<DiscordBot, String> {
        let (id, rest) =
            text.split_once(':').ok_or("write a bot as <application id>:<token>[@<username>]")?;
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("the application id is a number".to_owned());
        }
        let (token, username) = rest.split_once('@').unwrap_or((rest, "stand_in_bot"));
        if token.is_empty() || username.is_empty() {
            return Err("token and username must not be empty".to_owned());
        }
        Ok(DiscordBot::new(id, token, username))
    }
}

impl fmt::Debug for DiscordBot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiscordBot").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Rate limits of the HTTP API and of the gateway. Discord publishes only the global one; the others are those that its
/// headers commonly show.
#[derive(Clone, Copy, Debug)]
pub struct DiscordLimits {
    /// Calls per second of one bot. Default 50.
    pub global_per_second: u32,
    /// Messages in one channel in five seconds. Edits have a bucket of their own, of the same size. Default 5.
    pub messages_per_5_seconds: u32,
    /// Calls of any other route about one channel or server in one second. Default 10.
    pub other_per_second: u32,
    /// Identifies of one bot in five seconds. Default 1.
    pub identifies_per_5_seconds: u32,
}

impl Default for DiscordLimits {
    fn default() -> DiscordLimits {
        DiscordLimits {
            global_per_second: 50,
            messages_per_5_seconds: 5,
            other_per_second: 10,
            identifies_per_5_seconds: 1,
        }
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address and sizes.
    pub harness: HarnessSettings,
    /// Applications. Default: none, so every call is unauthorized.
    pub bots: Vec<DiscordBot>,
    /// Default none: no limits, and no rate-limit headers.
    pub limits: Option<DiscordLimits>,
    /// Heartbeat interval that clients are told. Default 41.25 s.
    pub heartbeat_interval: Duration,
    /// The recommended number of shards. Default 1.
    pub shards: u64,
    /// Time for the first answer to an interaction. Default 3 s.
    pub interaction_deadline: Duration,
    /// Lifetime of an interaction token, by the stand-in's clock. Default 900 s.
    pub interaction_lifetime: Duration,
    /// Largest file. Default 10 MiB.
    pub most_file_bytes: usize,
    /// Frames kept for a client that resumes. Default 1,000.
    pub replay_frames: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            harness: HarnessSettings::default(),
            bots: Vec::new(),
            limits: None,
            heartbeat_interval: Duration::from_millis(41_250),
            shards: 1,
            interaction_deadline: Duration::from_secs(3),
            interaction_lifetime: Duration::from_secs(900),
            most_file_bytes: 10 << 20,
            replay_frames: 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_is_named_by_its_application_and_its_token_is_not_printed() {
        let bot: DiscordBot = "42:canary.token@posty".parse().unwrap();
        assert_eq!((&*bot.id, &*bot.token, &*bot.username), ("42", "canary.token", "posty"));
        assert!(!format!("{bot:?}").contains("canary"));
        for wrong in ["", "42", "x:y", ":y", "42:", "42:a@"] {
            assert!(wrong.parse::<DiscordBot>().is_err(), "{wrong}");
        }
    }
}
