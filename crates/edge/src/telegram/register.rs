//! Registration of a bot with Telegram: checks its token, and sets or removes its webhook.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, EventDelivery, PlatformBot};
use crate::platform_calls::CallFailure;

use super::{ALLOWED_UPDATES, LABEL, TOKEN, Telegram, WEBHOOK_SECRET};

const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Number of webhook calls that Telegram may make at the same time. This is Telegram's own default.
const CONNECTIONS: u32 = 40;

#[derive(Deserialize)]
struct GetMeResult {
    id: i64,
    username: Option<String>,
}

#[derive(Serialize)]
struct GetMe {}

#[derive(Serialize)]
struct SetWebhook<'a> {
    url: &'a str,
    secret_token: &'a str,
    allowed_updates: &'static [&'static str],
    max_connections: u32,
}

#[derive(Serialize)]
struct DeleteWebhook {
    drop_pending_updates: bool,
}

pub(super) async fn check_credentials(
    telegram: &Telegram,
    draft: &OpenedBot,
) -> Result<PlatformBot, BotTrouble> {
    if draft.credentials.get(TOKEN).is_none_or(|token| token.is_empty()) {
        return Err(BotTrouble::Other("a Telegram bot needs its token, as @BotFather gave it".to_owned()));
    }
    let me: GetMeResult =
        telegram.call(draft, "getMe", &GetMe {}, TIME_LIMIT).await.map_err(|failure| trouble(&failure))?;
    if draft.setting("bot_user_id").is_some_and(|known| known != me.id.to_string()) {
        return Err(BotTrouble::Other(format!("this token belongs to another bot, whose id is {}", me.id)));
    }
    let mut settings = Map::new();
    settings.insert("bot_user_id".to_owned(), Value::String(me.id.to_string()));
    if let Some(username) = me.username {
        settings.insert("username".to_owned(), Value::String(username));
    }
    Ok(PlatformBot { id: me.id.to_string(), settings })
}

/// Without a URL that Telegram can call, the bot must poll.
pub(super) fn delivery(bot: &OpenedBot, door: Option<&str>) -> EventDelivery {
    match door {
        Some(_) if bot.setting("mode") != Some("poll") => EventDelivery::Webhook,
        _ => EventDelivery::Polling,
    }
}

pub(super) async fn register(
    telegram: &Telegram,
    bot: &OpenedBot,
    door: Option<&str>,
) -> Result<(), BotTrouble> {
    let registered = match door.filter(|_| delivery(bot, door) == EventDelivery::Webhook) {
        Some(url) => {
            let secret = bot.credentials.get(WEBHOOK_SECRET).filter(|secret| !secret.is_empty());
            // Without a secret, every webhook call would be refused.
            let secret =
                secret.ok_or_else(|| BotTrouble::Other("the bot has no webhook secret".to_owned()))?;
            let params = SetWebhook {
                url,
                secret_token: secret.expose(),
                allowed_updates: ALLOWED_UPDATES,
                max_connections: CONNECTIONS,
            };
            telegram.call::<bool>(bot, "setWebhook", &params, TIME_LIMIT).await
        }
        None => {
            let params = DeleteWebhook { drop_pending_updates: false };
            telegram.call::<bool>(bot, "deleteWebhook", &params, TIME_LIMIT).await
        }
    };
    registered.map(drop).map_err(|failure| trouble(&failure))
}

fn trouble(failure: &CallFailure) -> BotTrouble {
    BotTrouble::Other(match failure {
        failure if failure.is_credential_dead() => {
            return BotTrouble::CredentialRefused("Telegram does not know this token".to_owned());
        }
        CallFailure::Refused(refused) if !refused.description.is_empty() => {
            format!("Telegram refuses: {}", refused.description)
        }
        CallFailure::Unreached(cause) => format!("Telegram cannot be reached: {cause}"),
        CallFailure::Lost => "Telegram did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    })
}
