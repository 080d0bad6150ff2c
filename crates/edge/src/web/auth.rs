//! Authentication of the chat page: the session cookie, and protection against requests of other sites.
//!
//! A person gets a session with an invitation link, and in no other way: neither the peer address nor the host name of
//! a request proves anything. A session is a cookie, which browsers send by themselves, so every request must also come
//! from the chat page itself.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::{Method, request};
use http_kit::ClientAddress;
use identity::{Authentication, Principal};
use ledger::Invitation;

use super::problem::ChatProblem;
use super::routes::ChatPage;
use super::session::cookie;
use super::{NAME, page};

/// The invitation that a request is authenticated by.
#[derive(Clone, Debug)]
pub(super) struct Visitor(pub(super) Arc<Invitation>);

impl Visitor {
    pub fn principal(&self) -> Principal {
        Principal::Person(Arc::clone(&self.0))
    }
}

/// Middleware of every route of the page: refuses requests of other sites, and sets the headers of every response.
pub(super) async fn same_origin(State(chat): State<ChatPage>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let asked = match called_by(&parts) {
        Some(host) => asked_by_our_page(&parts, &host, origin_of(&chat.public_url).as_deref()),
        None => Err("host"),
    };
    let response = match asked {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(reason) => {
            chat.metrics.refused(NAME, reason);
            ChatProblem::NOT_FOUND.into_response()
        }
    };
    page::with_headers(response)
}

/// Middleware of every route that needs a session.
pub(super) async fn admit(State(chat): State<ChatPage>, mut request: Request, next: Next) -> Response {
    let session = cookie(request.headers(), &chat.cookie_name());
    let address = request.extensions().get().map(|ClientAddress(address)| *address);
    match chat.identity.authenticator.person(session, address).await {
        Ok(Authentication::Known(Principal::Person(invitation))) => {
            let principal = Principal::Person(Arc::clone(&invitation));
            if principal.within_limits(request.extensions()).is_err() {
                return ChatProblem::TOO_MANY_STREAMS.into_response();
            }
            request.extensions_mut().insert(Visitor(invitation));
            next.run(request).await
        }
        Ok(_) => {
            chat.metrics.refused(NAME, "not_invited");
            ChatProblem::NOT_INVITED.into_response()
        }
        Err(fault) => ChatProblem::from(fault).into_response(),
    }
}

/// The host of the request in lower case; `None` if there is none or more than one.
fn called_by(parts: &request::Parts) -> Option<String> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok()?,
        (None, _) => parts.uri.authority()?.as_str(),
        _ => return None,
    };
    Some(host.to_ascii_lowercase())
}

/// Checks by `Origin` and `Sec-Fetch-*` that the request comes from the chat page. Any site may link to the page;
/// every other request must come from the page itself, and a request that changes something must prove it.
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
}
