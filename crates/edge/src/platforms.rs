//! List of all chat platforms of the server. A new platform is added here.

use std::sync::Arc;

use posthouse_time::Timepiece;

use crate::config::Config;
use crate::discord::Discord;
use crate::feishu::Feishu;
use crate::matrix::Matrix;
use crate::platform::Platform;
use crate::slack::Slack;
use crate::telegram::Telegram;
use crate::twilio::{Twilio, TwilioChannel};
use crate::webhook::Webhook;
use crate::wecom::{WeCom, WeComProduct};
use crate::whatsapp::WhatsApp;

/// Every platform that reaches people outside this server.
pub fn all(config: &Config, timepiece: &Timepiece) -> Vec<Arc<dyn Platform>> {
    let twilio = |channel| Twilio::new(channel, &config.twilio.api_base_url, timepiece.clone());
    let wecom = |product| {
        WeCom::new(product, &config.wecom.api_base_url, &config.wecom.socket_url, timepiece.clone())
    };
    vec![
        Arc::new(Discord::new(&config.discord.api_base_url, timepiece.clone())),
        Arc::new(Feishu::new(&config.feishu.api_base_url, timepiece.clone())),
        Arc::new(Matrix::new(&config.matrix.api_base_url, timepiece.clone())),
        Arc::new(Slack::new(&config.slack.api_base_url, timepiece.clone())),
        Arc::new(Telegram::new(&config.telegram.api_base_url, timepiece.clone())),
        Arc::new(twilio(TwilioChannel::Sms)),
        Arc::new(twilio(TwilioChannel::WhatsApp)),
        Arc::new(Webhook),
        Arc::new(wecom(WeComProduct::App)),
        Arc::new(wecom(WeComProduct::AiBot)),
        Arc::new(WhatsApp::new(
            &config.whatsapp_cloud.api_base_url,
            &config.whatsapp_cloud.graph_version,
            timepiece.clone(),
        )),
    ]
}
