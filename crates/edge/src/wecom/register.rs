//! Registration of bots with WeCom: checks their credentials, and says what the operator must enter where.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::api::WeComCall;
use super::envelope::EnvelopeKey;
use super::{
    AES_KEY, AGENT, BOT, CALLBACK_TOKEN, CORP, LABEL, MODE, SECRET, SUITE, WeCom, WeComProduct,
    long_connection, uses_long_connection,
};
use crate::bots::OpenedBot;
use crate::platform::{BotField, BotTrouble, PlatformBot};
use crate::platform_calls::CallFailure;

const TIME_LIMIT: Duration = Duration::from_secs(20);

pub(super) fn fields(product: WeComProduct) -> &'static [BotField] {
    const APP: &[BotField] = &[
        BotField::setting(CORP, "the id of the company (CorpID), from the page My Company"),
        BotField::setting(AGENT, "the AgentId of the application, a number"),
        BotField::setting(SUITE, "the SuiteID, if a service provider runs the application").optional(),
        BotField::secret(SECRET, "the Secret of the application"),
        BotField::secret(CALLBACK_TOKEN, "the Token, from the page Receive Messages of the application"),
        BotField::secret(AES_KEY, "the EncodingAESKey of the same page, 43 letters and digits"),
    ];
    const AI_BOT: &[BotField] = &[
        BotField::setting(BOT, "the Bot ID of the AI bot"),
        BotField::setting(MODE, "`webhook` to get callbacks although the bot has a secret").optional(),
        BotField::secret(SECRET, "the Secret of the AI bot; opens the long connection").optional(),
        BotField::secret(CALLBACK_TOKEN, "the Token, if the AI bot gets callbacks").optional(),
        BotField::secret(AES_KEY, "the EncodingAESKey of the same page, 43 letters and digits").optional(),
    ];
    match product {
        WeComProduct::App => APP,
        WeComProduct::AiBot => AI_BOT,
    }
}

/// An id that can be a part of the id of a bot.
fn is_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn other(text: &str) -> BotTrouble {
    BotTrouble::Other(text.to_owned())
}

pub(super) async fn check_credentials(wecom: &WeCom, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
    match wecom.product {
        WeComProduct::App => check_app(wecom, draft).await,
        WeComProduct::AiBot => check_ai_bot(wecom, draft).await,
    }
}

#[derive(Deserialize)]
struct ApplicationInfo {
    name: Option<String>,
}

async fn check_app(wecom: &WeCom, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
    let corp = draft.setting(CORP).filter(|corp| is_id(corp));
    let corp = corp.ok_or_else(|| other("the setting `corp_id` must be the id of the company"))?;
    let agent = draft.setting(AGENT).filter(|agent| agent.parse::<u64>().is_ok());
    let agent = agent.ok_or_else(|| other("the setting `agent_id` must be the number of the application"))?;
    check_callback_keys(draft)?;
    let call = WeComCall::get("agent/get", vec![("agentid", agent.to_owned())]);
    let found: ApplicationInfo =
        wecom.call(draft, call, TIME_LIMIT).await.map_err(|failure| trouble(&failure))?;
    let mut settings = Map::new();
    if let Some(name) = found.name {
        settings.insert("name".to_owned(), Value::String(name));
    }
    Ok(PlatformBot { id: format!("{corp}-{agent}"), settings })
}

async fn check_ai_bot(wecom: &WeCom, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
    let id = draft.setting(BOT).filter(|id| is_id(id));
    let id = id.ok_or_else(|| other("the setting `bot_id` must be the Bot ID of the AI bot"))?;
    if uses_long_connection(draft) {
        long_connection::check(wecom, draft).await.map_err(|failure| trouble(&failure))?;
    } else {
        // Nothing can be asked: WeCom itself proves the keys when the operator saves the URL.
        check_callback_keys(draft)?;
    }
    Ok(PlatformBot { id: id.to_owned(), settings: Map::new() })
}

fn check_callback_keys(draft: &OpenedBot) -> Result<(), BotTrouble> {
    if draft.credentials.get(CALLBACK_TOKEN).is_none_or(|token| token.is_empty()) {
        return Err(other(
            "the bot needs the Token of its callbacks, or an AI bot the Secret of its long connection",
        ));
    }
    match EnvelopeKey::of(draft) {
        Ok(_) => Ok(()),
        Err(_) => Err(other("the EncodingAESKey must have 43 letters and digits")),
    }
}

fn trouble(failure: &CallFailure) -> BotTrouble {
    BotTrouble::Other(match failure {
        failure if failure.is_credential_dead() => {
            return BotTrouble::CredentialRefused("WeCom does not accept this id and secret".to_owned());
        }
        CallFailure::Refused(refused) if !refused.description.is_empty() => refused.description.clone(),
        CallFailure::Unreached(cause) => format!("WeCom cannot be reached: {cause}"),
        CallFailure::Lost => "WeCom did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    })
}

/// What the operator must do in WeCom's console.
pub(super) fn setup_steps(product: WeComProduct, bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
    if product == WeComProduct::AiBot && uses_long_connection(bot) {
        return vec![
            "Set the AI bot's API mode to the long connection. No other program may connect as this bot: WeCom keeps \
             only the newest connection."
                .to_owned(),
        ];
    }
    let Some(door) = door else {
        let needed =
            "WeCom cannot call this server. Set server.public_url to an https address that it can reach.";
        return vec![needed.to_owned()];
    };
    let page = match product {
        WeComProduct::App => "On the page Receive Messages of the application",
        WeComProduct::AiBot => "In the AI bot's API mode, with callbacks",
    };
    let mut steps = vec![format!(
        "{page}, enter the URL {door} with the Token and EncodingAESKey that the bot has here, and save it. WeCom \
         checks the URL at once, so the server must run."
    )];
    if product == WeComProduct::App {
        steps.push("Add the address of this server to the trusted IPs of the application.".to_owned());
    }
    steps
}
