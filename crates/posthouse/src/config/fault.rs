//! What is wrong with a configuration, and where.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("cannot read {}: {why}", file.display())]
    Unreadable { file: PathBuf, why: String },
    #[error("{}:{line}: {what}", file.display())]
    Line { file: PathBuf, line: usize, what: String },
    #[error("environment variable {name}: {what}")]
    Variable { name: String, what: String },
    /// Each setting may stand; together they may not.
    #[error("{}: {what}", file.display())]
    Relation { file: PathBuf, what: String },
}
