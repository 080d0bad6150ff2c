//! JSON-RPC 2.0: reading one message, and writing the response to it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::error::Category;
use serde_json::{Map, Value, json};

/// The body is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The body is JSON, but not a message.
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
/// Also every failure of a tool: the reference runtime has no other code for it.
pub const INTERNAL_ERROR: i32 = -32603;

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum RpcMessage {
    Request(RpcRequest),
    /// A request without an id, which gets no response.
    Notification(RpcRequest),
    /// The response to a request of ours. We send none, so nobody waits for it.
    Response,
}

/// A request, or a notification, whose id is null.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcRequest {
    /// A string, a number, or null. It is sent back as it came.
    pub id: Value,
    pub method: String,
    pub params: Map<String, Value>,
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RpcError {
    pub code: i32,
    pub message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A message that cannot be served, with the id under which its sender hears of it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadMessage {
    pub id: Value,
    pub error: RpcError,
}

impl RpcError {
    pub fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    #[must_use]
    pub fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Method '{method}' not found"))
    }
}

impl RpcMessage {
    /// Reads a message as the specification of JSON-RPC has it.
    pub fn read(body: &[u8]) -> Result<Self, UnreadMessage> {
        let mut message = read_object(body)?;
        let id = message.remove("id");
        let known_id = id.clone().filter(is_id).unwrap_or_default();
        let invalid = |message: &'static str| UnreadMessage {
            id: known_id.clone(),
            error: RpcError::new(INVALID_REQUEST, message),
        };
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid("Invalid Request: `jsonrpc` must be \"2.0\""));
        }
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            Some(_) => return Err(invalid("Invalid Request: `method` must be a string")),
            None if message.contains_key("result") || message.contains_key("error") => {
                return Ok(Self::Response);
            }
            None => return Err(invalid("Invalid Request: `method` is missing")),
        };
        let params = match message.remove("params") {
            None => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(invalid("Invalid Request: `params` must be an object")),
        };
        match id {
            None => Ok(Self::Notification(RpcRequest { id: Value::Null, method, params })),
            Some(id) if is_id(&id) => Ok(Self::Request(RpcRequest { id, method, params })),
            Some(_) => Err(invalid("Invalid Request: `id` must be a string or a number")),
        }
    }
}

impl RpcRequest {
    /// Reads a request as the reference runtime does: everything gets a response, an absent id counts as null, and
    /// `jsonrpc` is not looked at.
    pub fn read_lenient(body: &[u8]) -> Result<Self, UnreadMessage> {
        let mut message = read_object(body)?;
        let id = message.remove("id").filter(is_id).unwrap_or_default();
        let Some(Value::String(method)) = message.remove("method") else {
            let error = RpcError::new(INVALID_REQUEST, "Invalid Request: `method` must be a string");
            return Err(UnreadMessage { id, error });
        };
        let params = match message.remove("params") {
            Some(Value::Object(params)) => params,
            _ => Map::new(),
        };
        Ok(Self { id, method, params })
    }

    /// Takes the name and the arguments out of a `tools/call`. None if there is no name, or the arguments are no
    /// object.
    pub fn take_tool_call(&mut self) -> Option<(String, Map<String, Value>)> {
        let Some(Value::String(name)) = self.params.remove("name") else { return None };
        match self.params.remove("arguments") {
            None | Some(Value::Null) => Some((name, Map::new())),
            Some(Value::Object(arguments)) => Some((name, arguments)),
            Some(_) => None,
        }
    }
}

/// The response to the request with this id.
pub fn response(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    let (name, value) = match outcome {
        // The macro would copy the result, which can have many megabytes.
        Ok(result) => ("result", result),
        Err(error) => ("error", json!(error)),
    };
    let members = [("jsonrpc", "2.0".into()), ("id", id.clone()), (name, value)];
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_number()
}

fn read_object(body: &[u8]) -> Result<Map<String, Value>, UnreadMessage> {
    serde_json::from_slice(body).map_err(|error| {
        let error = match error.classify() {
            Category::Data => RpcError::new(INVALID_REQUEST, "Invalid Request: one JSON object is expected"),
            Category::Io | Category::Syntax | Category::Eof => RpcError::new(PARSE_ERROR, "Parse error"),
        };
        UnreadMessage { id: Value::Null, error }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> (Value, i32) {
        let unread = RpcMessage::read(body.as_bytes()).unwrap_err();
        (unread.id, unread.error.code)
    }

    #[test]
    fn a_request_has_an_id_and_a_notification_has_none() {
        let read = |body: &str| RpcMessage::read(body.as_bytes()).unwrap();
        let RpcMessage::Request(request) = read(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#) else {
            panic!("a request");
        };
        assert_eq!((request.id, request.method.as_str()), (json!(7), "ping"));
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            RpcMessage::Notification(_)
        ));
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), RpcMessage::Response);
    }

    #[test]
    fn junk_is_told_from_json_that_is_no_message() {
        for junk in ["", "{oops", "{\"a\":1}x", "\u{feff}{}", r#"{"jsonrpc":"2.0","id":"\ud800"}"#] {
            assert_eq!(refused(junk), (Value::Null, PARSE_ERROR), "{junk}");
        }
        for other in ["[]", "1", "null", "\"x\"", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
            assert_eq!(refused(other), (Value::Null, INVALID_REQUEST), "{other}");
        }
        let nested = "[".repeat(100_000);
        assert_eq!(refused(&format!("{{\"params\":{nested}")), (Value::Null, PARSE_ERROR));
    }

    #[test]
    fn a_refused_message_is_answered_under_its_id_if_it_has_one() {
        assert_eq!(refused(r#"{"id":"a","method":"ping"}"#), (json!("a"), INVALID_REQUEST));
        assert_eq!(refused(r#"{"jsonrpc":"2.0","id":3,"method":4}"#), (json!(3), INVALID_REQUEST));
        assert_eq!(
            refused(r#"{"jsonrpc":"2.0","id":3,"method":"m","params":[1]}"#),
            (json!(3), INVALID_REQUEST)
        );
        for no_id in ["null", "true", "{}", "[]"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{no_id},"method":"ping"}}"#);
            assert_eq!(refused(&body), (Value::Null, INVALID_REQUEST), "{body}");
        }
    }

    #[test]
    fn the_lenient_reader_takes_what_the_reference_runtime_takes() {
        let read = |body: &str| RpcRequest::read_lenient(body.as_bytes());
        let request = read(r#"{"method":"tools/list","params":[]}"#).unwrap();
        assert_eq!(request, RpcRequest { id: Value::Null, method: "tools/list".into(), params: Map::new() });
        assert_eq!(read("{oops").unwrap_err().error.code, PARSE_ERROR);
        assert_eq!(read("[]").unwrap_err().error.code, INVALID_REQUEST);
        assert_eq!(read(r#"{"id":5}"#).unwrap_err().id, json!(5));
    }

    #[test]
    fn a_call_of_a_tool_needs_a_name_and_its_arguments_are_an_object() {
        let call = |params: Value| {
            let Value::Object(params) = params else { panic!("an object") };
            RpcRequest { id: Value::Null, method: "tools/call".into(), params }.take_tool_call()
        };
        assert_eq!(call(json!({ "name": "t" })), Some(("t".to_owned(), Map::new())));
        assert_eq!(call(json!({ "name": "t", "arguments": null })), Some(("t".to_owned(), Map::new())));
        for bad in [json!({}), json!({ "name": 1 }), json!({ "name": "t", "arguments": [1] })] {
            assert_eq!(call(bad.clone()), None, "{bad}");
        }
    }
}
