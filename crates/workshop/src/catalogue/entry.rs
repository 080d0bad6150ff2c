//! Entries of the catalogue: one skill, rendered as JSON, with what filters look at.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};
use skill::{
    ApprovalMode, ApprovalVerdict, Footprint, OutputKind, SkillHeader, Status, TriggerSource, check_approval,
    footprint,
};

use crate::skill_meta::{SkillMeta, output_word, shown_description};

/// What a skill is for, by its outputs and triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillCategory {
    /// Its output goes to an agent.
    Augmenting,
    /// An agent runs it.
    Template,
    /// It runs on its own.
    Headless,
}

/// A rendered entry.
pub(crate) struct CatalogueEntry {
    name: String,
    content_hash: String,
    metadata_bag: Option<Map<String, Value>>,
    pub author: Option<String>,
    pub category: SkillCategory,
    pub status: Status,
    pub triggers: Vec<TriggerSource>,
    /// From the metadata bag: the tags of the header do not count.
    pub domain_tags: Vec<String>,
    pub json: String,
    /// The size of the JSON as a text inside a JSON text, in bytes.
    pub size_in_text: usize,
}

#[derive(Serialize)]
struct RenderedEntry<'a> {
    name: &'a str,
    category: SkillCategory,
    description: Cow<'a, str>,
    tags: &'a [String],
    status: Status,
    gate_ok: bool,
    vars: Vec<Value>,
    output: Vec<Value>,
    triggers: Vec<Value>,
    returns: &'a [String],
    requires: Vec<&'a str>,
    secret_requires: &'a [String],
    effectful_footprint: Footprint,
    author: Option<&'a str>,
}

impl CatalogueEntry {
    pub fn render(skill: &SkillMeta, text: &str, mode: ApprovalMode<'_>) -> Self {
        let header = SkillHeader::parse(text);
        let category = category(&header);
        let triggers = header.triggers.iter().map(|trigger| match trigger.source {
            TriggerSource::Cron => json!({ "kind": "cron", "expression": trigger.name }),
            TriggerSource::Event => json!({ "kind": "event", "event_name": trigger.name }),
        });
        let output = header.outputs.iter().map(|output| match &output.target {
            Some(target) => json!({ "kind": output_word(output.kind), "target": target }),
            None => json!({ "kind": output_word(output.kind) }),
        });
        let vars = header.vars.iter().map(
            |var| json!({ "name": var.name, "required": var.default.is_none(), "default": var.default }),
        );
        let rendered = RenderedEntry {
            name: &skill.name,
            category,
            description: shown_description(header.description.as_deref().unwrap_or_else(|| first_line(text))),
            tags: &header.tags,
            status: skill.status,
            gate_ok: matches!(check_approval(text, mode), ApprovalVerdict::Approved { .. }),
            vars: vars.collect(),
            output: output.collect(),
            triggers: triggers.collect(),
            returns: &header.returns,
            requires: header.requires.iter().map(|required| required.raw.as_str()).collect(),
            secret_requires: &header.secret_requires,
            effectful_footprint: footprint(text),
            author: skill.author.as_deref(),
        };
        // Texts and numbers always have a JSON form.
        let json = serde_json::to_string(&rendered).unwrap_or_default();
        Self {
            size_in_text: size_in_text(&json),
            json,
            name: skill.name.clone(),
            content_hash: skill.content_hash.clone(),
            metadata_bag: skill.metadata_bag.clone(),
            author: skill.author.clone(),
            category,
            status: skill.status,
            triggers: header.triggers.iter().map(|trigger| trigger.source).collect(),
            domain_tags: domain_tags(skill.metadata_bag.as_ref()),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the entry shows this state of the skill.
    pub fn is_of(&self, skill: &SkillMeta) -> bool {
        self.content_hash == skill.content_hash
            && self.author == skill.author
            && self.status == skill.status
            && self.metadata_bag == skill.metadata_bag
    }

    /// An estimate of the memory that the entry takes up.
    pub fn bytes(&self) -> u64 {
        let bag =
            self.metadata_bag.as_ref().map_or(0, |bag| 2 * Value::Object(bag.clone()).to_string().len());
        (self.json.len() + 2 * self.name.len() + bag + 400) as u64
    }
}

fn category(header: &SkillHeader) -> SkillCategory {
    let has = |kind: OutputKind| header.outputs.iter().any(|output| output.kind == kind);
    if has(OutputKind::Agent) {
        SkillCategory::Augmenting
    } else if has(OutputKind::Template) || header.triggers.is_empty() {
        SkillCategory::Template
    } else {
        SkillCategory::Headless
    }
}

/// The first line that is neither blank nor a header. It can be the name of a target, as in the reference.
fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default()
}

fn domain_tags(bag: Option<&Map<String, Value>>) -> Vec<String> {
    let values = ["domain_tags", "tags"].into_iter().filter_map(|key| bag?.get(key));
    let texts = values.flat_map(|value| match value {
        Value::Array(tags) => tags.iter().filter_map(Value::as_str).map(str::to_lowercase).collect(),
        Value::String(tag) => vec![tag.to_lowercase()],
        _ => Vec::new(),
    });
    texts.collect()
}

/// The size of a JSON text inside a JSON text. A JSON text has no control characters.
fn size_in_text(json: &str) -> usize {
    json.len() + json.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_text_in_a_text_counts_its_escapes() {
        let value = json!({ "a": "\"\n" }).to_string();
        assert_eq!(size_in_text(&value), json!(value).to_string().len() - 2);
    }
}
