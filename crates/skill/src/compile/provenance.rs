//! Provenance of a compiled skill: which texts went into it, and whether the stored ones have changed since.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::check::Severity;
use crate::content_hash::ContentHash;
use crate::run::{InlinedSkill, PreparedSkill};

/// What a compiled skill was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub provenance_version: String,
    pub language_version: String,
    pub compiler_version: String,
    /// The time of compiling, as ISO 8601 text.
    pub compiled_at: String,
    pub source_skill: SourceSkill,
    pub data_skills_inlined: Vec<InlinedSkill>,
}

/// The compiled skill itself. Its version is known if it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSkill {
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
}

impl Provenance {
    /// The provenance of a prepared skill. `stored` is the text that is stored under its name.
    pub fn of(skill: &PreparedSkill, stored: Option<&str>, compiled_at: String) -> Self {
        let hash = stored.map(ContentHash::of);
        let source_skill = SourceSkill {
            name: skill.tree.header.name.clone(),
            version: hash.as_ref().map(|hash| hash.version().to_owned()),
            content_hash: hash.map(|hash| hash.to_string()),
        };
        Self {
            provenance_version: "1.0".to_owned(),
            language_version: "1.0".to_owned(),
            compiler_version: concat!("posthouse-", env!("CARGO_PKG_VERSION")).to_owned(),
            compiled_at,
            source_skill,
            data_skills_inlined: skill.inlined.clone(),
        }
    }

    /// The block that can stand at the end of a rendered skill.
    pub fn as_appendix(&self) -> String {
        format!("\n---\n\n## Provenance\n\n```json\n{}\n```\n", self.as_json())
    }

    pub fn as_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// A data skill that is not what it was when the skill was compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProvenanceFinding {
    pub rule: &'static str,
    pub severity: Severity,
    pub skill_name: String,
    pub recorded_content_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_content_hash: Option<String>,
    pub message: String,
}

/// Compares the inlined data skills with the texts that are stored now, by name.
pub fn compare_provenance(
    provenance: &Provenance,
    stored: &HashMap<String, String>,
) -> Vec<ProvenanceFinding> {
    let inlined = provenance.data_skills_inlined.iter();
    let findings = inlined.filter_map(|skill| {
        let current = stored.get(&skill.name).map(|text| ContentHash::of(text).to_string());
        let (rule, severity, message) = match &current {
            None => ("missing-data-skill", Severity::Error, format!("'{}' is no longer stored", skill.name)),
            Some(hash) if *hash != skill.content_hash => {
                let message = format!("'{}' has changed since the skill was compiled", skill.name);
                ("stale-data-skill", Severity::Warning, message)
            }
            Some(_) => return None,
        };
        let recorded_content_hash = skill.content_hash.clone();
        let (skill_name, current_content_hash) = (skill.name.clone(), current);
        Some(ProvenanceFinding {
            rule,
            severity,
            skill_name,
            recorded_content_hash,
            current_content_hash,
            message,
        })
    });
    findings.collect()
}
