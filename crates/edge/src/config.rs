//! Settings of the edge: `[platforms]` in the configuration.

use serde::{Deserialize, Serialize};

use crate::discord::Discord;
use crate::feishu::Feishu;
use crate::matrix::Matrix;
use crate::slack::Slack;
use crate::telegram::Telegram;
use crate::twilio::Twilio;
use crate::wecom::WeCom;
use crate::whatsapp::WhatsApp;

/// `[platforms]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub discord: DiscordConfig,
    pub feishu: FeishuConfig,
    pub matrix: MatrixConfig,
    pub slack: SlackConfig,
    pub telegram: TelegramConfig,
    pub twilio: TwilioConfig,
    pub web: WebConfig,
    pub wecom: WeComConfig,
    pub whatsapp_cloud: WhatsAppConfig,
}

/// `[platforms.discord]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiscordConfig {
    /// Base URL of the HTTP API. It can be a stand-in on loopback. Default `https://discord.com/api/v10`.
    pub api_base_url: String,
}

impl Default for DiscordConfig {
    fn default() -> Self {
        Self { api_base_url: Discord::API_BASE.to_owned() }
    }
}

/// `[platforms.feishu]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeishuConfig {
    /// Base URL of the Open API. It can be `https://open.larksuite.com` for Lark, or a stand-in on loopback. Default
    /// `https://open.feishu.cn`.
    pub api_base_url: String,
}

impl Default for FeishuConfig {
    fn default() -> Self {
        Self { api_base_url: Feishu::API_BASE.to_owned() }
    }
}

/// `[platforms.matrix]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MatrixConfig {
    /// Base URL of the homeserver of bots that name none. Default `https://matrix-client.matrix.org`.
    pub api_base_url: String,
}

impl Default for MatrixConfig {
    fn default() -> Self {
        Self { api_base_url: Matrix::API_BASE.to_owned() }
    }
}

/// `[platforms.slack]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SlackConfig {
    /// Base URL of the Web API. It can be a stand-in on loopback. Default `https://slack.com/api`.
    pub api_base_url: String,
}

impl Default for SlackConfig {
    fn default() -> Self {
        Self { api_base_url: Slack::API_BASE.to_owned() }
    }
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

/// `[platforms.twilio]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TwilioConfig {
    /// Base URL of the REST API. It can be a stand-in on loopback. Default `https://api.twilio.com`.
    pub api_base_url: String,
}

impl Default for TwilioConfig {
    fn default() -> Self {
        Self { api_base_url: Twilio::API_BASE.to_owned() }
    }
}

/// `[platforms.wecom]`: applications and AI bots of WeCom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WeComConfig {
    /// Base URL of the API. It can be a stand-in on loopback. Default `https://qyapi.weixin.qq.com`.
    pub api_base_url: String,
    /// Address of the long connections of AI bots. It can be a stand-in on loopback. Default
    /// `wss://openws.work.weixin.qq.com`.
    pub socket_url: String,
}

impl Default for WeComConfig {
    fn default() -> Self {
        Self { api_base_url: WeCom::API_BASE.to_owned(), socket_url: WeCom::SOCKET_URL.to_owned() }
    }
}

/// `[platforms.whatsapp_cloud]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WhatsAppConfig {
    /// Base URL of the Graph API, without its version. It can be a stand-in on loopback. Default
    /// `https://graph.facebook.com`.
    pub api_base_url: String,
    /// Version of the Graph API. Default `v26.0`.
    pub graph_version: String,
}

impl Default for WhatsAppConfig {
    fn default() -> Self {
        Self {
            api_base_url: WhatsApp::API_BASE.to_owned(),
            graph_version: WhatsApp::GRAPH_VERSION.to_owned(),
        }
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
