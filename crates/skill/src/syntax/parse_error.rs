//! Errors in the text of a skill. Parsing collects them and goes on.

use std::fmt;

use serde::Serialize;

use super::source_range::SourceRange;

/// A mistake of the author, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParseError {
    /// Number of the line in the whole text, from 1.
    pub line: usize,
    /// The text that the message is about.
    pub range: SourceRange,
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
    /// Indentation by tabs, or by a number of spaces that no open block has.
    Indentation,
    /// A `$set` or `$append` that lacks a part.
    MalformedOp,
    /// A call whose parentheses, arguments or trailer cannot be read.
    MalformedCall,
    /// An `if`, `elif` or `foreach` that lacks a part.
    MalformedBlock,
    /// An operation of older versions of the language.
    LegacyOp,
    UnsupportedCondition,
    /// A condition with `=` instead of `==`.
    SingleEquals,
    /// Anything else that has no place or no meaning where it stands.
    Structure,
}

impl fmt::Display for ParseError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "line {}: {}", self.line, self.message)
    }
}
