//! Parser of answers in the form `{content, correlation_id?, agent_id?, sent_at?}`.

use posthouse_wire::CorrelationId;
use serde_json::{Map, Value};

use super::ConnectorReply;
use crate::conversations::LONGEST_TEXT;

/// The longest answer: the same limit as for a message over the relay.
const LONGEST: usize = LONGEST_TEXT;
/// The longest answer as JSON: every byte may be a six-byte escape, plus the other fields.
pub(super) const LONGEST_JSON: usize = 6 * LONGEST + 64 * 1024;

/// An answer with the agent and question that it names.
#[derive(Debug)]
pub(super) struct ParsedReply {
    answer: ConnectorReply,
    correlation: Option<String>,
    agent: Option<String>,
}

impl ParsedReply {
    pub fn read(reply: &Value) -> Result<Self, &'static str> {
        let reply = reply.as_object().ok_or("is not an object")?;
        let content = reply.get("content").and_then(Value::as_str).ok_or("has no string `content`")?;
        if content.len() > LONGEST {
            return Err("is too long");
        }
        let sent_at = reply.get("sent_at").and_then(millis);
        Ok(Self {
            answer: ConnectorReply { content: content.to_owned(), sent_at },
            correlation: claim(reply, "correlation_id")?,
            agent: claim(reply, "agent_id")?,
        })
    }

    /// The answer, if it is from this agent to this question. The file or connection identifies both already, so both
    /// fields are optional. If present, they must match.
    pub fn to(self, agent_id: &str, asked: &CorrelationId) -> Result<ConnectorReply, &'static str> {
        if self.correlation.is_some_and(|claimed| claimed != asked.as_str()) {
            return Err("belongs to another question");
        }
        if self.agent.is_some_and(|claimed| claimed != agent_id) {
            return Err("comes from another agent");
        }
        Ok(self.answer)
    }
}

fn claim(reply: &Map<String, Value>, name: &str) -> Result<Option<String>, &'static str> {
    match reply.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(claimed)) => Ok(Some(claimed.clone())),
        Some(_) => Err("has an id that is not a string"),
    }
}

/// A time in ms. Peers write any JSON number.
pub(crate) fn millis(value: &Value) -> Option<i64> {
    // Fractions are dropped. The cast saturates.
    value.as_i64().or_else(|| value.as_f64().map(|millis| millis as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(reply: &Value) -> Result<ConnectorReply, &'static str> {
        ParsedReply::read(reply)?.to("desk", &"c-1".into())
    }

    #[test]
    fn an_answer_needs_its_text_and_nothing_else() {
        let answer = read(&json!({"content": "42"}));
        assert_eq!(answer, Ok(ConnectorReply { content: "42".to_owned(), sent_at: None }));
        let answer = read(&json!({"content": "", "correlation_id": "c-1", "sent_at": 5.9, "more": 1}));
        assert_eq!(answer, Ok(ConnectorReply { content: String::new(), sent_at: Some(5) }));
        for nonsense in [json!(null), json!("42"), json!([]), json!({}), json!({"content": 42})] {
            assert!(read(&nonsense).is_err(), "{nonsense}");
        }
        assert!(read(&json!({"content": "x".repeat(LONGEST)})).is_ok());
        assert!(read(&json!({"content": "x".repeat(LONGEST + 1)})).is_err());
    }

    #[test]
    fn whose_it_claims_to_be_and_to_what_must_fit() {
        for (name, ours) in [("correlation_id", "c-1"), ("agent_id", "desk")] {
            for fits in [json!(ours), json!(null)] {
                assert!(read(&json!({"content": "42", name: fits})).is_ok(), "{name} {fits}");
            }
            for foreign in [json!("somebody-else"), json!(""), json!(1), json!([ours])] {
                assert!(read(&json!({"content": "42", name: foreign})).is_err(), "{name} {foreign}");
            }
        }
    }
}
