//! Messages that an MCP client sends, and what the answer to one means.

use serde_json::{Value, json};
use skill::{HostFault, ToolRequest};

/// A request with an id.
pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn notification(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

pub fn initialize(protocol_version: &str, client_name: &str, client_version: &str) -> Value {
    json!({
        "protocolVersion": protocol_version,
        "capabilities": {},
        "clientInfo": { "name": client_name, "version": client_version },
    })
}

/// The parameters of a call.
pub fn call(of: &ToolRequest) -> Result<Value, HostFault> {
    let arguments = serde_json::to_value(skill::SkillValue::from(of.arguments.clone()))
        .map_err(|_| HostFault::plain("the arguments cannot be written as JSON"))?;
    Ok(json!({ "name": &*of.tool, "arguments": arguments }))
}

/// The result of an answer. An error that the server reports is a fault of `what`.
pub fn result(mut answer: Value, what: &str) -> Result<Value, HostFault> {
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let code = error["code"].as_i64().unwrap_or_default();
        let message = error["message"].as_str().unwrap_or("no message");
        return Err(HostFault::plain(format!("{what} error {code}: {message}")));
    }
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(HostFault::plain(format!("{what}: the answer has neither a result nor an error"))),
    }
}

/// Whether a message answers the request with this id.
pub fn answers(message: &Value, id: u64) -> bool {
    message.get("method").is_none() && message.get("id").and_then(Value::as_u64) == Some(id)
}
