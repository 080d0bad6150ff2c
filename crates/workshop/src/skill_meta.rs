//! Records of the skill store contract: metadata, texts and versions. Times are in seconds.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skill::{OutputKind, SkillHeader, SkillType, Status, TriggerSource};

/// The longest description in a list, in bytes. Only a list cuts it.
const SHOWN_DESCRIPTION: usize = 4096;

/// A skill with its text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkillSource {
    pub name: String,
    pub version: String,
    pub content_hash: String,
    pub source: String,
    /// Of the current version, whichever one the text is.
    pub metadata: SkillMeta,
}

/// A skill without its text. This is also the record that a remote store keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkillMeta {
    pub name: String,
    pub version: String,
    pub content_hash: String,
    pub status: Status,
    #[serde(flatten)]
    pub summary: SkillSummary,
    pub created_at: i64,
    pub updated_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_changed_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_bag: Option<Map<String, Value>>,
}

/// A line of history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionInfo {
    pub name: String,
    pub version: String,
    pub content_hash: String,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_status: Option<Status>,
    pub changed_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_by: Option<String>,
}

/// What lists show of the header of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SkillSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vars: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub returns: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<TriggerSummary>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// Whether the skill is data; the contract's `type` is left out for others.
    #[serde(rename = "type", with = "type_word", skip_serializing_if = "is_procedural")]
    pub skill_type: SkillType,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerSummary {
    pub source: String,
    pub name: String,
}

impl SkillSummary {
    pub(crate) fn of(body: &str) -> Self {
        let header = SkillHeader::parse(body);
        let vars = header.requires.iter().map(|required| required.raw.clone());
        let secrets = header.secret_requires.iter().map(|name| format!("secret.{name}"));
        Self {
            requires: vars.chain(secrets).chain(header.required_capabilities.iter().cloned()).collect(),
            description: header.description,
            tags: header.tags,
            vars: header.vars.into_iter().map(|var| var.name).collect(),
            returns: header.returns,
            triggers: header
                .triggers
                .into_iter()
                .map(|trigger| TriggerSummary {
                    source: trigger_word(trigger.source).to_owned(),
                    name: trigger.name,
                })
                .collect(),
            outputs: header
                .outputs
                .into_iter()
                .map(|output| match output.target {
                    Some(target) => format!("{}: {target}", output_word(output.kind)),
                    None => output_word(output.kind).to_owned(),
                })
                .collect(),
            skill_type: header.skill_type,
        }
    }
}

impl SkillMeta {
    /// The skill as lists show it.
    pub(crate) fn in_list(mut self) -> Self {
        if let Some(description) = &mut self.summary.description
            && let Cow::Owned(cut) = shown_description(description)
        {
            *description = cut;
        }
        self
    }

    /// The tags of the header and of the metadata bag, in lower case.
    pub fn all_tags(&self) -> impl Iterator<Item = String> + '_ {
        let bag = self.metadata_bag.as_ref().and_then(|bag| bag.get("tags"));
        let in_bag = match bag {
            Some(Value::Array(tags)) => tags.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(tag)) => vec![tag.as_str()],
            _ => Vec::new(),
        };
        self.summary.tags.iter().map(String::as_str).chain(in_bag).map(str::to_lowercase)
    }
}

/// A description as lists show it.
pub(crate) fn shown_description(whole: &str) -> Cow<'_, str> {
    if whole.len() <= SHOWN_DESCRIPTION {
        return Cow::Borrowed(whole);
    }
    Cow::Owned(format!("{}…", &whole[..whole.floor_char_boundary(SHOWN_DESCRIPTION)]))
}

fn trigger_word(source: TriggerSource) -> &'static str {
    match source {
        TriggerSource::Cron => "cron",
        TriggerSource::Event => "event",
    }
}

pub(crate) fn output_word(kind: OutputKind) -> &'static str {
    match kind {
        OutputKind::Text => "text",
        OutputKind::None => "none",
        OutputKind::Agent => "agent",
        OutputKind::Template => "template",
        OutputKind::File => "file",
    }
}

fn is_procedural(skill_type: &SkillType) -> bool {
    *skill_type == SkillType::Procedural
}

/// The type of a skill as a word. An unknown word is an error.
pub(crate) mod type_word {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use skill::SkillType;

    pub fn serialize<S: Serializer>(skill_type: &SkillType, to: S) -> Result<S::Ok, S::Error> {
        skill_type.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SkillType, D::Error> {
        match String::deserialize(from)?.as_str() {
            "procedural" => Ok(SkillType::Procedural),
            "data" => Ok(SkillType::Data),
            other => Err(D::Error::custom(format!("'{other}' is not a type of skills"))),
        }
    }
}
