//! Rules for writing a skill, shared by all stores: names, sizes, status, author and approval.

use serde_json::{Map, Value};
use skill::{ApprovalVerdict, Status, check_approval, force_draft, set_status, stored_status};

use crate::approval_policy::ApprovalPolicy;
use crate::skill_meta::SkillMeta;
use crate::skill_store::StoreOptions;
use crate::store_refusal::{RefusalReason, WriteConflict};

/// Longest name of a skill.
pub const NAME_BYTES: usize = 128;
/// Longest text of a skill.
pub const BODY_BYTES: usize = 256 * 1024;
/// Longest metadata bag, as JSON.
pub const METADATA_BYTES: usize = 64 * 1024;
/// Number of tags in a metadata bag.
pub const TAGS: usize = 64;
/// Longest tag in a metadata bag.
pub const TAG_BYTES: usize = 128;

/// Whether a skill can have this name. Such a name is also safe as a part of a file name.
pub fn is_skill_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.len() <= NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(allowed)
}

/// What differs between stores.
#[derive(Clone, Debug, Default)]
pub struct WriteRules {
    /// An overwrite keeps the status of the stored skill unless a status is given with the write.
    pub overwrite_keeps_status: bool,
    /// The author of a new skill that is written without one.
    pub default_author: Option<String>,
    /// A line of history without an explicit author names the author of the skill.
    pub history_names_author: bool,
    pub keeps_metadata: bool,
}

/// A write as it was decided.
#[derive(Debug, PartialEq)]
pub(crate) struct DecidedWrite {
    pub body: String,
    pub status: Status,
    pub author: Option<String>,
    pub changed_by: Option<String>,
    pub metadata_bag: Option<Map<String, Value>>,
}

/// Refuses a request that is invalid whatever is stored: name, sizes, tags.
pub(crate) fn check_request(
    rules: &WriteRules,
    name: &str,
    source: &str,
    options: &StoreOptions,
) -> Result<(), RefusalReason> {
    if !is_skill_name(name) {
        return Err(RefusalReason::conflict(name, WriteConflict::BadName));
    }
    check_size(name, "the text", source.len(), BODY_BYTES)?;
    let Some(bag) = options.metadata_bag.as_ref().filter(|bag| !bag.is_empty()) else { return Ok(()) };
    if !rules.keeps_metadata {
        return Err(RefusalReason::conflict(name, WriteConflict::NoMetadata));
    }
    check_size(name, "the metadata bag", Value::Object(bag.clone()).to_string().len(), METADATA_BYTES)?;
    let Some(Value::Array(tags)) = bag.get("tags") else { return Ok(()) };
    if tags.len() > TAGS {
        return Err(RefusalReason::TooManyTags { name: name.to_owned(), count: tags.len(), limit: TAGS });
    }
    tags.iter().filter_map(Value::as_str).try_for_each(|tag| check_size(name, "a tag", tag.len(), TAG_BYTES))
}

/// Decides a write from the skill that is stored now.
pub(crate) fn decide_write(
    rules: &WriteRules,
    approval: &ApprovalPolicy,
    source: &str,
    options: &StoreOptions,
    name: &str,
    current: Option<&SkillMeta>,
) -> Result<DecidedWrite, RefusalReason> {
    check_version(name, options, current)?;
    if options.only_new && current.is_some() {
        return Err(RefusalReason::conflict(name, WriteConflict::Exists));
    }
    let author = decide_author(rules, name, options, current)?;
    let (body, status) = decide_status(rules, approval, source, options, current.map(|skill| skill.status));
    // A status line may have been added.
    check_size(name, "the text", body.len(), BODY_BYTES)?;
    let named = options.author.clone().or_else(|| options.writer.clone());
    let changed_by = named.or_else(|| author.clone().filter(|_| rules.history_names_author));
    let metadata_bag = match &options.metadata_bag {
        Some(bag) => Some(bag.clone()).filter(|bag| !bag.is_empty()),
        None => current.and_then(|skill| skill.metadata_bag.clone()),
    };
    Ok(DecidedWrite { body, status, author, changed_by, metadata_bag })
}

/// The text of a stored skill with another status.
pub(crate) fn decide_status_change(
    approval: &ApprovalPolicy,
    name: &str,
    body: &str,
    status: Status,
) -> Result<String, RefusalReason> {
    let changed = set_status(body, status).into_owned();
    check_size(name, "the text", changed.len(), BODY_BYTES)?;
    if status == Status::Approved
        && let ApprovalVerdict::Refused(why) = check_approval(&changed, approval.mode())
    {
        return Err(RefusalReason::ApprovalRejected { name: name.to_owned(), why: why.to_string() });
    }
    Ok(changed)
}

fn decide_status(
    rules: &WriteRules,
    approval: &ApprovalPolicy,
    source: &str,
    options: &StoreOptions,
    previous: Option<Status>,
) -> (String, Status) {
    if options.force_draft {
        return (force_draft(source).into_owned(), Status::Draft);
    }
    let kept = previous.filter(|_| rules.overwrite_keeps_status);
    let status = stored_status(options.status.or(kept), source, previous);
    let body = set_status(source, status).into_owned();
    // A store cannot approve: in signed mode only a signature does.
    let refused = || matches!(check_approval(&body, approval.mode()), ApprovalVerdict::Refused(_));
    if status == Status::Approved && refused() {
        return (force_draft(&body).into_owned(), Status::Draft);
    }
    (body, status)
}

fn decide_author(
    rules: &WriteRules,
    name: &str,
    options: &StoreOptions,
    current: Option<&SkillMeta>,
) -> Result<Option<String>, RefusalReason> {
    let locked = current.and_then(|skill| skill.author.as_ref());
    match (locked, &options.author) {
        (Some(author), Some(requested)) if author != requested => {
            let (author, requested) = (author.clone(), requested.clone());
            Err(RefusalReason::conflict(name, WriteConflict::AuthorLocked { author, requested }))
        }
        (Some(author), _) => Ok(Some(author.clone())),
        (None, requested) => {
            // A skill that exists without an author keeps none, unless one is given.
            let writer = options.writer.clone().filter(|_| current.is_none());
            Ok(requested.clone().or(writer).or_else(|| rules.default_author.clone()))
        }
    }
}

fn check_version(
    name: &str,
    options: &StoreOptions,
    current: Option<&SkillMeta>,
) -> Result<(), RefusalReason> {
    let current = current.map(|skill| &skill.version);
    match &options.if_version {
        Some(expected) if current != Some(expected) => {
            let (current, expected) = (current.cloned(), expected.clone());
            Err(RefusalReason::conflict(name, WriteConflict::OtherVersion { current, expected }))
        }
        _ => Ok(()),
    }
}

fn check_size(name: &str, what: &'static str, size: usize, limit: usize) -> Result<(), RefusalReason> {
    if size <= limit {
        return Ok(());
    }
    Err(RefusalReason::TooLarge { name: name.to_owned(), what, size, limit })
}

#[cfg(test)]
mod tests;
