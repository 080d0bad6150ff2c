//! Who may use the page: whoever sits at this machine, and whoever was invited.
//!
//! Being at this machine is believed only when everything says so: the peer's address, the name the
//! browser called us by (a foreign name that resolves to loopback is an attack), the page that asked, and
//! no sign of a proxy in between. Everybody else needs an invitation, and without one finds nothing.

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{COOKIE, HOST, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, request};
use relay::Caller;

use super::person::Person;
use super::problem::Problem;
use super::routes::Chat;
use super::{NAME, page};

/// Somebody who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Visitor {
    /// Sits at this machine: may speak under any name and connect agents.
    AtHome,
    /// Came by invitation: speaks under that name, in their own rooms.
    Invited(Person),
}

const CHAT_COOKIE: &str = "posthouse_chat";

/// How long a browser remembers an invitation; withdrawing one works at once.
const COOKIE_SECONDS: u32 = 180 * 24 * 60 * 60;

/// What is kept of an invitation's token.
pub(super) fn fingerprint(token: &str) -> String {
    hex::encode(digest(&SHA256, token.as_bytes()))
}

/// Stands before every route of the page.
pub(super) async fn admit(State(chat): State<Chat>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let link = page::invite_in(parts.uri.query());
    let visitor = match recognise(&chat, &parts, link.as_deref()).await {
        Ok(visitor) => visitor,
        Err(Turned::Away(reason)) => {
            chat.metrics.refused(NAME, reason);
            return page::dressed(Problem::NOT_FOUND.into_response());
        }
        Err(Turned::Fault(problem)) => return page::dressed(problem.into_response()),
    };
    let cookie = link.filter(|_| matches!(visitor, Visitor::Invited(_)));
    parts.extensions.insert(visitor);
    let mut response = page::dressed(next.run(Request::from_parts(parts, body)).await);
    if let Some(token) = cookie {
        let secure = if chat.public_url.starts_with("https:") { "; Secure" } else { "" };
        // Without a path it holds for the folder of the page, wherever the house is mounted.
        let text =
            format!("{CHAT_COOKIE}={token}; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}{secure}");
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(SET_COOKIE, value);
        }
    }
    response
}

enum Turned {
    /// For a reason that only the counters learn.
    Away(&'static str),
    Fault(Problem),
}

async fn recognise(chat: &Chat, parts: &request::Parts, link: Option<&str>) -> Result<Visitor, Turned> {
    let host = called_by(parts).ok_or(Turned::Away("host"))?;
    let public = origin_of(&chat.public_url);
    // A house that is reached from elsewhere has a proxy in front of it, and a plain one calls us by our
    // loopback name from a loopback address: there, nobody is at home.
    let is_private = public
        .as_deref()
        .and_then(|origin| origin.split_once("://"))
        .is_none_or(|(_, name)| is_loopback_name(name));
    let at_home = is_private
        && is_loopback_name(&host)
        && parts.extensions.get::<Caller>().is_some_and(|caller| caller.0.to_canonical().is_loopback())
        && !came_through_a_proxy(&parts.headers);
    if at_home {
        asked_by_our_page(parts, &host, None).map_err(Turned::Away)?;
        return Ok(Visitor::AtHome);
    }
    let is_public =
        public.as_deref().and_then(|origin| origin.split_once("://")).is_some_and(|(_, name)| name == host);
    if !is_public && !is_loopback_name(&host) {
        return Err(Turned::Away("host"));
    }
    asked_by_our_page(parts, &host, public.as_deref()).map_err(Turned::Away)?;
    let token = link.or_else(|| cookie(&parts.headers)).ok_or(Turned::Away("not_invited"))?;
    let invite =
        chat.web.rooms.invited(&fingerprint(token)).await.map_err(|fault| Turned::Fault(fault.into()))?;
    let person = invite.and_then(|invite| Person::read(&invite.person)).ok_or(Turned::Away("not_invited"))?;
    Ok(Visitor::Invited(person))
}

/// The name we were called by, lower case; nothing when there is none or more than one.
fn called_by(parts: &request::Parts) -> Option<String> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok()?,
        (None, _) => parts.uri.authority()?.as_str(),
        _ => return None,
    };
    Some(host.to_ascii_lowercase())
}

fn is_loopback_name(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        host.strip_prefix(name).is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        })
    })
}

fn came_through_a_proxy(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        matches!(name, "forwarded" | "via" | "x-real-ip") || name.starts_with("x-forwarded-")
    })
}

/// Was it our own page that asked, as far as browsers tell? Following a link to the page is fine from
/// anywhere; everything else must come from the page itself, and whatever changes something must say so.
fn asked_by_our_page(parts: &request::Parts, host: &str, public: Option<&str>) -> Result<(), &'static str> {
    let text = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let mut proven = reads;
    if let Some(origin) = text(ORIGIN.as_str()) {
        let origin = origin.to_ascii_lowercase();
        let is_host = origin
            .split_once("://")
            .is_some_and(|(scheme, name)| matches!(scheme, "http" | "https") && name == host);
        if !is_host && public != Some(origin.as_str()) {
            return Err("origin");
        }
        proven = true;
    }
    match text("sec-fetch-site") {
        None => {}
        Some("same-origin") => proven = true,
        Some("none") if reads => {}
        Some(_) if reads && page::is_page(parts.uri.path()) && text("sec-fetch-mode") == Some("navigate") => {
        }
        Some(_) => return Err("origin"),
    }
    if proven { Ok(()) } else { Err("origin") }
}

/// Scheme and authority of a URL, lower case.
fn origin_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
    Some(format!("{scheme}://{authority}").to_ascii_lowercase())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(CHAT_COOKIE)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, path: &str, headers: &[(&str, &str)]) -> Result<(), &'static str> {
        let mut request = http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        asked_by_our_page(&parts, "localhost:7678", Some("https://post.example"))
    }

    #[test]
    fn only_the_three_names_of_this_machine_are_its_own() {
        for good in ["localhost", "localhost:7678", "127.0.0.1:1", "[::1]", "[::1]:7678"] {
            assert!(is_loopback_name(good), "{good}");
        }
        for bad in
            ["localhost.evil.example", "127.0.0.1.nip.io", "evil.example", "localhost:x", "127.0.0.2", ""]
        {
            assert!(!is_loopback_name(bad), "{bad}");
        }
    }

    #[test]
    fn whatever_changes_something_must_come_from_the_page_itself() {
        let api = "/chat/api/rooms";
        assert!(asked(Method::POST, api, &[("origin", "http://localhost:7678")]).is_ok());
        assert!(asked(Method::POST, api, &[("origin", "https://post.example")]).is_ok());
        assert!(asked(Method::POST, api, &[("sec-fetch-site", "same-origin")]).is_ok());
        let foreign: [&[(&str, &str)]; 6] = [
            &[],
            &[("origin", "null")],
            &[("origin", "http://evil.example")],
            &[("origin", "http://localhost:7679")],
            &[("sec-fetch-site", "none")],
            &[("origin", "http://localhost:7678"), ("sec-fetch-site", "same-site")],
        ];
        for headers in foreign {
            assert_eq!(asked(Method::POST, api, headers), Err("origin"), "{headers:?}");
        }
    }

    #[test]
    fn another_site_may_link_to_the_page_but_read_nothing_of_it() {
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert!(asked(Method::GET, "/chat", &link).is_ok());
        assert!(asked(Method::GET, "/chat/api/agents", &link).is_err());
        assert!(asked(Method::GET, "/chat/api/agents", &[("sec-fetch-site", "cross-site")]).is_err());
        assert!(asked(Method::GET, "/chat/api/agents", &[("origin", "http://evil.example")]).is_err());
        assert!(
            asked(Method::GET, "/chat", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")])
                .is_err()
        );
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_static("a=b; posthouse_chat=tok; posthouse_chatty=no"));
        assert_eq!(cookie(&headers), Some("tok"));
        headers.insert(COOKIE, HeaderValue::from_static("posthouse_chatty=no"));
        assert_eq!(cookie(&headers), None);
    }
}
