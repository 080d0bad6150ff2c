//! Entries of data stores: as they are written, and as they are returned.

use posthouse_time::Moment;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use super::data_refusal::DataRefusalReason;
use crate::write_rules::{METADATA_BYTES, TAG_BYTES, TAGS};

/// The largest text of an entry, in bytes.
pub const CONTENT_BYTES: usize = 1024 * 1024;

/// Fields that a writer gives in the metadata and a reader gets beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curated {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knowledge_type: Option<String>,
    /// For whom the entry is meant. A hint that keeps nobody else from reading it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipients: Option<Vec<String>>,
    /// Who wrote the entry. A label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vault: Option<String>,
}

/// Names that are never in the metadata of an entry, because they are beside it.
pub(super) const BESIDE_METADATA: [&str; 11] = [
    "thread_status",
    "pinned",
    "confidence",
    "domain_tags",
    "payload_type",
    "knowledge_type",
    "recipients",
    "expires_at",
    "created_at",
    "agent_id",
    "vault",
];

/// An entry as every store returns it, and as a remote store keeps it. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PortableData {
    pub id: String,
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_tags: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    pub created_at: i64,
    #[serde(flatten)]
    pub curated: Curated,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

impl PortableData {
    /// About how long it is as JSON.
    pub(crate) fn length(&self) -> usize {
        let metadata = if self.metadata.is_some() { METADATA_BYTES } else { 0 };
        self.summary.len() + self.detail.as_ref().map_or(0, String::len) + metadata
    }
}

/// When an entry expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryExpiry {
    /// The writer said nothing. Our stores keep the entry for ever.
    #[default]
    Unsaid,
    /// The writer said that it is kept for ever.
    Never,
    /// From this time on, in seconds.
    At(i64),
}

/// A new entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataWrite {
    pub content: String,
    pub tags: Option<Vec<String>>,
    pub recipients: Option<Vec<String>>,
    pub expires: EntryExpiry,
    pub metadata: Option<Map<String, Value>>,
    /// The writer, as the server knows it.
    pub agent_id: Option<String>,
}

impl DataWrite {
    /// Reads a new entry. A value of the wrong shape is refused by name, and so is an unknown field.
    pub fn read(arguments: Map<String, Value>) -> Result<Self, DataRefusalReason> {
        let mut read = Self::default();
        for (field, value) in arguments {
            match field.as_str() {
                "content" => read.content = string(&field, value)?,
                "tags" => read.tags = Some(strings(&field, &value)?),
                "recipients" => read.recipients = Some(strings(&field, &value)?),
                "expires_at" => read.expires = expiry(&value)?,
                "metadata" => match value {
                    Value::Object(metadata) => read.metadata = Some(metadata),
                    _ => return Err(DataRefusalReason::invalid(&field, "must be an object")),
                },
                _ => return Err(DataRefusalReason::invalid(&field, "is unknown")),
            }
        }
        if read.content.is_empty() {
            return Err(DataRefusalReason::invalid("content", "is required and must not be empty"));
        }
        Ok(read)
    }

    /// Reads the arguments of the tool `data_write`. Like the reference, it drops optional ones of the wrong shape.
    pub fn read_tool(mut arguments: Map<String, Value>) -> Result<Self, DataRefusalReason> {
        let content = match arguments.remove("content") {
            Some(Value::String(content)) if !content.is_empty() => content,
            _ => return Err(DataRefusalReason::ContentMissing),
        };
        let list = |name| arguments.get(name).and_then(|value| strings(name, value).ok());
        let expires = match arguments.get("expires_at") {
            Some(value @ Value::Number(_)) => expiry(value)?,
            _ => EntryExpiry::Unsaid,
        };
        Ok(Self {
            content,
            tags: list("tags"),
            recipients: list("recipients"),
            expires,
            metadata: arguments.get("metadata").and_then(Value::as_object).cloned(),
            agent_id: None,
        })
    }

    /// Checks the sizes that hold for every store.
    pub(super) fn check_sizes(&self) -> Result<(), DataRefusalReason> {
        if self.content.is_empty() {
            return Err(DataRefusalReason::ContentMissing);
        }
        at_most("content", self.content.len(), CONTENT_BYTES)?;
        if let Some(metadata) = &self.metadata {
            let size = serde_json::to_string(metadata).map_or(usize::MAX, |json| json.len());
            at_most("metadata", size, METADATA_BYTES)?;
        }
        for (field, list) in [("tags", &self.tags), ("recipients", &self.recipients)] {
            let list = list.as_deref().unwrap_or_default();
            if list.len() > TAGS {
                return Err(DataRefusalReason::TooManyItems { field, count: list.len(), limit: TAGS });
            }
            list.iter().try_for_each(|item| at_most(field, item.len(), TAG_BYTES))?;
        }
        Ok(())
    }

    /// The time at which the entry expires. One in the past is refused.
    pub(super) fn expires_after(&self, now: Moment) -> Result<Option<Moment>, DataRefusalReason> {
        match self.expires {
            EntryExpiry::Unsaid | EntryExpiry::Never => Ok(None),
            EntryExpiry::At(seconds) if Moment::from_seconds(seconds) <= now => {
                Err(DataRefusalReason::invalid("expires_at", "is in the past"))
            }
            EntryExpiry::At(seconds) => Ok(Some(Moment::from_seconds(seconds))),
        }
    }

    /// Takes the curated fields out of the metadata. Those that have an argument of their own, or that the server sets,
    /// are refused there.
    pub(super) fn take_curated(&mut self) -> Result<Curated, DataRefusalReason> {
        let mut curated = Curated { recipients: self.recipients.take(), ..Curated::default() };
        let metadata = self.metadata.get_or_insert_default();
        for (field, instead) in [
            ("recipients", "give it beside the metadata"),
            ("expires_at", "give it beside the metadata"),
            ("domain_tags", "give `tags` beside the metadata"),
            ("created_at", "the server sets it"),
        ] {
            if metadata.contains_key(field) {
                let field = format!("metadata.{field}");
                return Err(DataRefusalReason::invalid(&field, format!("is not metadata: {instead}")));
            }
        }
        let mut take = |field: &str| metadata.remove(field).map(|value| (format!("metadata.{field}"), value));
        for (field, place) in [
            ("thread_status", &mut curated.thread_status),
            ("payload_type", &mut curated.payload_type),
            ("knowledge_type", &mut curated.knowledge_type),
            ("agent_id", &mut curated.agent_id),
            ("vault", &mut curated.vault),
        ] {
            *place = take(field).map(|(name, value)| string(&name, value)).transpose()?;
        }
        curated.pinned = match take("pinned") {
            None => None,
            Some((_, Value::Bool(pinned))) => Some(pinned),
            Some((name, _)) => return Err(DataRefusalReason::invalid(&name, "must be true or false")),
        };
        curated.confidence = match take("confidence") {
            None => None,
            Some((_, Value::Number(confidence))) => Some(confidence),
            Some((name, _)) => return Err(DataRefusalReason::invalid(&name, "must be a number")),
        };
        if self.expires == EntryExpiry::Never {
            curated.pinned = Some(true);
        }
        if self.agent_id.is_some() {
            curated.agent_id = self.agent_id.take();
        }
        Ok(curated)
    }
}

fn at_most(field: &'static str, size: usize, limit: usize) -> Result<(), DataRefusalReason> {
    if size > limit { Err(DataRefusalReason::TooLarge { field, size, limit }) } else { Ok(()) }
}

fn string(field: &str, value: Value) -> Result<String, DataRefusalReason> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(DataRefusalReason::invalid(field, "must be a string")),
    }
}

fn strings(field: &str, value: &Value) -> Result<Vec<String>, DataRefusalReason> {
    let items = value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
    items
        .and_then(Iterator::collect)
        .ok_or_else(|| DataRefusalReason::invalid(field, "must be a list of strings"))
}

/// The last second of the year 9999.
const LAST_SECOND: f64 = 253_402_300_799.0;

fn expiry(value: &Value) -> Result<EntryExpiry, DataRefusalReason> {
    if value.is_null() {
        return Ok(EntryExpiry::Never);
    }
    match value.as_f64().filter(|seconds| seconds.fract() == 0.0 && (0.0..=LAST_SECOND).contains(seconds)) {
        Some(seconds) => Ok(EntryExpiry::At(seconds as i64)),
        None => Err(DataRefusalReason::invalid(
            "expires_at",
            "must be a whole number of seconds since 1970, or null",
        )),
    }
}
