//! Settings of the WeCom stand-in: applications, AI bots, timing.

use std::{fmt, str::FromStr, time::Duration};

use crate::harness::HarnessSettings;

/// An application of a company.
#[derive(Clone)]
pub struct WeComApp {
    /// Id of the company.
    pub corp: String,
    /// Number of the application.
    pub agent: u64,
    /// Secret, with which access tokens are requested.
    pub secret: String,
    /// Token of callbacks.
    pub token: String,
    /// `EncodingAESKey` of callbacks, 43 letters.
    pub aes_key: String,
}

impl WeComApp {
    /// Id of the account in the transcript.
    #[must_use]
    pub fn account(&self) -> String {
        format!("{}-{}", self.corp, self.agent)
    }
}

/// An AI bot.
#[derive(Clone)]
pub struct WeComBot {
    /// Bot id.
    pub id: String,
    /// Secret of the long connection.
    pub secret: String,
    /// Token of callbacks.
    pub token: String,
    /// `EncodingAESKey` of callbacks, 43 letters.
    pub aes_key: String,
}

fn checked(parts: &[&str], shape: &str) -> Result<(), String> {
    if parts.iter().any(|part| part.is_empty()) {
        return Err(format!("no part of {shape} may be empty"));
    }
    match parts.last() {
        Some(key) if key.len() == 43 => Ok(()),
        _ => Err("an EncodingAESKey has 43 letters and digits".to_owned()),
    }
}

/// `<corp id>:<agent id>:<secret>:<token>:<aes key>`, as a command line names an application.
impl FromStr for WeComApp {
    type Err = String;
    fn from_str(text: &str) -> Result<WeComApp, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [corp, agent, secret, token, aes_key] = parts[..] else {
            return Err("write an application as <corp id>:<agent id>:<secret>:<token>:<aes key>".to_owned());
        };
        checked(&parts, "an application")?;
        Ok(WeComApp {
            corp: corp.to_owned(),
            agent: agent.parse().map_err(|_| "the agent id is a number".to_owned())?,
            secret: secret.to_owned(),
            token: token.to_owned(),
            aes_key: aes_key.to_owned(),
        })
    }
}

/// `<bot id>:<secret>:<token>:<aes key>`, as a command line names an AI bot.
impl FromStr for WeComBot {
    type Err = String;
    fn from_str(text: &str) -> Result<WeComBot, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let [id, secret, token, aes_key] = parts[..] else {
            return Err("write an AI bot as <bot id>:<secret>:<token>:<aes key>".to_owned());
        };
        checked(&parts, "an AI bot")?;
        Ok(WeComBot {
            id: id.to_owned(),
            secret: secret.to_owned(),
            token: token.to_owned(),
            aes_key: aes_key.to_owned(),
        })
    }
}

impl fmt::Debug for WeComApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeComApp")
            .field("corp", &self.corp)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WeComBot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeComBot").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Settings of the stand-in.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address and sizes.
    pub harness: HarnessSettings,
    /// Applications.
    pub apps: Vec<WeComApp>,
    /// AI bots.
    pub bots: Vec<WeComBot>,
    /// Pause between two questions for more of a streamed answer. Default 50 ms; WeCom waits about a second.
    pub poll_pause: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            harness: HarnessSettings::default(),
            apps: Vec::new(),
            bots: Vec::new(),
            poll_pause: Duration::from_millis(50),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_named_by_their_ids_and_their_secrets_are_not_printed() {
        let key = "canary7890123456789012345678901234567890123";
        let app: WeComApp = format!("ww1:1000002:canary:canary:{key}").parse().unwrap();
        assert_eq!(app.account(), "ww1-1000002");
        let bot: WeComBot = format!("AIB:canary:canary:{key}").parse().unwrap();
        assert!(!format!("{app:?} {bot:?}").contains("canary"));
        for wrong in ["", "ww1:x:a:b:c", "ww1:1:a:b:short", &format!("ww1:1::b:{key}")] {
            assert!(wrong.parse::<WeComApp>().is_err(), "{wrong}");
        }
        assert!("AIB:a:b:short".parse::<WeComBot>().is_err());
    }
}
