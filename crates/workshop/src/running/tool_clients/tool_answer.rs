//! Answers of tool servers: counted in the memory budget of the run while they are text, and read into values within
//! the limit of one answer.

use std::sync::Arc;

use serde_json::value::RawValue;
use skill::{ErrorClass, HostFault, JsonFault, ReservedMemory, RunLimits, RunMemory, SkillValue};

use super::mcp_message::ServerMessage;

/// The class of a tool's own failure, as the reference runtime names it.
const TOOL_FAILED: &str = "RemoteMcpDispatchError";

/// An answer as it arrives. Dropping it gives the memory back.
pub struct HeldAnswer {
    pub message: ServerMessage,
    _memory: AnswerMemory,
}

/// The bytes of an answer in the budget of the run that waits for it.
pub struct AnswerMemory(ReservedMemory);

impl AnswerMemory {
    /// Without a budget it counts nothing: a check has none.
    pub fn new(of: Option<Arc<dyn RunMemory>>) -> Self {
        Self(ReservedMemory::new(of))
    }

    /// Follows what has arrived so far.
    pub fn hold(&mut self, bytes: usize) -> Result<(), HostFault> {
        self.0.hold(bytes).map_err(|error| HostFault::new(ErrorClass::OpError, error.message))
    }

    pub fn of(self, message: ServerMessage) -> HeldAnswer {
        HeldAnswer { message, _memory: self }
    }
}

impl HeldAnswer {
    /// The value of the result. Its text counts until then.
    pub fn value(self, what: &str) -> Result<SkillValue, HostFault> {
        read_result(&self.message.result(what)?)
    }
}

/// The result of a call as a value of the language. A result that says it is an error is one.
fn read_result(result: &RawValue) -> Result<SkillValue, HostFault> {
    let limit = RunLimits::default().tool_answer;
    let value = SkillValue::from_json_within(result.get(), limit).map_err(|fault| match fault {
        JsonFault::TooLarge(_) => HostFault::new(
            ErrorClass::OpError,
            format!("the answer of the tool is larger than {limit} bytes"),
        ),
        fault => HostFault::plain(format!("the answer of the tool cannot be read: {fault}")),
    })?;
    if !matches!(value.field("isError"), Some(SkillValue::Bool(true))) {
        return Ok(value);
    }
    let text = value.field("content").and_then(|content| content.field("0")?.field("text"));
    let text = text.as_ref().and_then(SkillValue::as_text).unwrap_or("the tool failed and gave no text");
    Err(HostFault::new(ErrorClass::Other(TOOL_FAILED.into()), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: String) -> Box<RawValue> {
        RawValue::from_string(text).unwrap()
    }

    #[test]
    fn a_small_text_that_would_be_a_large_value_is_refused() {
        let zeros = raw(format!("[{}0]", "0,".repeat(2 << 20)));
        let fault = read_result(&zeros).unwrap_err();
        assert_eq!(fault.message, "the answer of the tool is larger than 16777216 bytes");
        assert!(read_result(&raw(format!("[{}0]", "0,".repeat(1 << 19)))).is_ok());
    }

    #[test]
    fn a_result_that_says_it_is_an_error_is_one() {
        let failed = |text: &str| read_result(&raw(text.to_owned())).unwrap_err().message;
        assert_eq!(failed(r#"{"isError":true,"content":[{"type":"text","text":"no"}]}"#), "no");
        assert_eq!(failed(r#"{"isError":true,"content":[]}"#), "the tool failed and gave no text");
        assert!(read_result(&raw(r#"{"isError":"true"}"#.to_owned())).is_ok());
    }
}
