//! The page and its parts, all of them in the binary: it asks nothing of the network but this house.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY};
use http::header::{X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode, Uri};

use super::problem::Problem;

const HTML: &str = include_str!("page/page.html");

/// Name, type and text.
const ASSETS: [(&str, &str, &str); 5] = [
    ("page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("lines.js", "text/javascript; charset=utf-8", include_str!("page/lines.js")),
    ("markdown.js", "text/javascript; charset=utf-8", include_str!("page/markdown.js")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// No script but ours, nothing from elsewhere, no frame around us.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn show() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], HTML).into_response()
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(CONTENT_TYPE, *kind)], *text).into_response(),
        None => Problem::NOT_FOUND.into_response(),
    }
}

/// The page's own addresses are relative to the folder it lies in, so it has one spelling.
pub(super) async fn without_slash(uri: Uri) -> Response {
    let there = uri.query().map_or_else(|| "../chat".to_owned(), |query| format!("../chat?{query}"));
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, there)]).into_response()
}

/// Is this the path of the page itself?
pub(super) fn is_page(path: &str) -> bool {
    path.trim_end_matches('/').ends_with("/chat")
}

/// The token of an invitation link. Tokens are ours, so any that needs decoding is none.
pub(super) fn invite_in(query: Option<&str>) -> Option<String> {
    let token = query?.split('&').find_map(|pair| pair.strip_prefix("invite="))?;
    let plain = !token.is_empty() && token.len() <= 128 && token.bytes().all(|b| b.is_ascii_alphanumeric());
    plain.then(|| token.to_owned())
}

/// What every answer wears, refusals too.
pub(super) fn dressed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let mut wear = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    wear(CONTENT_SECURITY_POLICY, POLICY);
    wear(X_CONTENT_TYPE_OPTIONS, "nosniff");
    wear(X_FRAME_OPTIONS, "DENY");
    wear(REFERRER_POLICY, "no-referrer");
    wear(CACHE_CONTROL, "no-store");
    wear(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    wear(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_nothing_outside_this_house() {
        for text in ASSETS.iter().map(|(.., text)| *text).chain([HTML]) {
            let foreign = text
                .match_indices("//")
                .filter(|(at, _)| text[..*at].ends_with("http:") || text[..*at].ends_with("https:"));
            let named: Vec<&str> = foreign
                .map(|(at, _)| text[at..].split(['"', '\'', ' ', '\n']).next().unwrap_or(""))
                .collect();
            assert!(named.iter().all(|name| *name == "//www.w3.org/2000/svg" || *name == "//"), "{named:?}");
        }
    }

    #[test]
    fn the_page_asks_only_for_parts_that_exist_and_has_no_inline_script() {
        for (name, ..) in ASSETS.iter().filter(|(name, ..)| !matches!(*name, "markdown.js" | "lines.js")) {
            assert!(HTML.contains(&format!("\"chat/{name}\"")), "{name}");
        }
        assert_eq!(HTML.matches("<script").count(), HTML.matches("<script type=\"module\" src=").count());
        assert!(!HTML.contains("style=") && !HTML.contains("<style") && !HTML.contains(" onclick"));
    }

    #[test]
    fn an_invitation_is_read_from_the_link() {
        assert_eq!(invite_in(Some("a=b&invite=00ff")).as_deref(), Some("00ff"));
        for none in [None, Some(""), Some("invite="), Some("invite=a%20b"), Some("uninvite=1")] {
            assert_eq!(invite_in(none), None, "{none:?}");
        }
        assert!(is_page("/chat") && is_page("/prefix/chat/") && !is_page("/chat/api/agents"));
    }
}
