//! Registration of a bot with its homeserver: checks its token, and tells the operator what the registration file needs.

use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::api::MatrixCall;
use super::ids::{bot_id, is_user_id, server_of};
use super::{DISPLAY_NAME, LABEL, Matrix, TOKEN, USER_ID, USERNAME, is_appservice};
use crate::bots::OpenedBot;
use crate::platform::{BotTrouble, PlatformBot};
use crate::platform_calls::CallFailure;

const TIME_LIMIT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct TokenOwner {
    user_id: String,
}

#[derive(Deserialize)]
struct MatrixProfile {
    displayname: Option<String>,
}

pub(super) async fn check_credentials(matrix: &Matrix, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
    let other = |text: &str| Err(BotTrouble::Other(text.to_owned()));
    if draft.credentials.get(TOKEN).is_none_or(|token| token.is_empty()) {
        return other(
            "a Matrix bot needs a token: the as_token of its registration file, or the access token of an ordinary user",
        );
    }
    let call =
        MatrixCall::new(Method::GET, "GET whoami", &["client", "v3", "account", "whoami"]).by_service();
    let owner: TokenOwner =
        matrix.call(draft, call, TIME_LIMIT).await.map_err(|failure| trouble(&failure))?;
    let Some(server) = server_of(&owner.user_id).filter(|_| is_user_id(&owner.user_id)) else {
        return other("the homeserver does not say whose token this is");
    };
    let user = match draft.setting(USERNAME).filter(|_| is_appservice(draft)) {
        Some(username) if is_localpart(username) => format!("@{username}:{server}"),
        Some(_) => return other("username is the first part of a user id, such as posty"),
        None => owner.user_id.clone(),
    };
    if draft.setting(USER_ID).is_some_and(|known| known != user) {
        return Err(BotTrouble::Other(format!("this token belongs to another user, {user}")));
    }
    if is_appservice(draft) {
        make_user(matrix, draft, &user, user == owner.user_id).await?;
    }
    let mut settings = Map::new();
    settings.insert(USER_ID.to_owned(), Value::String(user.clone()));
    let call = MatrixCall::new(Method::GET, "GET profile", &["client", "v3", "profile", &user]).by_service();
    // A user without a profile has no name.
    if let Ok(MatrixProfile { displayname: Some(name) }) = matrix.call(draft, call, TIME_LIMIT).await {
        settings.insert(DISPLAY_NAME.to_owned(), Value::String(name));
    }
    Ok(PlatformBot { id: bot_id(&user), settings })
}

/// Registers the user of an application service. Repeating it changes nothing.
async fn make_user(
    matrix: &Matrix,
    draft: &OpenedBot,
    user: &str,
    is_sender: bool,
) -> Result<(), BotTrouble> {
    let localpart = user.trim_start_matches('@').split(':').next().unwrap_or_default();
    let body = json!({ "type": "m.login.application_service", "username": localpart, "inhibit_login": true });
    let call = MatrixCall::new(Method::POST, "POST register", &["client", "v3", "register"]);
    match matrix.call::<IgnoredAny>(draft, call.by_service().with_json(body), TIME_LIMIT).await {
        Ok(_) => Ok(()),
        Err(CallFailure::Refused(refusal)) if refusal.says("m_user_in_use") => Ok(()),
        // The sender of the registration exists, although it may be outside of the registered names.
        Err(CallFailure::Refused(refusal)) if is_sender && refusal.says("m_exclusive") => Ok(()),
        Err(CallFailure::Refused(refusal)) if refusal.says("m_exclusive") => Err(BotTrouble::Other(format!(
            "{user} is outside of the names in the registration file: add it to namespaces.users"
        ))),
        Err(failure) => Err(trouble(&failure)),
    }
}

fn is_localpart(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._=-/+".contains(&byte);
    (1..=200).contains(&name.len()) && name.bytes().all(allowed)
}

fn trouble(failure: &CallFailure) -> BotTrouble {
    BotTrouble::Other(match failure {
        failure if failure.is_credential_dead() => {
            return BotTrouble::CredentialRefused(
                "the homeserver does not accept this token. A homeserver reads new registration files only when it \
                 starts"
                    .to_owned(),
            );
        }
        CallFailure::Refused(refused) if !refused.description.is_empty() => {
            format!("the homeserver refuses: {}", refused.description)
        }
        CallFailure::Unreached(cause) => format!("the homeserver cannot be reached: {cause}"),
        CallFailure::Lost => "the homeserver did not answer in time".to_owned(),
        CallFailure::Refused(_) | CallFailure::TooLarge => failure.cause(LABEL),
    })
}

/// What the operator must do at the homeserver.
pub(super) fn setup_steps(bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
    let user = bot.setting(USER_ID).unwrap_or("the bot's user");
    let invite = format!("Invite {user} to a room without encryption. It joins by itself.");
    if !is_appservice(bot) {
        return vec![invite];
    }
    let Some(door) = door else {
        let needed = "The homeserver cannot call this server. Set server.public_url to an https address that it can \
                      reach.";
        return vec![needed.to_owned()];
    };
    vec![
        format!("Set this in the registration file, and restart the homeserver: url: \"{door}\""),
        "Set rate_limited: false there too, or the homeserver delays messages of the bot.".to_owned(),
        invite,
    ]
}
