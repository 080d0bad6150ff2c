//! Parsing of skills: lines, header lines, targets, operations and conditions.

pub(crate) mod blanks;
mod header;
pub(crate) mod lines;
mod literal;
mod parse_error;
mod parser;
mod quotes;
mod source_range;
pub mod tree;

pub(crate) use header::parsed_status;
pub use header::{
    OutputKind, SkillHeader, SkillOutput, SkillTrigger, SkillType, SkillVar, TimeLimit, TriggerSource,
    VarNamespace, VarRequirement,
};
pub use parse_error::{ParseError, ParseErrorKind};
pub(crate) use parser::{argument_words, excerpt, verbatim_lines};
