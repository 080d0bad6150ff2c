//! The header of a skill: its `# Key: value` lines.
//!
//! A repeated key with one value replaces the earlier value, and so do `Vars`, `Returns` and `Templates`; `(none)` or
//! an empty value clears it. `Tags`, `Triggers`, `Output` and `Requires` add up over their lines; there `(none)` or an
//! empty value changes nothing. A line with an error changes nothing either.

mod names;
mod outputs;
mod requires;
mod scalars;
mod triggers;
mod vars;

use std::collections::HashSet;

use serde::Serialize;

use super::blanks::trim;
use super::lines::{HeaderLine, header_lines};
use super::parse_error::{ParseError, ParseErrorKind};
use super::source_range::SourceRange;
use crate::status::Status;
use names::refuse_reserved;
pub(super) use names::{NameUse, reserved_word};
pub use outputs::{OutputKind, SkillOutput};
use requires::Required;
pub use requires::{VarNamespace, VarRequirement};
pub use scalars::{SkillType, TimeLimit};
pub use triggers::{SkillTrigger, TriggerSource};
pub use vars::SkillVar;

/// The header of a skill. Fields that the text does not set have their default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillHeader {
    pub name: Option<String>,
    pub description: Option<String>,
    /// Lower case, each once. They are not part of the signed text.
    pub tags: Vec<String>,
    #[serde(rename = "type")]
    pub skill_type: SkillType,
    /// What the parser reads. Whether the skill may run is decided by [`crate::check_approval`].
    pub status: Option<Status>,
    pub approval_token: Option<String>,
    pub autonomous: Option<bool>,
    /// Time limit of each operation that does not set its own.
    pub timeout: Option<TimeLimit>,
    /// Time limit of a whole run.
    pub deadline: Option<TimeLimit>,
    pub vars: Vec<SkillVar>,
    pub returns: Vec<String>,
    pub requires: Vec<VarRequirement>,
    /// Names of secrets, without `secret.`.
    pub secret_requires: Vec<String>,
    /// Features of connectors, as `type.flag`.
    pub required_capabilities: Vec<String>,
    pub triggers: Vec<SkillTrigger>,
    pub outputs: Vec<SkillOutput>,
    pub event_type: Option<String>,
    /// Names of skills that follow this one.
    pub templates: Vec<String>,
    #[serde(rename = "parseErrors")]
    pub errors: Vec<ParseError>,
}

impl SkillHeader {
    /// Reads the header lines of a skill. It never fails; mistakes are in `errors`.
    pub fn parse(body: &str) -> Self {
        let mut header = Self::default();
        for line in header_lines(body) {
            header.read(&line);
        }
        header.finish();
        header
    }

    /// Removes repeated tags, after the last line.
    pub(super) fn finish(&mut self) {
        let mut seen = HashSet::new();
        self.tags.retain(|tag| seen.insert(tag.clone()));
    }

    /// Reads one header line.
    pub(super) fn read(&mut self, line: &HeaderLine<'_>) {
        let value = line.value;
        let text = || value.map(str::to_owned);
        let mut wrong = Mistakes { line: line.number, range: line.range, errors: &mut self.errors };
        match line.key.to_ascii_lowercase().as_str() {
            "skill" => {
                self.name = text();
                value.into_iter().for_each(|name| refuse_reserved(name, NameUse::Skill, &mut wrong));
            }
            "description" => self.description = text(),
            "event-type" => self.event_type = text(),
            "type" => {
                let mut named = Some(self.skill_type);
                wrong.replace(&mut named, value, SkillType::read);
                self.skill_type = named.unwrap_or_default();
            }
            "status" => {
                let applied = scalars::apply_status(value, &mut self.status, &mut self.approval_token);
                applied.unwrap_or_else(|message| wrong.invalid(message));
            }
            "autonomous" => wrong.replace(&mut self.autonomous, value, scalars::autonomous),
            "timeout" => wrong.replace(&mut self.timeout, value, |value| TimeLimit::read("Timeout", value)),
            "deadline" => {
                wrong.replace(&mut self.deadline, value, |value| TimeLimit::read("Deadline", value))
            }
            "vars" => self.vars = vars::read(value.unwrap_or_default(), &mut wrong),
            "returns" => self.returns = names::returns(list(value), &mut wrong),
            "templates" => self.templates = list(value).map(str::to_owned).collect(),
            "tags" => self.tags.extend(list(value).map(str::to_lowercase)),
            "triggers" => self.triggers.extend(triggers::read(value.unwrap_or_default(), &mut wrong)),
            "output" => self.outputs.extend(outputs::read(value.unwrap_or_default(), &mut wrong)),
            "requires" => self.require(value.unwrap_or_default()),
            "onerror" => wrong.invalid(
                "`# OnError:` is not supported; use an `else:` block, or `(fallback: …)` behind an op"
                    .to_owned(),
            ),
            // Every other key is a comment.
            _ => {}
        }
    }

    fn require(&mut self, value: &str) {
        for required in requires::read(value) {
            match required {
                Required::Var(var) => self.requires.push(var),
                Required::Secret(name) => self.secret_requires.push(name),
                Required::Capability(name) => self.required_capabilities.push(name),
            }
        }
    }
}

/// The status as the parser reads it: that of the last status line with a known word or without a value.
pub(crate) fn parsed_status(body: &str) -> Option<Status> {
    let (mut status, mut token) = (None, None);
    for line in header_lines(body).filter(|line| line.is("status")) {
        // A mistake is reported by `SkillHeader::parse`.
        let _ = scalars::apply_status(line.value, &mut status, &mut token);
    }
    status
}

/// The entries of a list that commas separate, without empty ones.
fn list(value: Option<&str>) -> impl Iterator<Item = &str> {
    value.unwrap_or_default().split(',').map(trim).filter(|entry| !entry.is_empty())
}

/// Collects the errors of one line.
struct Mistakes<'a> {
    line: usize,
    range: SourceRange,
    errors: &'a mut Vec<ParseError>,
}

impl Mistakes<'_> {
    /// Replaces or clears a value. A mistake leaves it as it was.
    fn replace<T>(
        &mut self,
        old: &mut Option<T>,
        value: Option<&str>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) {
        match value.map(read) {
            None => *old = None,
            Some(Ok(new)) => *old = Some(new),
            Some(Err(message)) => self.invalid(message),
        }
    }

    fn invalid(&mut self, message: String) {
        self.add(ParseErrorKind::InvalidHeader, message);
    }

    fn add(&mut self, kind: ParseErrorKind, message: String) {
        self.errors.push(ParseError { line: self.line, range: self.range, kind, message });
    }
}

#[cfg(test)]
mod tests;
