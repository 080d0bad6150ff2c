//! Registration of a bot with Twilio: checks its account, its keys and its number.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Map;

use super::api::{TwilioCall, is_sid, trouble_words};
use super::{
    ACCOUNT, API_KEY_ID, API_KEY_SECRET, AUTH_TOKEN, NUMBER, SHARED_KEY, SHARED_KEY_ID, Twilio, TwilioChannel,
};
use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, PlatformBot};
use crate::platform_calls::CallFailure;

const TIME_LIMIT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct TwilioAccountState {
    status: String,
}

pub(super) async fn check_credentials(twilio: &Twilio, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
    let other = |text: &str| BotTrouble::Other(text.to_owned());
    if !draft.setting(ACCOUNT).is_some_and(|account| account.starts_with("AC") && is_sid(account)) {
        return Err(other("the setting `account_sid` must be the SID of the account, which begins with AC"));
    }
    if draft.credentials.get(AUTH_TOKEN).is_none_or(|token| token.is_empty()) {
        return Err(other("a Twilio bot needs the auth token of its account, because it signs the webhooks"));
    }
    let number = draft.setting(NUMBER).and_then(|number| number.strip_prefix('+'));
    let number = number.filter(|digits| (5..=15).contains(&digits.len()) && is_number(digits));
    let number = number.ok_or_else(|| {
        other("the setting `number` must be the bot's phone number with its country code, such as +15550100")
    })?;
    for (setting, secret) in [(API_KEY_ID, API_KEY_SECRET), (SHARED_KEY_ID, SHARED_KEY)] {
        if draft.setting(setting).is_some()
            != draft.credentials.get(secret).is_some_and(|key| !key.is_empty())
        {
            return Err(BotTrouble::Other(format!(
                "the setting `{setting}` and the secret `{secret}` need each other"
            )));
        }
    }
    let refused = |failure: CallFailure, credential: &str| match failure.is_credential_dead() {
        true => BotTrouble::CredentialRefused(format!("Twilio does not accept this {credential}")),
        false => BotTrouble::Other(trouble_words(&failure)),
    };
    let account = TwilioCall::get("GET account", ".json".to_owned()).with_auth_token();
    let account = twilio.call::<TwilioAccountState>(draft, account, TIME_LIMIT).await;
    let account = account.map_err(|failure| refused(failure, "account and auth token"))?;
    if account.status != "active" {
        return Err(BotTrouble::Other(format!("the account at Twilio is {}", account.status)));
    }
    if draft.setting(API_KEY_ID).is_some() {
        let listed = TwilioCall::get("GET Messages", "/Messages.json?PageSize=1".to_owned());
        let listed = twilio.call::<IgnoredAny>(draft, listed, TIME_LIMIT).await;
        // Messages are sent with the key, so that without it the bot is as dead as without its auth token.
        listed.map_err(|failure| refused(failure, "API key"))?;
    }
    Ok(PlatformBot { id: number.to_owned(), settings: Map::new() })
}

fn is_number(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// What the operator must do in Twilio's console.
pub(super) fn setup_steps(channel: TwilioChannel, door: Option<&str>) -> Vec<String> {
    let Some(door) = door else {
        let needed =
            "Twilio cannot call this server. Set server.public_url to an https address that it can reach.";
        return vec![needed.to_owned()];
    };
    let place = match channel {
        TwilioChannel::Sms => {
            "Phone Numbers > Manage > Active numbers > the number > Messaging Configuration"
        }
        TwilioChannel::WhatsApp => {
            "Messaging > Senders > WhatsApp senders > the sender > Endpoint configuration"
        }
    };
    vec![format!(
        "In Twilio's console, at {place}, enter {door} as the URL for incoming messages, with HTTP POST."
    )]
}
