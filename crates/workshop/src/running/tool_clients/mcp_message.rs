//! Messages that an MCP client sends, and what the answer to one means.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use skill::{HostFault, ToolRequest};

/// Longest id of a request of the server that is answered.
const LONGEST_ID: usize = 256;

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

/// A message of a tool server. Its parts stay text, because values take many times the memory of their text: `0,0,0`
/// takes sixteen times as much.
#[derive(Debug, Deserialize)]
pub struct ServerMessage {
    #[serde(default)]
    id: Option<Box<RawValue>>,
    #[serde(default)]
    method: Option<Box<RawValue>>,
    /// `null` is a result too.
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Box<RawValue>>,
}

/// An error that the server reports.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ServerError {
    code: i64,
    message: Option<String>,
}

impl ServerMessage {
    /// `None` if the bytes are no JSON object.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        // A list could be read as the fields in their order.
        bytes.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice(bytes).ok()).flatten()
    }

    /// The id of the request that this message answers.
    pub fn answered(&self) -> Option<u64> {
        if self.method.is_some() { None } else { self.id.as_ref()?.get().parse().ok() }
    }

    /// The method and the id of a request of the server.
    pub fn request(&self) -> Option<(String, Value)> {
        let id = self.id.as_ref().filter(|id| id.get().len() <= LONGEST_ID)?;
        let method = serde_json::from_str(self.method.as_ref()?.get()).ok()?;
        Some((method, serde_json::from_str(id.get()).ok()?))
    }

    /// Bytes that it holds, roughly.
    pub fn size(&self) -> usize {
        [&self.id, &self.method, &self.result, &self.error]
            .into_iter()
            .flatten()
            .map(|part| part.get().len())
            .sum()
    }

    /// The result, as JSON text. An error that the server reports is a fault of `what`.
    pub fn result(self, what: &str) -> Result<Box<RawValue>, HostFault> {
        if let Some(error) = self.error {
            let ServerError { code, message } = serde_json::from_str(error.get()).unwrap_or_default();
            let message = message.unwrap_or_else(|| "no message".to_owned());
            return Err(HostFault::plain(format!("{what} error {code}: {message}")));
        }
        self.result
            .ok_or_else(|| HostFault::plain(format!("{what}: the answer has neither a result nor an error")))
    }
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ServerMessage {
        ServerMessage::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_answer_has_a_result_or_an_error_and_null_is_a_result() {
        let result = |text| read(text).result("tool x").map(|result| result.get().to_owned());
        assert_eq!(result(r#"{"id":1,"result":{"a": [1]},"more":2}"#).unwrap(), r#"{"a": [1]}"#);
        assert_eq!(result(r#"{"id":1,"result":null}"#).unwrap(), "null");
        assert_eq!(result(r#"{"id":1,"result":1,"error":null}"#).unwrap(), "1");
        let error = |text| result(text).unwrap_err().message;
        assert_eq!(error(r#"{"id":1,"error":{"code":-3,"message":"no"}}"#), "tool x error -3: no");
        assert_eq!(error(r#"{"id":1,"error":{"code":"odd"}}"#), "tool x error 0: no message");
        assert_eq!(error(r#"{"id":1}"#), "tool x: the answer has neither a result nor an error");
    }

    #[test]
    fn answers_requests_and_nonsense_are_told_apart() {
        assert_eq!(read(r#"{"id":7,"result":1}"#).answered(), Some(7));
        assert_eq!(read(r#"{"id":"7","result":1}"#).answered(), None);
        let asked = read(r#"{"id":"a","method":"ping"}"#);
        assert_eq!((asked.answered(), asked.request()), (None, Some(("ping".to_owned(), json!("a")))));
        assert_eq!(read(r#"{"method":"note"}"#).request(), None);
        for nonsense in ["", "1", "[7,null,1]", "{", "{\"id\":}"] {
            assert!(ServerMessage::read(nonsense.as_bytes()).is_none(), "{nonsense}");
        }
    }
}
