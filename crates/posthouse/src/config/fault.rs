//! Errors in a configuration, with their place.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{} does not exist: create it with `posthouse init DIR`", file.display())]
    Missing { file: PathBuf },
    #[error("cannot read {}: {why}", file.display())]
    Unreadable { file: PathBuf, why: String },
    #[error("{}:{line}: {what}", file.display())]
    Line { file: PathBuf, line: usize, what: String },
    #[error("environment variable {name}: {what}")]
    Variable { name: String, what: String },
    /// Each setting is valid, but not the combination.
    #[error("{}: {what}", file.display())]
    Relation { file: PathBuf, what: String },
}
