//! Answers of connectors: delivery receipts, wake receipts, responses and agent descriptors.
//!
//! They report only what has really happened.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::CorrelationId;

/// Receipt for a delivery that the receiver accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryReceipt {
    /// Time of the receiver's acknowledgement, in ms.
    pub delivered_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<String>,
    /// The session that got it, if the receiver knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Accepted, but not pushed to the agent yet. Not a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub delivery_skipped: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Options of a wake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeOpts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "WakeTime::is_immediate")]
    pub when: WakeTime,
    /// Takes precedence over a session in the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Time of a wake: `"immediate"`, or ms since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeTime {
    #[default]
    Immediate,
    At(i64),
}

impl WakeTime {
    fn is_immediate(&self) -> bool {
        *self == WakeTime::Immediate
    }
}

impl Serialize for WakeTime {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            WakeTime::Immediate => to.serialize_str("immediate"),
            WakeTime::At(ms) => to.serialize_i64(*ms),
        }
    }
}

impl<'de> Deserialize<'de> for WakeTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WakeTimeAsRead {
            Word(String),
            At(i64),
        }
        match WakeTimeAsRead::deserialize(from) {
            Ok(WakeTimeAsRead::At(ms)) => Ok(WakeTime::At(ms)),
            Ok(WakeTimeAsRead::Word(word)) if word == "immediate" => Ok(WakeTime::Immediate),
            _ => Err(serde::de::Error::custom("`when` must be \"immediate\" or a time in milliseconds")),
        }
    }
}

/// Result of a wake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeReceipt {
    pub woken_at: i64,
    /// Whether the agent was really interrupted.
    pub woken: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The server sent nothing, because there was no recipient or no content. Not part of the contract.
    #[serde(skip)]
    pub nothing_sent: bool,
}

/// An agent's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    pub correlation_id: CorrelationId,
    pub content: String,
    /// Time by the replier's clock, in ms.
    pub sent_at: i64,
    pub agent_id: String,
}

/// One agent that a connector can reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDescriptor {
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Some of `deliver`, `wake`, `augment` and `template`; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<String>>,
}

impl AgentDescriptor {
    pub fn new(agent_id: impl Into<String>) -> Self {
        Self { agent_id: agent_id.into(), agent_name: None, capabilities: None }
    }

    /// An agent whose id is also its name.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { agent_name: Some(name.clone()), ..Self::new(name) }
    }
}

/// Status of an agent, for information only. It never decides whether something is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Active,
    Idle,
    Asleep,
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_waking_is_a_word_or_a_number_and_what_is_unset_is_absent() {
        let read = |text| serde_json::from_str::<WakeOpts>(text);
        assert_eq!(read("{}").unwrap(), WakeOpts::default());
        assert_eq!(read(r#"{"when":"immediate"}"#).unwrap().when, WakeTime::Immediate);
        assert_eq!(read(r#"{"when":1767225600000}"#).unwrap().when, WakeTime::At(1_767_225_600_000));
        assert!(read(r#"{"when":"tomorrow"}"#).is_err());
        assert_eq!(serde_json::to_string(&WakeOpts::default()).unwrap(), "{}");
        let plain = DeliveryReceipt { delivered_at: 7, ..DeliveryReceipt::default() };
        assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"delivered_at":7}"#);
    }
}
