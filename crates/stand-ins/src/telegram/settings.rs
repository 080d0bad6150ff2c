//! Settings of the stand-in: bots, limits, timing.

use std::{fmt, net::SocketAddr, str::FromStr, time::Duration};

/// One bot of the stand-in. Calls with any other token get 401.
#[derive(Clone)]
pub struct StandInBot {
    /// The complete token, `<id>:<secret>`.
    pub token: String,
    /// The bot's user id.
    pub id: i64,
    /// Without the `@`.
    pub username: String,
}

impl StandInBot {
    /// A bot whose id is the number before the token's colon.
    ///
    /// # Errors
    /// When the token does not have the form `<id>:<secret>`.
    pub fn new(token: &str, username: &str) -> Result<StandInBot, String> {
        let (id, secret) = token.split_once(':').ok_or("a bot token has the form <id>:<secret>")?;
        let id = id.parse().map_err(|_| "a bot token begins with the bot's numeric id")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if secret.is_empty() || !secret.chars().all(plain) {
            return Err("the secret part of a bot token is letters, digits, _ and -".to_owned());
        }
        Ok(StandInBot { token: token.to_owned(), id, username: username.to_owned() })
    }
}

/// `<id>:<secret>` or `<id>:<secret>@username`, as a command line names a bot.
impl FromStr for StandInBot {
    type Err = String;
    fn from_str(text: &str) -> Result<StandInBot, String> {
        match text.split_once('@') {
            Some((token, username)) if !username.is_empty() => StandInBot::new(token, username),
            Some(_) => Err("the username after @ is empty".to_owned()),
            None => {
                let mut bot = StandInBot::new(text, "")?;
                bot.username = format!("stand_in_{}_bot", bot.id);
                Ok(bot)
            }
        }
    }
}

impl fmt::Debug for StandInBot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bot").field("id", &self.id).field("username", &self.username).finish_non_exhaustive()
    }
}

/// Rate limits of bots. The real numbers are unofficial; these defaults are the ones commonly cited.
#[derive(Clone, Copy, Debug)]
pub struct TelegramLimits {
    /// Sends and edits per second over all chats of one bot. Default 30.
    pub per_bot_per_second: u32,
    /// Sends and edits per second in one chat. Default 1.
    pub per_chat_per_second: u32,
    /// Sends and edits per minute in one group or channel. Default 20.
    pub per_group_per_minute: u32,
}

impl Default for TelegramLimits {
    fn default() -> TelegramLimits {
        TelegramLimits { per_bot_per_second: 30, per_chat_per_second: 1, per_group_per_minute: 20 }
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Default `127.0.0.1:0`: any free port.
    pub listen: SocketAddr,
    /// Default: none, so every call is unauthorized.
    pub bots: Vec<StandInBot>,
    /// Whether a bot may write to a chat without messages. Default false: 400 "chat not found".
    pub accept_unknown_chats: bool,
    /// Default none: no limits.
    pub limits: Option<TelegramLimits>,
    /// Number of stored rows of transcript, refusals and deliveries, each. Default 200,000.
    pub transcript_rows: usize,
    /// Default none: derived from the clock, so that a restarted stand-in does not reuse ids that the
    /// server under test has already seen.
    pub first_update_id: Option<i64>,
    /// Pause before a failed webhook delivery is tried again; doubles each time. Default 100 ms.
    pub retry_first: Duration,
    /// The longest such pause. Default 2 s.
    pub retry_most: Duration,
    /// Time limit of one webhook delivery. Default 30 s.
    pub webhook_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            bots: Vec::new(),
            accept_unknown_chats: false,
            limits: None,
            transcript_rows: 200_000,
            first_update_id: None,
            retry_first: Duration::from_millis(100),
            retry_most: Duration::from_secs(2),
            webhook_timeout: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bot_is_named_by_its_token_and_its_token_is_not_printed() {
        let bot: StandInBot = "42:canary_token@posty_bot".parse().unwrap();
        assert_eq!((bot.id, bot.username.as_str(), bot.token.as_str()), (42, "posty_bot", "42:canary_token"));
        assert!(!format!("{bot:?}").contains("canary"));
        assert_eq!("42:x".parse::<StandInBot>().unwrap().username, "stand_in_42_bot");
        for wrong in ["", "42", "x:y", "42:", "42:a b", "42:a@"] {
            assert!(wrong.parse::<StandInBot>().is_err(), "{wrong}");
        }
    }
}
