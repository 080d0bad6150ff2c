//! Registration of a bot with Discord: checks its token, sets its address for interactions, and its commands.

use std::time::Duration;

use http::Method;
use posthouse_wire::frame::CommandManifest;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::api::DiscordCall;
use super::commands;
use super::{APPLICATION_ID, Discord, INTERACTIONS_DOOR, LABEL, PUBLIC_KEY, TOKEN};
use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, PlatformBot};
use crate::platform_calls::CallFailure;

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// The flags of an application that may read the content of messages: verified bots with a grant, and small bots.
const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;

#[derive(Deserialize)]
struct CurrentUser {
    id: String,
    username: Option<String>,
}

#[derive(Deserialize)]
struct Application {
    id: String,
    verify_key: Option<String>,
    flags: Option<u64>,
}

pub(super) async fn check_credentials(
    discord: &Discord,
    draft: &OpenedBot,
) -> Result<PlatformBot, BotTrouble> {
    if draft.credentials.get(TOKEN).is_none_or(|token| token.is_empty()) {
        return Err(BotTrouble::Other(
            "a Discord bot needs its token, from the page Bot of its application".to_owned(),
        ));
    }
    let me = DiscordCall::get("GET /users/@me", "/users/@me");
    let me: CurrentUser = discord.call(draft, me, TIME_LIMIT).await.map_err(|failure| trouble(&failure))?;
    let application = DiscordCall::get("GET /applications/@me", "/applications/@me");
    let application: Application =
        discord.call(draft, application, TIME_LIMIT).await.map_err(|failure| trouble(&failure))?;
    if draft.setting(APPLICATION_ID).is_some_and(|known| known != application.id) {
        let id = application.id;
        return Err(BotTrouble::Other(format!(
            "this token belongs to another application, whose id is {id}"
        )));
    }
    if application.flags.is_some_and(|flags| flags & MESSAGE_CONTENT == 0) {
        return Err(BotTrouble::Other(
            "the intent MESSAGE CONTENT is off: switch it on in Discord's developer portal, on the page Bot of the \
             application"
                .to_owned(),
        ));
    }
    let mut settings = Map::new();
    settings.insert(APPLICATION_ID.to_owned(), Value::String(application.id.clone()));
    settings.insert("bot_user_id".to_owned(), Value::String(me.id));
    if let Some(username) = me.username {
        settings.insert("username".to_owned(), Value::String(username));
    }
    if let Some(key) = application.verify_key {
        settings.insert(PUBLIC_KEY.to_owned(), Value::String(key));
    }
    Ok(PlatformBot { id: application.id, settings })
}

/// Sets the address for interactions, if the operator wants them by webhook. Discord checks it at once with test
/// requests.
pub(super) async fn register(
    discord: &Discord,
    bot: &OpenedBot,
    door: Option<&str>,
) -> Result<(), BotTrouble> {
    if bot.setting("mode") != Some("webhook") {
        return Ok(());
    }
    let url = door.map(|door| format!("{door}{INTERACTIONS_DOOR}"));
    let call = DiscordCall::new(Method::PATCH, "PATCH /applications/@me", "/applications/@me".to_owned())
        .json(json!({ "interactions_endpoint_url": url }));
    let set = discord.call::<IgnoredAny>(bot, call, TIME_LIMIT).await;
    set.map(drop).map_err(|failure| trouble(&failure))
}

/// Makes these the global commands of the application. Others are removed.
pub(super) async fn register_commands(
    discord: &Discord,
    bot: &OpenedBot,
    announced: &CommandManifest,
) -> Result<(), BotTrouble> {
    let application = bot.setting(APPLICATION_ID).unwrap_or(bot.id.as_str());
    let body = commands::written(announced);
    if body.len() < announced.0.len() {
        tracing::warn!(bot.id = %bot.id, announced = announced.0.len(), offered = body.len(), "Discord does not offer all commands of a bot");
    }
    let path = format!("/applications/{application}/commands");
    let call = DiscordCall::new(Method::PUT, "PUT /applications/ID/commands", path)
        .of(application)
        .json(body.into());
    let set = discord.call::<IgnoredAny>(bot, call, TIME_LIMIT).await;
    set.map(drop).map_err(|failure| trouble(&failure))
}

fn trouble(failure: &CallFailure) -> BotTrouble {
    BotTrouble::Other(match failure {
        failure if failure.is_credential_dead() => {
            return BotTrouble::CredentialRefused("Discord does not accept this token".to_owned());
        }
        CallFailure::Refused(refused) if !refused.description.is_empty() => {
            format!("Discord refuses: {}", refused.description)
        }
        CallFailure::Unreached(cause) => format!("Discord cannot be reached: {cause}"),
        CallFailure::Lost => "Discord did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    })
}

/// What the operator must do in the developer portal.
pub(super) fn setup_steps(bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
    let application = bot.setting(APPLICATION_ID).unwrap_or(bot.id.as_str());
    let mut steps = vec![format!(
        "Invite the bot to a server: https://discord.com/oauth2/authorize?client_id={application}\
         &scope=bot+applications.commands&permissions=309237763136"
    )];
    match (bot.setting("mode"), door) {
        (Some("webhook"), None) => steps.push(
            "Discord cannot call this server. Set server.public_url to an https address to get interactions by webhook."
                .to_owned(),
        ),
        (Some("webhook"), Some(_)) | (_, None) => {}
        (_, Some(door)) => steps.push(format!(
            "Slash commands and buttons arrive over the gateway. To get them by webhook instead, enter \
             {door}{INTERACTIONS_DOOR} as Interactions Endpoint URL on the page General Information."
        )),
    }
    steps
}
