//! Expected state of a skill in the crash test: its text, its history, and the deleted skills of its name, after the
//! changes that a writer asked for.

use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use reqwest::StatusCode;
use serde_json::{Value, json};
use skill::{ApprovalSigningKey, stamp};

use super::tenants::StoreTenant;

/// Version and status.
pub type HistoryLine = (String, String);

/// How a store keeps its history.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeptHistory {
    /// A line for every write, in the order of the writes.
    LinePerWrite,
    /// A file of the reference runtime has one line for each version, so the order is not that of the writes.
    LinePerVersion,
}

/// A change of a skill that a writer asks for.
#[derive(Clone, Debug)]
pub enum SkillChange {
    /// A text that no other write has, because of its mark.
    Write {
        mark: usize,
        status: &'static str,
    },
    Status(&'static str),
    Delete,
    Restore,
}

impl SkillChange {
    /// Method, path and body of the request.
    pub fn request(&self, name: &str, of: &StoreTenant) -> (&'static str, String, Option<Value>) {
        let path = format!("/v1/skills/{name}");
        match self {
            Self::Write { mark, status } => {
                let source = source(name, *mark, status, of.signing_key.as_deref());
                ("PUT", path, Some(json!({ "source": source, "status": status })))
            }
            Self::Status(status) => ("POST", format!("{path}/status"), Some(json!({ "status": status }))),
            Self::Delete => ("DELETE", path, None),
            Self::Restore => ("POST", format!("{path}/restore"), None),
        }
    }
}

/// Everything about one name in one store.
#[derive(Clone, Debug, Default)]
pub struct ExpectedSkill {
    current: Option<WrittenVersions>,
    /// The one that a restore brings back is the last.
    deleted: Vec<WrittenVersions>,
}

/// A skill, with a mark and a status for every write.
type WrittenVersions = Vec<(usize, &'static str)>;

impl ExpectedSkill {
    pub fn exists(&self) -> bool {
        self.current.is_some()
    }

    pub fn can_be_restored(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// The skill after a change, or the status code of the refusal.
    pub fn after(&self, change: &SkillChange, of: &StoreTenant) -> Result<Self, StatusCode> {
        let mut after = self.clone();
        match (change, &mut after.current) {
            (SkillChange::Write { mark, status }, current) => {
                current.get_or_insert_default().push((*mark, *status));
            }
            (SkillChange::Status(_) | SkillChange::Delete, None) => return Err(StatusCode::NOT_FOUND),
            (SkillChange::Status(status), Some(lines)) => {
                let (mark, before) = lines.last().copied().unwrap_or_default();
                if *status == "Approved" && before != "Approved" && of.signing_key.is_some() {
                    return Err(StatusCode::FORBIDDEN);
                }
                lines.push((mark, *status));
            }
            (SkillChange::Delete, current @ Some(_)) => {
                let deleted = current.take();
                // Only the server's own store keeps deleted skills.
                after.deleted.extend(deleted.filter(|_| of.is_house()));
            }
            (SkillChange::Restore, Some(_)) if self.can_be_restored() => return Err(StatusCode::CONFLICT),
            (SkillChange::Restore, _) => {
                after.current = Some(after.deleted.pop().ok_or(StatusCode::NOT_FOUND)?);
            }
        }
        Ok(after)
    }

    /// The version that is there now, if it is Approved.
    pub fn approved_version(&self, name: &str, of: &StoreTenant) -> Option<String> {
        let (version, status) = self.lines(name, of).pop()?;
        (status == "Approved").then_some(version)
    }

    fn lines(&self, name: &str, of: &StoreTenant) -> Vec<HistoryLine> {
        let line = |(mark, status): &(usize, &'static str)| {
            let source = source(name, *mark, status, of.signing_key.as_deref());
            (version_of(&source), (*status).to_owned())
        };
        self.current.iter().flatten().map(line).collect()
    }

    /// Why the stored skill cannot be this one.
    pub fn difference(&self, stored: Option<&StoredState>, name: &str, of: &StoreTenant) -> Option<String> {
        let lines = self.lines(name, of);
        let Some(stored) = stored else {
            return self.exists().then(|| format!("is not there, but has {} lines of history", lines.len()));
        };
        if !self.exists() {
            return Some("is there".to_owned());
        }
        if lines.last() != Some(&stored.current) {
            return Some(format!("is {:?}, not {:?}", stored.current, lines.last()));
        }
        let is_same = match of.kept {
            KeptHistory::LinePerWrite => stored.lines == lines,
            KeptHistory::LinePerVersion => {
                let distinct: BTreeSet<&HistoryLine> = stored.lines.iter().collect();
                distinct.len() == stored.lines.len() && distinct == lines.iter().collect()
            }
        };
        (!is_same).then(|| format!("has another history than that of its writes: {:?}", stored.lines))
    }
}

/// A skill as the server shows it.
pub struct StoredState {
    current: HistoryLine,
    lines: Vec<HistoryLine>,
}

impl StoredState {
    /// Reads the answers for a skill and for its history. The error says which parts of them disagree.
    pub fn read(skill: &Value, history: &Value) -> Result<Self, String> {
        let text = |at: &str| skill.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (source, version, status) = (text("/source"), text("/version"), text("/metadata/status"));
        let hash = hash_of(source);
        if hash != text("/content_hash") || version != &hash[..12] {
            return Err(format!("the hash is not that of the text: {skill}"));
        }
        let line = source.lines().find_map(|line| line.strip_prefix("# Status: ")).unwrap_or_default();
        if line.split(' ').next() != Some(status) {
            return Err(format!("the text says {line}, the row says {status}"));
        }
        let text = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let lines = history["items"].as_array().into_iter().flatten();
        let lines = lines.map(|line| (text(line, "version"), text(line, "status"))).collect();
        Ok(Self { current: (version.to_owned(), status.to_owned()), lines })
    }
}

/// The text of a write. In a tenant with an approval key, an approval is a signature.
fn source(name: &str, mark: usize, status: &str, signing_key: Option<&ApprovalSigningKey>) -> String {
    let source = format!("# Skill: {name}\n# Status: {status}\n\ngo:\n    emit(text=\"mark-{mark}\")\n");
    match signing_key {
        Some(key) if status == "Approved" => stamp(&source, key),
        _ => source,
    }
}

fn hash_of(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn version_of(text: &str) -> String {
    hash_of(text)[..12].to_owned()
}
