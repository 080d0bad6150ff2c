//! Parser of webhook responses.
//!
//! The receipt is read leniently, because the status 2xx already means success. An unreadable `reply` is an error,
//! because the receiver will not send another.

use posthouse_time::Moment;
use posthouse_wire::CorrelationId;
use posthouse_wire::delivery::{DeliveryReceipt, WakeReceipt};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::super::ConnectorReply;
use super::super::reply::{self, ParsedReply};

/// The longest id or warning that is stored, in bytes.
const LONGEST_NOTE: usize = 1024;
/// The largest number of stored warnings.
const MOST_WARNINGS: usize = 20;

/// The body of a response.
pub(super) struct WebhookResponse {
    /// Empty if the body is not a JSON object, or contains an invalid string.
    said: Map<String, Value>,
    reply: Result<Option<Value>, &'static str>,
}

/// Only the `reply` of a body. Other fields are skipped.
#[derive(Deserialize)]
struct ReplyAlone<T> {
    reply: Option<T>,
}

impl WebhookResponse {
    pub fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Map<String, Value>>(body) {
            Ok(mut said) => {
                let reply = Ok(said.remove("reply").filter(|reply| !reply.is_null()));
                Self { said, reply }
            }
            Err(_) => Self { said: Map::new(), reply: reply_alone(body) },
        }
    }

    pub fn receipt(&self, now: Moment) -> DeliveryReceipt {
        DeliveryReceipt {
            delivered_at: self.said.get("delivered_at").and_then(reply::millis).unwrap_or(now.millis()),
            delivery_id: self.delivery_id(),
            session_id: self.note("session_id"),
            delivery_skipped: self.said.get("delivery_skipped") == Some(&Value::Bool(true)),
            warnings: self.warnings(),
        }
    }

    /// A 2xx means woken, unless the receiver says `woken: false`.
    pub fn woken(&self, now: Moment, session: Option<&str>) -> WakeReceipt {
        let woken = self.said.get("woken") != Some(&Value::Bool(false));
        let mut warnings = self.warnings();
        if !woken && warnings.is_empty() {
            warnings.push("the receiver says that the agent was not woken".to_owned());
        }
        WakeReceipt {
            woken_at: now.millis(),
            woken,
            session_id: self.note("session_id").or_else(|| session.map(str::to_owned)),
            warnings,
            ..WakeReceipt::default()
        }
    }

    /// The answer in the response, if there is one, or why it is invalid.
    ///
    /// A receiver that names another question or agent in this response mixes up its callers. That is an error, because
    /// waiting for another answer would only hide it until the deadline.
    pub fn reply(
        &self,
        agent_id: &str,
        asked: &CorrelationId,
    ) -> Result<Option<ConnectorReply>, &'static str> {
        let Some(given) = self.reply.as_ref().map_err(|why| *why)? else { return Ok(None) };
        ParsedReply::read(given)?.to(agent_id, asked).map(Some)
    }

    /// The first of three fields that is not null decides, even if it is not a string.
    fn delivery_id(&self) -> Option<String> {
        let given = |name: &&str| self.said.get(*name).is_some_and(|value| !value.is_null());
        ["delivery_id", "id", "ts"].iter().find(|name| given(name)).and_then(|name| self.note(name))
    }

    fn note(&self, name: &str) -> Option<String> {
        let text = self.said.get(name).and_then(Value::as_str)?;
        (text.len() <= LONGEST_NOTE).then(|| text.to_owned())
    }

    fn warnings(&self) -> Vec<String> {
        let given = self.said.get("warnings").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let texts: Option<Vec<&str>> = given.iter().map(Value::as_str).collect();
        texts.unwrap_or_default().into_iter().take(MOST_WARNINGS).map(shortened).collect()
    }
}

/// The reply in a body that cannot be parsed as a whole. Skipped strings are not decoded, so a body with half a
/// surrogate pair elsewhere still shows whether it contains a reply.
fn reply_alone(body: &[u8]) -> Result<Option<Value>, &'static str> {
    match serde_json::from_slice::<ReplyAlone<IgnoredAny>>(body) {
        Ok(ReplyAlone { reply: Some(_) }) => match serde_json::from_slice::<ReplyAlone<Value>>(body) {
            Ok(only) => Ok(only.reply),
            Err(_) => Err("cannot be read"),
        },
        Ok(ReplyAlone { reply: None }) | Err(_) => Ok(None),
    }
}

fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST_NOTE)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn receipt(body: &Value) -> DeliveryReceipt {
        WebhookResponse::read(body.to_string().as_bytes()).receipt(Moment::from_millis(7))
    }

    #[test]
    fn the_first_name_that_holds_anything_gives_the_delivery_id() {
        for (body, id) in [
            (json!({"delivery_id": "a", "id": "b", "ts": "c"}), Some("a")),
            (json!({"delivery_id": null, "id": "b", "ts": "c"}), Some("b")),
            (json!({"ts": "1.5"}), Some("1.5")),
            (json!({"delivery_id": 7, "id": "b"}), None),
            (json!({"id": "x".repeat(LONGEST_NOTE + 1)}), None),
            (json!({}), None),
            (json!([1]), None),
            (json!("a"), None),
        ] {
            assert_eq!(receipt(&body).delivery_id.as_deref(), id, "{body}");
        }
    }

    #[test]
    fn what_is_not_well_typed_is_as_good_as_absent() {
        let nothing = DeliveryReceipt { delivered_at: 7, ..DeliveryReceipt::default() };
        for body in [
            json!({"delivered_at": "9", "delivery_skipped": "true", "session_id": 4, "warnings": "slow"}),
            json!({"delivered_at": null, "delivery_skipped": 1, "warnings": ["slow", 4]}),
        ] {
            assert_eq!(receipt(&body), nothing, "{body}");
        }
        assert_eq!(WebhookResponse::read(b"accepted").receipt(Moment::from_millis(7)), nothing);
        assert_eq!(WebhookResponse::read(&[0xff, b'{']).receipt(Moment::from_millis(7)), nothing);
        let all =
            json!({"delivered_at": 9.5, "delivery_skipped": true, "session_id": "s", "warnings": ["slow"]});
        let said = receipt(&all);
        assert_eq!((said.delivered_at, said.delivery_skipped), (9, true));
        assert_eq!((said.session_id.as_deref(), said.warnings), (Some("s"), vec!["slow".to_owned()]));
    }

    #[test]
    fn an_answer_to_another_question_is_no_answer() {
        let heard =
            |body: Value| WebhookResponse::read(body.to_string().as_bytes()).reply("desk", &"c-1".into());
        assert_eq!(heard(json!({"delivery_id": "d"})), Ok(None));
        assert_eq!(heard(json!({"reply": null})), Ok(None));
        let answer = ConnectorReply { content: "42".to_owned(), sent_at: None };
        assert_eq!(heard(json!({"reply": {"content": "42"}})), Ok(Some(answer.clone())));
        assert_eq!(heard(json!({"reply": {"content": "42", "correlation_id": "c-1"}})), Ok(Some(answer)));
        assert!(heard(json!({"reply": {"content": "42", "correlation_id": "c-2"}})).is_err());
        assert!(heard(json!({"reply": "42"})).is_err());
        assert!(heard(json!({"reply": {"content": "42", "agent_id": "desk"}})).is_ok());
        assert!(heard(json!({"reply": {"content": "42", "agent_id": "somebody-else"}})).is_err());
    }

    #[test]
    fn an_unreadable_reply_is_not_the_same_as_no_reply() {
        let heard = |body: &[u8]| WebhookResponse::read(body).reply("desk", &"c-1".into());
        let deep = format!(r#"{{"reply":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
        for unreadable in [
            br#"{"reply":{"content":"\ud800"}}"#.as_slice(),
            br#"{"reply":"\udc00\ud800"}"#,
            b"{\"reply\":{\"content\":\"\xff\"}}",
            br#"{"reply":{"content":"42","sent_at":1e999}}"#,
            deep.as_bytes(),
        ] {
            assert_eq!(heard(unreadable), Err("cannot be read"), "{}", String::from_utf8_lossy(unreadable));
        }
        // A body that is not JSON, or is invalid elsewhere, has no unreadable reply.
        for none in [
            br#"<html>{"reply":{"content":"42"}}"#.as_slice(),
            br#"{"reply":{"content":"42""#,
            br#"["reply","\ud800"]"#,
            br#"{"note":"\ud800"}"#,
            br#"{"note":"\ud800","reply":null}"#,
            b"",
        ] {
            assert_eq!(heard(none), Ok(None), "{}", String::from_utf8_lossy(none));
        }
        let beside = heard(br#"{"note":"\ud800","reply":{"content":"42"}}"#);
        assert_eq!(beside.unwrap().unwrap().content, "42");
    }
}
