//! Filters of lists of skills.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer};
use skill::{SkillType, Status};

use crate::skill_meta::{SkillMeta, type_word};
use crate::store_refusal::RefusalReason;

/// Longest pattern, in bytes.
const PATTERN_BYTES: usize = 1024;
/// Memory that a compiled pattern may take up.
const PATTERN_MEMORY: usize = 1 << 20;
/// Deepest nesting of groups in a pattern.
const PATTERN_NESTING: u32 = 50;

/// Which skills to list. A skill must pass every filter that is set; then `offset` skills are skipped, and at most
/// `limit` are listed. Unknown keys are ignored, as the contract demands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SkillFilter {
    /// Any of these.
    #[serde(deserialize_with = "one_or_more")]
    pub status: Option<Vec<Status>>,
    #[serde(rename = "type", deserialize_with = "some_type")]
    pub skill_type: Option<SkillType>,
    /// All of these, in the header or in the metadata bag, without regard to case.
    #[serde(rename = "tag", deserialize_with = "one_or_more")]
    pub tags: Option<Vec<String>>,
    pub author: Option<String>,
    /// The earliest `updated_at`, in seconds.
    pub since: Option<i64>,
    /// A regular expression that matches some part of the name.
    pub name_pattern: Option<String>,
    pub limit: Option<usize>,
    pub offset: usize,
    /// Skills after this name only. It is not a filter of the contract: it continues a list.
    #[serde(skip)]
    pub after: Option<String>,
}

/// A filter whose pattern is compiled.
pub(crate) struct PreparedFilter<'f> {
    filter: &'f SkillFilter,
    tags: Vec<String>,
    name: Option<Regex>,
}

impl<'f> PreparedFilter<'f> {
    pub fn new(filter: &'f SkillFilter) -> Result<Self, RefusalReason> {
        let name = filter.name_pattern.as_deref().map(compile).transpose()?;
        let tags = filter.tags.iter().flatten().map(|tag| tag.to_lowercase()).collect();
        Ok(Self { filter, tags, name })
    }

    /// How many skills to read at a time, if this many are read at most.
    pub fn page_size(&self, most: usize) -> usize {
        let SkillFilter { status, skill_type, author, since, .. } = self.filter;
        let passes_all = status.is_none()
            && skill_type.is_none()
            && author.is_none()
            && since.is_none()
            && self.name.is_none()
            && self.tags.is_empty();
        match self.filter.limit {
            Some(limit) if passes_all => limit.saturating_add(self.filter.offset).clamp(1, most),
            _ => most,
        }
    }

    pub fn passes(&self, skill: &SkillMeta) -> bool {
        let SkillFilter { status, skill_type, author, since, .. } = self.filter;
        status.as_ref().is_none_or(|wanted| wanted.contains(&skill.status))
            && skill_type.is_none_or(|wanted| wanted == skill.summary.skill_type)
            && author.as_ref().is_none_or(|wanted| Some(wanted) == skill.author.as_ref())
            && since.is_none_or(|since| skill.updated_at >= since)
            && self.name.as_ref().is_none_or(|pattern| pattern.is_match(&skill.name))
            && self.tags.iter().all(|wanted| skill.all_tags().any(|tag| tag == *wanted))
    }
}

fn compile(pattern: &str) -> Result<Regex, RefusalReason> {
    if pattern.len() > PATTERN_BYTES {
        return Err(RefusalReason::BadPattern {
            why: format!("it has {} bytes, and {PATTERN_BYTES} are allowed", pattern.len()),
        });
    }
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY)
        .nest_limit(PATTERN_NESTING)
        .build()
        .map_err(|error| RefusalReason::BadPattern { why: error.to_string() })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

fn one_or_more<'de, D, T>(from: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.map(|values| match values {
        OneOrMore::One(value) => vec![value],
        OneOrMore::More(values) => values,
    }))
}

fn some_type<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SkillType>, D::Error> {
    type_word::deserialize(from).map(Some)
}
