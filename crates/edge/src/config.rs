//! Settings of the edge: `[platforms]` in the configuration.

use serde::{Deserialize, Serialize};

use crate::telegram::Telegram;

/// `[platforms]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub telegram: TelegramConfig,
    pub web: WebConfig,
}

/// `[platforms.telegram]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelegramConfig {
    /// Base URL of the Bot API. It can be a stand-in on loopback. Default `https://api.telegram.org`.
    pub api_base_url: String,
}

impl Default for TelegramConfig {
    fn default() -> Self {
        Self { api_base_url: Telegram::API_BASE.to_owned() }
    }
}

/// `[platforms.web]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// Whether agents have the platform `web`. Default true.
    pub enabled: bool,
    /// Whether the chat page is served at /chat, for people with an invitation link. Default false; `posthouse up`
    /// turns it on.
    pub page: bool,
}

impl WebConfig {
    /// The page is served only if its platform is enabled.
    pub fn serves_page(&self) -> bool {
        self.enabled && self.page
    }
}

impl Default for WebConfig {
    fn default() -> Self {
        Self { enabled: true, page: false }
    }
}
