//! Registration of a bot with WhatsApp: checks its token and number, and sets the number's webhook.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::api::{GraphCall, is_path_part};
use super::{LABEL, NUMBER, TOKEN, VERIFY_TOKEN, WhatsApp, number_of};
use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, PlatformBot};
use crate::platform_calls::{CallFailure, RefusalKind};

const TIME_LIMIT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct PhoneNumber {
    id: String,
    display_phone_number: Option<String>,
}

pub(super) async fn check_credentials(
    whatsapp: &WhatsApp,
    draft: &OpenedBot,
) -> Result<PlatformBot, BotTrouble> {
    if draft.credentials.get(TOKEN).is_none_or(|token| token.is_empty()) {
        let missing = "a WhatsApp bot needs the access token of a system user, from Meta's business settings";
        return Err(BotTrouble::Other(missing.to_owned()));
    }
    let number = draft.setting(NUMBER).unwrap_or_default();
    if !is_path_part(number) {
        let missing = "the setting `phone_number_id` must be the id of the phone number, not the number itself; Meta's \
                       app dashboard shows it on the page API Setup";
        return Err(BotTrouble::Other(missing.to_owned()));
    }
    let call =
        GraphCall::get("GET number", format!("/{number}?fields=id,display_phone_number,verified_name"));
    let found: PhoneNumber =
        whatsapp.call(draft, call, TIME_LIMIT).await.map_err(|failure| trouble(&failure))?;
    if found.id != number {
        return Err(BotTrouble::Other(format!(
            "the token belongs to another number, whose id is {}",
            found.id
        )));
    }
    let mut settings = Map::new();
    if let Some(shown) = found.display_phone_number {
        settings.insert("display_phone_number".to_owned(), Value::String(shown));
    }
    Ok(PlatformBot { id: found.id, settings })
}

/// Sets the webhook of the number, which takes precedence over that of the app, or removes it. WhatsApp checks a new
/// URL at once with a handshake.
pub(super) async fn register(
    whatsapp: &WhatsApp,
    bot: &OpenedBot,
    door: Option<&str>,
) -> Result<(), BotTrouble> {
    let configuration = match door {
        Some(url) => {
            let token = bot.credentials.get(VERIFY_TOKEN).filter(|token| !token.is_empty());
            let token = token.ok_or_else(|| BotTrouble::Other("the bot has no verify token".to_owned()))?;
            json!({ "override_callback_uri": url, "verify_token": token.expose() })
        }
        None => json!({ "override_callback_uri": "" }),
    };
    let body = json!({ "webhook_configuration": configuration });
    let call = GraphCall::post("POST number", format!("/{}", number_of(bot)), body);
    let set = whatsapp.call::<IgnoredAny>(bot, call, TIME_LIMIT).await;
    set.map(drop).map_err(|failure| trouble(&failure))
}

fn trouble(failure: &CallFailure) -> BotTrouble {
    BotTrouble::Other(match failure {
        failure if failure.is_credential_dead() => {
            return BotTrouble::CredentialRefused("WhatsApp does not accept this token".to_owned());
        }
        CallFailure::Refused(refused) if refused.code == 100 => {
            format!(
                "WhatsApp does not know this phone number id, or the token may not use it: {}",
                refused.description
            )
        }
        CallFailure::Refused(refused) if refused.kind == RefusalKind::Forbidden => {
            format!("the token lacks the permission whatsapp_business_messaging: {}", refused.description)
        }
        CallFailure::Refused(refused) if !refused.description.is_empty() => {
            format!("WhatsApp refuses: {}", refused.description)
        }
        CallFailure::Unreached(cause) => format!("WhatsApp cannot be reached: {cause}"),
        CallFailure::Lost => "WhatsApp did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    })
}

/// What the operator must do in Meta's app dashboard.
pub(super) fn setup_steps(door: Option<&str>) -> Vec<String> {
    let Some(door) = door else {
        let needed =
            "WhatsApp cannot call this server. Set server.public_url to an https address that it can reach.";
        return vec![needed.to_owned()];
    };
    vec![
        "In Meta's app dashboard, on the page WhatsApp > Configuration, subscribe the app to the webhook field \
         `messages`."
            .to_owned(),
        format!("Nothing has to be pasted: the server itself sets {door} as the webhook of this phone number."),
    ]
}
