//! Assets of the chat page, embedded in the binary. The page loads nothing from any other server.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri};

use super::problem::ChatProblem;

const HTML: &str = include_str!("page/page.html");

/// Name, content type and text.
const ASSETS: [(&str, &str, &str); 7] = [
    ("page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("lines.js", "text/javascript; charset=utf-8", include_str!("page/lines.js")),
    ("marks.js", "text/javascript; charset=utf-8", include_str!("page/marks.js")),
    ("files.js", "text/javascript; charset=utf-8", include_str!("page/files.js")),
    ("code.js", "text/javascript; charset=utf-8", include_str!("page/code.js")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// Content Security Policy: only our own scripts and files, and no framing.
const POLICY: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn show() -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], HTML).into_response()
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(CONTENT_TYPE, *kind)], *text).into_response(),
        None => ChatProblem::NOT_FOUND.into_response(),
    }
}

/// Redirects `/chat/` to `/chat`. The page uses relative URLs, so it must be at one path only.
pub(super) async fn without_slash(uri: Uri) -> Response {
    let there = uri.query().map_or_else(|| "../chat".to_owned(), |query| format!("../chat?{query}"));
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, there)]).into_response()
}

/// Whether other sites may link to this path: the page itself, or the server's root, which redirects to it. With a URL
/// prefix the root can have any path, except one of the page's API.
pub(super) fn is_page(path: &str) -> bool {
    let path = path.trim_end_matches('/');
    path.ends_with("/chat") || !path.contains("/chat/")
}

/// Sets the headers of every response, including refusals.
pub(super) fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "no-referrer");
    set(CACHE_CONTROL, "no-store");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_nothing_outside_this_server() {
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
        for (name, ..) in ASSETS
            .iter()
            .filter(|(name, ..)| !matches!(*name, "code.js" | "files.js" | "lines.js" | "marks.js"))
        {
            assert!(HTML.contains(&format!("\"chat/{name}\"")), "{name}");
        }
        assert_eq!(HTML.matches("<script").count(), HTML.matches("<script type=\"module\" src=").count());
        assert!(!HTML.contains("style=") && !HTML.contains("<style") && !HTML.contains(" onclick"));
    }

    #[test]
    fn the_page_is_known_by_its_path() {
        assert!(
            is_page("/chat")
                && is_page("/prefix/chat/")
                && is_page("/")
                && is_page("/prefix")
                && !is_page("/chat/api/agents")
        );
    }
}
