//! Refusals of skill stores. Their classes and fields are those of the store contract.

use std::fmt;

use skill::Status;

use crate::store_failure::StoreFailure;

/// What every refusal of a skill store says about its origin.
pub const CONNECTOR_TYPE: &str = "skill_store";

/// A request that a store refuses, and which store it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct StoreRefusal {
    /// The name of the store's implementation, as its contract calls it.
    pub implementation: &'static str,
    pub reason: RefusalReason,
}

impl StoreRefusal {
    pub fn connector_type(&self) -> &'static str {
        CONNECTOR_TYPE
    }

    /// The status with this name. The contract knows no other spelling.
    pub fn status_named(implementation: &'static str, name: &str, word: &str) -> Result<Status, Self> {
        Status::named(word).filter(|status| status.as_str() == word).ok_or_else(|| Self {
            implementation,
            reason: RefusalReason::UnknownStatus { name: name.to_owned(), word: word.to_owned() },
        })
    }
}

/// Why a request was refused. The text of a missing skill is part of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    #[error("Skill not found: '{name}'")]
    SkillNotFound { name: String },
    #[error("Version '{version}' of skill '{name}' not found")]
    VersionNotFound { name: String, version: String },
    #[error("Storage conflict on '{name}': {conflict}")]
    StorageConflict { name: String, conflict: WriteConflict },
    #[error("Approval of '{name}' rejected: {why}")]
    ApprovalRejected { name: String, why: String },
    #[error("status of '{name}' must be one of \"Draft\", \"Approved\", \"Disabled\"; got \"{word}\"")]
    UnknownStatus { name: String, word: String },
    #[error("the filter 'name_pattern' cannot be used: {why}")]
    BadPattern { why: String },
    #[error("{what} of '{name}' has {size} bytes, and {limit} are allowed")]
    TooLarge { name: String, what: &'static str, size: usize, limit: usize },
    #[error("'{name}' has {count} tags, and {limit} are allowed")]
    TooManyTags { name: String, count: usize, limit: usize },
    #[error("the tenant has reached its limit: {what}")]
    QuotaExceeded { what: &'static str },
    #[error("'{name}' cannot be read as a skill: {why}")]
    Unreadable { name: String, why: String },
    #[error("the store cannot be written: {why}")]
    ReadOnly { why: String },
    #[error("the store of this tenant cannot be used: {why}")]
    Unusable { why: String },
    #[error(transparent)]
    Remote(StoreFailure),
    #[error("'{name}' is used by other skills: {}", dependents.join(", "))]
    InUse { name: String, dependents: Vec<String> },
    #[error("{why}")]
    NotAllowed { why: &'static str },
}

impl RefusalReason {
    /// The error class of the contract.
    pub fn class(&self) -> &'static str {
        match self {
            Self::SkillNotFound { .. } => "SkillNotFoundError",
            Self::VersionNotFound { .. } => "VersionNotFoundError",
            Self::StorageConflict { .. } => "StorageConflictError",
            Self::ApprovalRejected { .. } => "ApprovalRejectedError",
            Self::BadPattern { .. } => "QueryError",
            Self::Remote(failure) => failure.class(),
            Self::UnknownStatus { .. }
            | Self::TooLarge { .. }
            | Self::TooManyTags { .. }
            | Self::QuotaExceeded { .. }
            | Self::Unreadable { .. }
            | Self::ReadOnly { .. }
            | Self::Unusable { .. }
            | Self::InUse { .. }
            | Self::NotAllowed { .. } => "Error",
        }
    }

    /// The code in error responses: stable, in snake case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SkillNotFound { .. } => "skill_not_found",
            Self::VersionNotFound { .. } => "version_not_found",
            Self::StorageConflict { .. } => "storage_conflict",
            Self::ApprovalRejected { .. } => "approval_rejected",
            Self::UnknownStatus { .. } => "unknown_status",
            Self::BadPattern { .. } => "query",
            Self::TooLarge { .. } | Self::TooManyTags { .. } => "too_large",
            Self::QuotaExceeded { .. } => "quota_exceeded",
            Self::Unreadable { .. } => "unreadable",
            Self::ReadOnly { .. } => "read_only",
            Self::Unusable { .. } => "store_unusable",
            Self::Remote(failure) => failure.code(),
            Self::InUse { .. } => "skill_in_use",
            Self::NotAllowed { .. } => "forbidden",
        }
    }

    pub(crate) fn not_found(name: &str) -> Self {
        Self::SkillNotFound { name: name.to_owned() }
    }

    pub(crate) fn conflict(name: &str, conflict: WriteConflict) -> Self {
        Self::StorageConflict { name: name.to_owned(), conflict }
    }
}

/// What a write was in conflict with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteConflict {
    BadName,
    Exists,
    AuthorLocked { author: String, requested: String },
    OtherVersion { current: Option<String>, expected: String },
    ChangedTooOften,
    NoMetadata,
}

impl fmt::Display for WriteConflict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName => to.write_str(
                "a name has at most 128 letters, digits, '_', '-' and '.', and begins with a letter or digit",
            ),
            Self::Exists => to.write_str("the skill exists, and the write does not overwrite"),
            Self::AuthorLocked { author, requested } => {
                write!(to, "the author is locked at the first write (it is '{author}', not '{requested}')")
            }
            Self::OtherVersion { current: Some(current), expected } => {
                write!(to, "its version is {current}, not {expected}")
            }
            Self::OtherVersion { current: None, expected } => {
                write!(to, "there is no such skill, and version {expected} was expected")
            }
            Self::ChangedTooOften => to.write_str("others are changing it all the time; try again"),
            Self::NoMetadata => to.write_str("this store keeps no metadata bag"),
        }
    }
}
