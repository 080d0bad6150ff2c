//! Registration of a bot with Feishu: checks its credentials, and tells the operator what to enter in the app's
//! settings.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::api::FeishuCall;
use super::{APP_ID, APP_SECRET, BOT_OPEN_ID, DOMAIN, ENCRYPT_KEY, Feishu, LABEL, MODE, VERIFICATION_TOKEN};
use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, PlatformBot};
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

const TIME_LIMIT: Duration = Duration::from_secs(20);
const PERMISSIONS: &str = "im:message, im:message:send_as_bot, im:message.p2p_msg:readonly, \
                           im:message.group_at_msg:readonly, im:message.group_msg, im:message.reactions:write_only, \
                           im:resource, im:chat:readonly, cardkit:card:write, contact:user.base:readonly";

#[derive(Deserialize)]
struct AppBotAnswer {
    bot: BotInfo,
}

#[derive(Deserialize)]
struct BotInfo {
    app_name: Option<String>,
    open_id: String,
}

/// Whether the bot gets its events over the long connection.
pub(super) fn uses_socket(bot: &OpenedBot) -> bool {
    let has_token = bot.credentials.get(VERIFICATION_TOKEN).is_some_and(|token| !token.is_empty());
    match bot.setting(MODE) {
        Some("webhook") => false,
        Some("socket") => true,
        _ => !has_token,
    }
}

pub(super) async fn check_credentials(feishu: &Feishu, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
    let has = |name: &str| draft.credentials.get(name).is_some_and(|secret| !secret.is_empty());
    let other = |text: &str| Err(BotTrouble::Other(text.to_owned()));
    let Some(app) = draft.setting(APP_ID) else {
        return other(
            "a Feishu bot needs its App ID (cli_…), from the page Credentials & Basic Info of the app",
        );
    };
    if !has(APP_SECRET) {
        return other("a Feishu bot needs its App Secret, from the page Credentials & Basic Info of the app");
    }
    if draft.setting(DOMAIN).is_some_and(|domain| !["feishu", "lark"].contains(&domain)) {
        return other("the domain is feishu (open.feishu.cn) or lark (open.larksuite.com)");
    }
    if draft.setting(MODE).is_some_and(|mode| !["webhook", "socket"].contains(&mode)) {
        return other("the mode is webhook or socket");
    }
    if has(ENCRYPT_KEY) && !has(VERIFICATION_TOKEN) {
        return other(
            "an encrypt key needs the verification token beside it, both from the page Events & Callbacks > Encryption \
             Strategy of the app",
        );
    }
    if draft.setting(MODE) == Some("webhook") && !has(VERIFICATION_TOKEN) {
        return other(
            "to get events by webhook, a Feishu bot needs the verification token and should have the encrypt key, both \
             from the page Events & Callbacks > Encryption Strategy of the app",
        );
    }
    let call = FeishuCall::get("GET bot", "/bot/v3/info".to_owned());
    let asked = feishu.call_for_reply(draft, &call, TIME_LIMIT).await.map_err(|failure| trouble(&failure))?;
    // The bot is beside the code, and not below `data` as elsewhere.
    let AppBotAnswer { bot } = serde_json::from_slice(&asked.body)
        .map_err(|_| BotTrouble::Other("the app has no bot: add the Bot ability to it".to_owned()))?;
    let mut settings = Map::new();
    settings.insert(BOT_OPEN_ID.to_owned(), Value::String(bot.open_id));
    if let Some(name) = bot.app_name.filter(|name| !name.is_empty()) {
        settings.insert("username".to_owned(), Value::String(name));
    }
    Ok(PlatformBot { id: app.to_owned(), settings })
}

fn trouble(failure: &CallFailure) -> BotTrouble {
    BotTrouble::Other(match failure {
        failure if failure.is_credential_dead() => {
            return BotTrouble::CredentialRefused(
                "Feishu does not accept this App ID with this App Secret (an app of Lark needs the setting domain=lark)"
                    .to_owned(),
            );
        }
        CallFailure::Refused(CallRefusal { kind: RefusalKind::Forbidden, description, .. }) => {
            format!("Feishu does not allow this app to be used: {description}")
        }
        CallFailure::Refused(refused) if !refused.description.is_empty() => refused.description.clone(),
        CallFailure::Unreached(cause) => format!("Feishu cannot be reached: {cause}"),
        CallFailure::Lost => "Feishu did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    })
}

/// What the operator must do in the settings of the app.
pub(super) fn setup_steps(bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
    let subscribe = "Add the event im.message.receive_v1 (page Event Configuration) and the callback \
                     card.action.trigger (page Callback Configuration).";
    let mut steps =
        vec![format!("Give the app these permissions (page Permissions & Scopes): {PERMISSIONS}.")];
    match (uses_socket(bot), door) {
        (true, _) => steps.push(
            "On the page Events & Callbacks choose the long connection, for events and for callbacks. Feishu saves \
             this only while the bot is connected."
                .to_owned(),
        ),
        (false, Some(door)) => steps.push(format!(
            "On the page Events & Callbacks choose to send events and callbacks to the developer's server, and enter \
             this address for both: {door}"
        )),
        (false, None) => steps.push(
            "Feishu cannot call this server. Set server.public_url to an https address, or create the bot with \
             --set mode=socket to get events over a long connection."
                .to_owned(),
        ),
    }
    steps.push(subscribe.to_owned());
    steps.push(
        "Create a version of the app and have it released. Then add the bot to a group, or write to it."
            .to_owned(),
    );
    steps
}
