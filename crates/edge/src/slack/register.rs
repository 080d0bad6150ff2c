//! Registration of a bot with Slack: checks its tokens, and tells the operator what to enter in the app's settings.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::api::WebApiCall;
use super::{
    APP_ID, APP_TOKEN, BOT_ID, BOT_USER_ID, COMMANDS_DOOR, ENTERPRISE_ID, EVENTS_DOOR, INTERACTIONS_DOOR,
    LABEL, SIGNING_SECRET, Slack, TEAM_ID, TOKEN,
};
use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, PlatformBot};
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// The slash command that the manifest offers. Stock agents read the word after it as a command.
const SLASH_COMMAND: &str = "/hermes";
const SCOPES: [&str; 16] = [
    "app_mentions:read",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:write",
    "users:read",
];
const EVENTS: [&str; 8] = [
    "app_mention",
    "app_uninstalled",
    "channel_id_changed",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "tokens_revoked",
];

#[derive(Deserialize)]
struct TokenIdentity {
    team: Option<String>,
    team_id: Option<String>,
    enterprise_id: Option<String>,
    #[serde(default)]
    is_enterprise_install: bool,
    user: Option<String>,
    user_id: String,
    bot_id: Option<String>,
}

#[derive(Deserialize)]
struct BotAnswer {
    bot: BotApp,
}

#[derive(Deserialize)]
struct BotApp {
    app_id: Option<String>,
}

/// Whether the bot gets its events over Socket Mode.
pub(super) fn uses_socket(bot: &OpenedBot) -> bool {
    let has_token = bot.credentials.get(APP_TOKEN).is_some_and(|token| !token.is_empty());
    has_token && bot.setting("mode") != Some("webhook")
}

pub(super) async fn check_credentials(slack: &Slack, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
    let has = |name: &str| draft.credentials.get(name).is_some_and(|secret| !secret.is_empty());
    let other = |text: &str| Err(BotTrouble::Other(text.to_owned()));
    let begins = |name: &str, with: &str| {
        draft.credentials.get(name).is_some_and(|secret| secret.expose().starts_with(with))
    };
    if !has(TOKEN) {
        return other("a Slack bot needs its bot token, from the page OAuth & Permissions of the app");
    }
    if begins(TOKEN, "xapp-") || begins(TOKEN, "xoxp-") {
        return other("this is not a bot token: use the Bot User OAuth Token, which begins with xoxb-");
    }
    if has(APP_TOKEN) && !begins(APP_TOKEN, "xapp-") {
        return other(
            "this is not an app-level token: it begins with xapp- (page Basic Information of the app)",
        );
    }
    if !has(SIGNING_SECRET) && !has(APP_TOKEN) {
        return other(
            "a Slack bot needs its signing secret (to get events by webhook) or an app-level token (to get them over \
             Socket Mode), both from the page Basic Information of the app",
        );
    }
    let call = WebApiCall::form("auth.test", Vec::new());
    let identity: TokenIdentity =
        slack.call(draft, call, TIME_LIMIT).await.map_err(|failure| trouble(&failure, "this bot token"))?;
    let Some(bot_id) = identity.bot_id.clone() else {
        return other(
            "this token belongs to a person: use the Bot User OAuth Token, which begins with xoxb-",
        );
    };
    let team = identity.team_id.clone().unwrap_or_default();
    if draft.setting(TEAM_ID).is_some_and(|known| known != team) {
        return Err(BotTrouble::Other(format!(
            "this token belongs to another workspace, whose id is {team}"
        )));
    }
    if uses_socket(draft) {
        let call = WebApiCall::form("apps.connections.open", Vec::new()).by_app();
        let opened = slack.call::<IgnoredAny>(draft, call, TIME_LIMIT).await;
        opened.map_err(|failure| trouble(&failure, "this app-level token"))?;
    }
    let mut settings = Map::new();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            settings.insert(name.to_owned(), Value::String(value));
        }
    };
    set(TEAM_ID, identity.team_id);
    set("team", identity.team);
    set("username", identity.user);
    set(BOT_USER_ID, Some(identity.user_id.clone()));
    set(BOT_ID, Some(bot_id.clone()));
    // One token for all workspaces of the organization.
    set(ENTERPRISE_ID, identity.enterprise_id.filter(|_| identity.is_enterprise_install));
    // By this id messages of the app are recognised that have no id of the bot. It needs the scope users:read.
    let call = WebApiCall::form("bots.info", vec![("bot", bot_id)]);
    if let Ok(BotAnswer { bot }) = slack.call::<BotAnswer>(draft, call, TIME_LIMIT).await {
        set(APP_ID, bot.app_id);
    }
    Ok(PlatformBot { id: identity.user_id, settings })
}

fn trouble(failure: &CallFailure, what: &str) -> BotTrouble {
    BotTrouble::Other(match failure {
        failure if failure.is_credential_dead() => {
            return BotTrouble::CredentialRefused(format!("Slack does not accept {what}"));
        }
        CallFailure::Refused(CallRefusal { kind: RefusalKind::Forbidden, description, .. }) => {
            format!("Slack does not allow {what} to be used for this: {description}")
        }
        CallFailure::Refused(refused) if !refused.description.is_empty() => refused.description.clone(),
        CallFailure::Unreached(cause) => format!("Slack cannot be reached: {cause}"),
        CallFailure::Lost => "Slack did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    })
}

/// What the operator must do in the settings of the app.
pub(super) fn setup_steps(bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
    let socket = uses_socket(bot);
    let mut steps = Vec::new();
    if !socket && door.is_none() {
        steps.push(
            "Slack cannot call this server. Set server.public_url to an https address, or give the bot an app-level \
             token (--app-token-file) to get events over Socket Mode."
                .to_owned(),
        );
    }
    let manifest = manifest(bot, door.filter(|_| !socket));
    steps.push(format!(
        "Paste this into the page App Manifest of the app (as JSON), save it, and install the app again: {manifest}"
    ));
    steps.push("Invite the bot to a channel: /invite @NAME. Direct messages need no invitation.".to_owned());
    steps
}

/// The app's settings for this server: what it may do, which events it gets, and where.
fn manifest(bot: &OpenedBot, door: Option<&str>) -> Value {
    let name = bot.setting("username").unwrap_or("Posthouse");
    let mut command = json!({ "command": SLASH_COMMAND, "description": "Talk to the agent",
        "usage_hint": "[question or command]", "should_escape": true });
    let mut events = json!({ "bot_events": EVENTS });
    let mut interactivity = json!({ "is_enabled": true });
    if let Some(door) = door {
        command["url"] = format!("{door}{COMMANDS_DOOR}").into();
        events["request_url"] = format!("{door}{EVENTS_DOOR}").into();
        interactivity["request_url"] = format!("{door}{INTERACTIONS_DOOR}").into();
    }
    json!({
        "display_information": { "name": name },
        "features": {
            "app_home": { "messages_tab_enabled": true, "messages_tab_read_only_enabled": false },
            "bot_user": { "display_name": name, "always_online": true },
            "slash_commands": [command],
        },
        "oauth_config": { "scopes": { "bot": SCOPES } },
        "settings": {
            "event_subscriptions": events,
            "interactivity": interactivity,
            "org_deploy_enabled": false,
            "socket_mode_enabled": uses_socket(bot),
            "token_rotation_enabled": false,
        },
    })
}
