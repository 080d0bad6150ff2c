//! Payload of a delivery: the text for the agent, and its origin.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::id::{CorrelationId, DispatchId};

/// Kind of a payload. The set is closed: a receiver refuses any other kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadKind {
    /// Context for the agent. Its text is in the field `content`.
    Augment,
    /// A playbook to carry out. Its text is in the field `prompt`.
    Template,
}

impl PayloadKind {
    pub fn word(self) -> &'static str {
        match self {
            PayloadKind::Augment => "augment",
            PayloadKind::Template => "template",
        }
    }

    /// The name of the field that holds the text.
    fn field(self) -> &'static str {
        match self {
            PayloadKind::Augment => "content",
            PayloadKind::Template => "prompt",
        }
    }
}

/// Content of a delivery to an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    pub kind: PayloadKind,
    pub text: String,
    pub meta: Meta,
}

/// Metadata of a payload. The emitter fills it in; connectors pass it on and never create it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Id of the dispatch, the same for every connector that it reaches.
    pub dispatch_id: DispatchId,
    /// Time by the emitter's clock, in ms.
    pub sent_at: i64,
    pub origin: PayloadOrigin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<CorrelationId>,
    /// Fields of later contract versions, passed on unchanged.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Emitter of a payload, and its trigger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PayloadOrigin {
    pub skill_name: String,
    /// Root skill of a composition, if it is another skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_skill_name: Option<String>,
    pub trigger_kind: TriggerKind,
    /// The authenticated caller, never the skill's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller_agent_id: Option<String>,
    /// As in [`Meta`].
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    Cron,
    Event,
    Webhook,
    Agent,
    Cli,
    Dashboard,
    Inline,
    /// Sent by older runtimes. It is read, but never written.
    Session,
}

/// Longest dispatch or correlation id.
const LONGEST_ID: usize = 128;

/// Whether a text is a valid dispatch id. The id is used as a header, a path segment and a file name.
pub fn is_dispatch_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

impl Payload {
    /// The payload as one object with the agent's name first: the body of a webhook, or the content of a file.
    pub fn addressed<'a>(&'a self, agent_id: &'a str) -> Addressed<'a> {
        Addressed { agent_id, payload: self, reply_to: None }
    }
}

/// A payload with its recipient.
pub struct Addressed<'a> {
    agent_id: &'a str,
    payload: &'a Payload,
    reply_to: Option<&'a str>,
}

impl<'a> Addressed<'a> {
    /// Adds the URL for the answer.
    #[must_use]
    pub fn replying_to(mut self, url: Option<&'a str>) -> Self {
        self.reply_to = url;
        self
    }

    /// The bytes that are signed and sent.
    pub fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self)
            .expect("a payload contains only strings, numbers and values that were read as JSON")
    }
}

impl Serialize for Addressed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_struct("Addressed", 4 + usize::from(self.reply_to.is_some()))?;
        object.serialize_field("agent_id", self.agent_id)?;
        write(self.payload, &mut object)?;
        if let Some(reply_to) = self.reply_to {
            object.serialize_field("reply_to", reply_to)?;
        }
        object.end()
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut object = to.serialize_struct("Payload", 3)?;
        write(self, &mut object)?;
        object.end()
    }
}

fn write<S: SerializeStruct>(payload: &Payload, object: &mut S) -> Result<(), S::Error> {
    object.serialize_field("kind", &payload.kind)?;
    object.serialize_field(payload.kind.field(), &payload.text)?;
    object.serialize_field("meta", &payload.meta)
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct AsRead {
            kind: PayloadKind,
            content: Option<String>,
            prompt: Option<String>,
            meta: Meta,
        }
        let AsRead { kind, content, prompt, meta } = AsRead::deserialize(from)?;
        let text = match kind {
            PayloadKind::Augment => content,
            PayloadKind::Template => prompt,
        };
        let text = text.ok_or_else(|| serde::de::Error::missing_field(kind.field()))?;
        Ok(Self { kind, text, meta })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = r#"{"kind":"template","prompt":"do it","meta":{"dispatch_id":"d-1","sent_at":5,"origin":{"skill_name":"probe","trigger_kind":"cron"},"event_type":"status"}}"#;

    #[test]
    fn a_payload_is_written_as_it_was_read() {
        let payload: Payload = serde_json::from_str(TEMPLATE).unwrap();
        assert_eq!((payload.kind, payload.text.as_str()), (PayloadKind::Template, "do it"));
        assert_eq!(serde_json::to_string(&payload).unwrap(), TEMPLATE);
        let addressed = String::from_utf8(payload.addressed("desk").json()).unwrap();
        assert_eq!(addressed, TEMPLATE.replacen('{', r#"{"agent_id":"desk","#, 1));
    }

    #[test]
    fn a_kind_without_its_own_text_or_of_another_name_is_refused() {
        let without = TEMPLATE.replace("prompt", "content");
        assert!(serde_json::from_str::<Payload>(&without).is_err());
        let unknown = TEMPLATE.replace("\"template\"", "\"binary\"");
        assert!(serde_json::from_str::<Payload>(&unknown).is_err());
    }

    #[test]
    fn what_the_contract_may_add_is_passed_on_and_an_old_trigger_is_understood() {
        let newer = TEMPLATE.replace("\"event_type\"", "\"priority\":{\"of\":1},\"event_type\"");
        let newer = newer.replace("\"cron\"", "\"session\"");
        let payload: Payload = serde_json::from_str(&newer).unwrap();
        assert_eq!(payload.meta.origin.trigger_kind, TriggerKind::Session);
        assert_eq!(payload.meta.rest["priority"]["of"], 1);
        assert!(serde_json::to_string(&payload).unwrap().contains("\"priority\":{\"of\":1}"));
    }

    #[test]
    fn a_dispatch_id_may_be_what_the_conformance_suite_sends_and_nothing_that_is_no_name() {
        for good in ["conformance-test", "00000000-0000-4000-8000-000000000001", "a", "a:b_c.d"] {
            assert!(is_dispatch_id(good), "{good}");
        }
        for bad in ["", "../x", "a/b", "a b", "é", "a\n", &"x".repeat(129)] {
            assert!(!is_dispatch_id(bad), "{bad}");
        }
    }
}
