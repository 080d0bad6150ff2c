//! An answer as substrates write it: `{content, correlation_id?, sent_at?}`.

use posthouse_wire::CorrelationId;
use serde_json::Value;

use super::Answer;

/// The longest answer that is taken.
pub(super) const LONGEST: usize = 256 * 1024;
/// The longest answer as JSON: every byte of it may be written as an escape of six, and a little stands around it.
pub(super) const LONGEST_JSON: usize = 6 * LONGEST + 64 * 1024;

/// The answer, and which question it claims to belong to.
pub(super) fn read(reply: &Value) -> Result<(Answer, Option<CorrelationId>), &'static str> {
    let reply = reply.as_object().ok_or("is no object")?;
    let content = reply.get("content").and_then(Value::as_str).ok_or("has no text `content`")?;
    if content.len() > LONGEST {
        return Err("is longer than 262144 bytes");
    }
    let sent_at = reply.get("sent_at").and_then(millis);
    let correlation = reply.get("correlation_id").and_then(Value::as_str).map(CorrelationId::new);
    Ok((Answer { content: content.to_owned(), sent_at }, correlation))
}

/// A time as peers write it: any JSON number.
pub(super) fn millis(value: &Value) -> Option<i64> {
    // A fraction of a millisecond is nothing to anybody; the cast saturates.
    value.as_i64().or_else(|| value.as_f64().map(|millis| millis as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_needs_its_text_and_nothing_else() {
        let (answer, correlation) = read(&json!({"content": "42"})).unwrap();
        assert_eq!(answer, Answer { content: "42".to_owned(), sent_at: None });
        assert_eq!(correlation, None);
        let (answer, correlation) =
            read(&json!({"content": "", "correlation_id": "c-1", "sent_at": 5.9, "more": 1})).unwrap();
        assert_eq!(answer, Answer { content: String::new(), sent_at: Some(5) });
        assert_eq!(correlation, Some("c-1".into()));
        for nonsense in [json!(null), json!("42"), json!([]), json!({}), json!({"content": 42})] {
            assert!(read(&nonsense).is_err(), "{nonsense}");
        }
        assert!(read(&json!({"content": "x".repeat(LONGEST)})).is_ok());
        assert!(read(&json!({"content": "x".repeat(LONGEST + 1)})).is_err());
    }
}
