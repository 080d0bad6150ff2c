//! An answer as substrates write it: `{content, correlation_id?, agent_id?, sent_at?}`.

use posthouse_wire::CorrelationId;
use serde_json::{Map, Value};

use super::Answer;
use crate::conversation::LONGEST_TEXT;

/// The longest answer that is taken: no longer than what an agent may say on the line.
const LONGEST: usize = LONGEST_TEXT;
/// The longest answer as JSON: every byte of it may be written as an escape of six, and a little stands around it.
pub(super) const LONGEST_JSON: usize = 6 * LONGEST + 64 * 1024;

/// An answer, with what it claims to be: whose, and to which question.
#[derive(Debug)]
pub(super) struct Reply {
    answer: Answer,
    correlation: Option<String>,
    agent: Option<String>,
}

impl Reply {
    pub fn read(reply: &Value) -> Result<Self, &'static str> {
        let reply = reply.as_object().ok_or("is no object")?;
        let content = reply.get("content").and_then(Value::as_str).ok_or("has no text `content`")?;
        if content.len() > LONGEST {
            return Err("is longer than an answer may be");
        }
        let sent_at = reply.get("sent_at").and_then(millis);
        Ok(Self {
            answer: Answer { content: content.to_owned(), sent_at },
            correlation: claim(reply, "correlation_id")?,
            agent: claim(reply, "agent_id")?,
        })
    }

    /// The answer, if it is this agent's to this question. The way that it came says both already, so neither need
    /// stand in it; what does stand there must fit.
    pub fn to(self, agent_id: &str, asked: &CorrelationId) -> Result<Answer, &'static str> {
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
        Some(_) => Err("has an id that is no text"),
    }
}

/// A time as peers write it: any JSON number.
pub(crate) fn millis(value: &Value) -> Option<i64> {
    // A fraction of a millisecond is nothing to anybody; the cast saturates.
    value.as_i64().or_else(|| value.as_f64().map(|millis| millis as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(reply: &Value) -> Result<Answer, &'static str> {
        Reply::read(reply)?.to("desk", &"c-1".into())
    }

    #[test]
    fn an_answer_needs_its_text_and_nothing_else() {
        let answer = read(&json!({"content": "42"}));
        assert_eq!(answer, Ok(Answer { content: "42".to_owned(), sent_at: None }));
        let answer = read(&json!({"content": "", "correlation_id": "c-1", "sent_at": 5.9, "more": 1}));
        assert_eq!(answer, Ok(Answer { content: String::new(), sent_at: Some(5) }));
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
