//! Requests of the stateless revision (2026-07-28): what each one must say about itself.
//!
//! A request names its revision and the capabilities of its client in `params._meta`. Over HTTP, headers repeat the
//! revision, the method and the name of the tool, so that proxies can route without reading the body. A header that
//! disagrees with the body is refused, because a proxy would have let something else pass.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::revision::{McpRevision, names_stateless};
use crate::tools::json_rpc::{INVALID_PARAMS, RpcError, RpcRequest};

pub const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A header does not agree with the body.
const HEADER_MISMATCH: i32 = -32020;
/// The revision of a request is not spoken here.
const UNSUPPORTED_VERSION: i32 = -32022;

/// The status and the error with which a request is refused.
pub type StatelessRefusal = (StatusCode, RpcError);

/// Whether a request belongs to a revision without sessions: by its own words, or else by its header.
pub fn is_stateless(headers: &HeaderMap, request: &RpcRequest) -> bool {
    // A client that speaks both kinds begins with one of these two, whatever its headers are.
    match request.method.as_str() {
        "initialize" => return false,
        "server/discover" => return true,
        _ => {}
    }
    let in_header = headers.get(PROTOCOL_VERSION_HEADER).and_then(|version| version.to_str().ok());
    meta(request, PROTOCOL_VERSION).is_some() || in_header.is_some_and(names_stateless)
}

/// Checks what a request says about itself.
pub fn check(headers: &HeaderMap, request: &RpcRequest) -> Result<(), StatelessRefusal> {
    let version = meta(request, PROTOCOL_VERSION).and_then(Value::as_str);
    let capabilities = meta(request, CLIENT_CAPABILITIES).filter(|capabilities| capabilities.is_object());
    let (Some(version), Some(_)) = (version, capabilities) else {
        let missing: Vec<&str> =
            [(PROTOCOL_VERSION, version.is_none()), (CLIENT_CAPABILITIES, capabilities.is_none())]
                .into_iter()
                .filter_map(|(key, is_missing)| is_missing.then_some(key))
                .collect();
        let message = format!("Invalid params: `_meta` lacks or misstates {}", missing.join(", "));
        return Err((StatusCode::BAD_REQUEST, RpcError::new(INVALID_PARAMS, message)));
    };
    agree(headers, PROTOCOL_VERSION_HEADER, version)?;
    agree(headers, METHOD_HEADER, &request.method)?;
    if request.method == "tools/call"
        && let Some(name) = request.params.get("name").and_then(Value::as_str)
    {
        agree(headers, NAME_HEADER, name)?;
    }
    match McpRevision::named(version) {
        Some(revision) if revision.is_stateless() => Ok(()),
        _ => Err(unsupported(version)),
    }
}

/// The refusal of a revision, with those that are spoken here.
pub fn unsupported(requested: &str) -> StatelessRefusal {
    let data = json!({ "supported": McpRevision::ALL.map(McpRevision::as_str), "requested": requested });
    (StatusCode::BAD_REQUEST, RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version").with(data))
}

fn meta<'r>(request: &'r RpcRequest, key: &str) -> Option<&'r Value> {
    request.params.get("_meta")?.get(key)
}

/// Requires that a header is there once and has the value that the body has.
fn agree(headers: &HeaderMap, header: &'static str, in_body: &str) -> Result<(), StatelessRefusal> {
    let refused = |why: String| Err((StatusCode::BAD_REQUEST, RpcError::new(HEADER_MISMATCH, why)));
    let mut values = headers.get_all(header).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return refused(format!("the header {header} is missing")),
        (Some(_), Some(_)) => return refused(format!("the header {header} is given more than once")),
        (Some(value), None) => value,
    };
    match value.to_str().ok().and_then(decoded) {
        Some(value) if value == in_body => Ok(()),
        _ => refused(format!("the header {header} does not agree with the body")),
    }
}

/// A header value as it was meant. What cannot be a header value comes as `=?base64?…?=`.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|inner| inner.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn request(method: &str, params: Value) -> RpcRequest {
        let Value::Object(params) = params else { panic!("an object") };
        RpcRequest { id: json!(1), method: method.to_owned(), params }
    }

    fn described(method: &str, version: &str, name: Option<&str>) -> RpcRequest {
        let meta = json!({ PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: {} });
        request(method, json!({ "_meta": meta, "name": name }))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn code(headers: &HeaderMap, request: &RpcRequest) -> Option<(u16, i32)> {
        check(headers, request).err().map(|(status, error)| (status.as_u16(), error.code))
    }

    #[test]
    fn the_kind_of_a_request_is_told_by_the_request_itself() {
        let none = HeaderMap::new();
        let new = headers(&[(PROTOCOL_VERSION_HEADER, "2026-07-28")]);
        let old = headers(&[(PROTOCOL_VERSION_HEADER, "2025-11-25")]);
        assert!(!is_stateless(&none, &request("tools/list", json!({}))));
        assert!(!is_stateless(&old, &request("tools/list", json!({}))));
        assert!(is_stateless(&new, &request("tools/list", json!({}))));
        assert!(is_stateless(&none, &described("tools/list", "2026-07-28", None)));
        assert!(is_stateless(&none, &request("server/discover", json!({}))));
        assert!(!is_stateless(&new, &request("initialize", json!({}))));
    }

    #[test]
    fn a_request_must_describe_itself_and_its_headers_must_agree() {
        let call = described("tools/call", "2026-07-28", Some("notify"));
        let version = (PROTOCOL_VERSION_HEADER, "2026-07-28");
        let method = (METHOD_HEADER, "tools/call");
        let good = headers(&[version, method, (NAME_HEADER, "notify")]);
        assert_eq!(code(&good, &call), None);
        for bad in [
            headers(&[method, (NAME_HEADER, "notify")]),
            headers(&[version, (NAME_HEADER, "notify")]),
            headers(&[version, method]),
            headers(&[version, method, (NAME_HEADER, "wake")]),
            headers(&[version, method, (NAME_HEADER, "notify"), (NAME_HEADER, "notify")]),
            headers(&[version, (METHOD_HEADER, "tools/list"), (NAME_HEADER, "notify")]),
            headers(&[(PROTOCOL_VERSION_HEADER, "2025-11-25"), method, (NAME_HEADER, "notify")]),
        ] {
            assert_eq!(code(&bad, &call), Some((400, HEADER_MISMATCH)), "{bad:?}");
        }
        for incomplete in [
            json!({}),
            json!({ "_meta": 5 }),
            json!({ "_meta": { PROTOCOL_VERSION: "2026-07-28" } }),
            json!({ "_meta": { CLIENT_CAPABILITIES: {} } }),
            json!({ "_meta": { PROTOCOL_VERSION: 1, CLIENT_CAPABILITIES: {} } }),
        ] {
            let asked = request("tools/list", incomplete);
            assert_eq!(
                code(&headers(&[version, (METHOD_HEADER, "tools/list")]), &asked),
                Some((400, -32602))
            );
        }
    }

    #[test]
    fn a_name_that_no_header_can_carry_is_encoded() {
        let call = described("tools/call", "2026-07-28", Some("naïve"));
        let all = |name: &str| {
            headers(&[
                (PROTOCOL_VERSION_HEADER, "2026-07-28"),
                (METHOD_HEADER, "tools/call"),
                (NAME_HEADER, name),
            ])
        };
        let encoded = format!("=?base64?{}?=", BASE64_STANDARD.encode("naïve"));
        assert_eq!(code(&all(&encoded), &call), None);
        assert_eq!(code(&all("=?base64?!?="), &call), Some((400, HEADER_MISMATCH)));
    }

    #[test]
    fn an_unknown_revision_is_refused_with_those_that_are_spoken() {
        for other in ["2031-01-01", "2025-11-25"] {
            let asked = described("server/discover", other, None);
            let headers = headers(&[(PROTOCOL_VERSION_HEADER, other), (METHOD_HEADER, "server/discover")]);
            let (status, error) = check(&headers, &asked).unwrap_err();
            assert_eq!((status.as_u16(), error.code), (400, UNSUPPORTED_VERSION));
            let data = error.data.unwrap();
            assert_eq!(data["requested"], other);
            assert_eq!(data["supported"][4], "2026-07-28");
        }
    }
}
