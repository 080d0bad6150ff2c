//! Errors in the text of a skill. Parsing collects them and goes on.

use std::fmt;

use serde::Serialize;

/// A mistake of the author, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParseError {
    /// Number of the line in the whole text, from 1.
    pub line: usize,
    pub kind: ParseErrorKind,
    pub message: String,
}

/// Kinds of mistakes that lint reports under different rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ParseErrorKind {
    /// A header line with a value that its key does not allow.
    InvalidHeader,
    /// A name that is a word of the language.
    ReservedWord,
}

impl fmt::Display for ParseError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: {}", self.line, self.message)
    }
}
