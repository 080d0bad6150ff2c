//! Header lines with one value: type, status, autonomy and time limits.

use serde::Serialize;

use crate::status::Status;
use crate::syntax::blanks::first_word;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SkillType {
    #[default]
    Procedural,
    Data,
}

impl SkillType {
    pub(super) fn read(value: &str) -> Result<Self, String> {
        match value.to_ascii_lowercase().as_str() {
            "procedural" => Ok(Self::Procedural),
            "data" => Ok(Self::Data),
            _ => Err(format!("`# Type:` is 'procedural' or 'data', not '{value}'")),
        }
    }
}

/// A time limit in a header: a number, or a text with a reference that is resolved at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TimeLimit {
    Seconds(u64),
    Reference(String),
}

impl TimeLimit {
    pub(super) fn read(key: &str, value: &str) -> Result<Self, String> {
        if value.contains("$(") || value.contains("${") {
            return Ok(Self::Reference(value.to_owned()));
        }
        // Leading digits are enough: `45s` is 45.
        let unsigned = value.strip_prefix('+').unwrap_or(value);
        let digits = unsigned.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        // With digits, only a number that is too large cannot be parsed.
        match digits.parse().unwrap_or(if digits.is_empty() { 0 } else { u64::MAX }) {
            0 => Err(format!("`# {key}:` is a positive number of seconds or a reference, not '{value}'")),
            seconds => Ok(Self::Seconds(seconds)),
        }
    }
}

pub fn autonomous(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`# Autonomous:` is 'true' or 'false', not '{value}'")),
    }
}

/// Applies a `# Status:` line. A word that is not a status changes nothing. A token counts only with Approved.
pub fn apply_status(
    value: Option<&str>,
    status: &mut Option<Status>,
    token: &mut Option<String>,
) -> Result<(), String> {
    let (word, rest) = first_word(value.unwrap_or_default());
    let named = Status::named(word);
    if value.is_some() && named.is_none() {
        return Err(format!("`# Status:` is 'Draft', 'Approved' or 'Disabled', not '{word}'"));
    }
    let found = Some(rest).filter(|rest| !rest.is_empty());
    (*status, *token) = (named, found.filter(|_| named == Some(Status::Approved)).map(str::to_owned));
    if found.is_some() && token.is_none() {
        return Err(format!(
            "`# Status:` has an approval token, which only 'Approved' may have, not '{word}'"
        ));
    }
    Ok(())
}
