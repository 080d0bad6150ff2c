//! Sign-in: exchanges the secret of an invitation link for a session cookie.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use http_kit::ClientAddress;
use identity::{Authentication, Principal, fingerprint};
use posthouse_wire::Secret;
use serde::Deserialize;
use serde_json::json;

use super::invitations::SESSION_LIFE;
use super::problem::ChatProblem;
use super::routes::{Body, ChatPage, read};

/// The longest body of this request, which anyone may send.
const LONGEST_EXCHANGE: usize = 4 * 1024;

#[derive(Deserialize)]
pub(super) struct SignInRequest {
    /// The secret of the link.
    secret: Secret,
    /// The person has confirmed that this invitation replaces the browser's current one.
    #[serde(default)]
    replace: bool,
}

/// Redeems a link. If the browser is signed in with another invitation, the person has to confirm first.
pub(super) async fn exchange(
    State(chat): State<ChatPage>,
    address: Option<Extension<ClientAddress>>,
    headers: HeaderMap,
    body: Body<LONGEST_EXCHANGE>,
) -> Result<Response, ChatProblem> {
    let SignInRequest { secret, replace } = read(body)?;
    let invitations = &chat.web.invitations;
    let link = fingerprint(secret.expose());
    let Some(invited) = invitations.behind_link(&link).await? else { return Err(ChatProblem::BAD_LINK) };
    let old = cookie(&headers, &chat.cookie_name());
    let address = address.map(|Extension(ClientAddress(address))| address);
    let signed_in = chat.identity.authenticator.person(old, address).await?;
    if let Authentication::Known(Principal::Person(current)) = signed_in
        && current.id != invited.id
        && !replace
    {
        return Err(ChatProblem::other_invitation(&current.person, &invited.person));
    }
    let (session, stored) = chat.web.secret(SESSION_LIFE)?;
    let Some(invited) = invitations.redeem_link(&link, stored).await? else {
        return Err(ChatProblem::BAD_LINK);
    };
    if let Some(old) = old {
        invitations.end_session(&fingerprint(old)).await?;
    }
    tracing::info!(invitation.id = %invited.id, "an invitation link was used");
    let mut response = Json(json!({ "person": invited.person })).into_response();
    response.headers_mut().append(SET_COOKIE, set_cookie(&chat, &session)?);
    Ok(response)
}

fn set_cookie(chat: &ChatPage, session: &Secret) -> Result<HeaderValue, ChatProblem> {
    let secure = if chat.public_url.starts_with("https:") { "; Secure" } else { "" };
    let text = format!(
        "{}={}; Path={}; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        chat.cookie_name(),
        session.expose(),
        chat.page_path(),
        SESSION_LIFE.as_secs()
    );
    let mut value = HeaderValue::from_str(&text).map_err(|_| ChatProblem::NOT_FOUND)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The value of the cookie of this name.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_static("a=b; chat=tok; chatty=no"));
        assert_eq!(cookie(&headers, "chat"), Some("tok"));
        headers.insert(COOKIE, HeaderValue::from_static("chatty=no"));
        assert_eq!(cookie(&headers, "chat"), None);
    }
}
