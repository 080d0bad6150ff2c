//! The edge's settings.

use serde::{Deserialize, Serialize};

use crate::telegram::Telegram;

/// `[platforms]` in the configuration.
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
    /// Where the Bot API is; a stand-in on loopback can play it. Default `https://api.telegram.org`.
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
    /// Whether the built-in chat is served at /chat. Default true.
    pub enabled: bool,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self { enabled: true }
    }
}
