//! The reader of JSON-RPC messages, which are read before anything of them is trusted.

use serde_json::Value;
use workshop::{RpcMessage, RpcRequest, rpc_response};

use super::Target;

pub fn json_rpc() -> Target {
    let read = |input: &[u8]| {
        let strict = RpcMessage::read(input);
        let lenient = RpcRequest::read_lenient(input);
        // Whatever is refused is refused under an id that a response can carry.
        for unread in [strict.as_ref().err(), lenient.as_ref().err()].into_iter().flatten() {
            assert!(unread.id.is_null() || unread.id.is_string() || unread.id.is_number());
            assert!(matches!(unread.error.code, -32700 | -32600), "{unread:?}");
        }
        match strict {
            Ok(RpcMessage::Request(request)) => {
                assert_eq!(lenient.as_ref(), Ok(&request), "the lenient reader takes every request");
                let answer = rpc_response(&request.id, Ok(Value::Null)).to_string();
                assert!(!answer.contains('\n'), "an answer is one line: {answer}");
                let call = request.clone().take_tool_call();
                format!("request {} {}", request.method.len().min(3), call.is_some())
            }
            Ok(RpcMessage::Notification(request)) => {
                assert_eq!(lenient.as_ref(), Ok(&request));
                format!("notification {}", request.params.len().min(2))
            }
            Ok(RpcMessage::Response) => "response".to_owned(),
            Err(unread) => format!("{} {}", unread.error.message, unread.id.is_null()),
        }
    };
    Target { corpus: "json-rpc", vectors: &["skills/contracts/mcp-wire.json"], read: Box::new(read) }
}
