//! Parsing of skills: lines, header lines and the values of the header.

pub(crate) mod blanks;
mod header;
pub(crate) mod lines;
mod parse_error;

pub(crate) use header::parsed_status;
pub use header::{
    OutputKind, SkillHeader, SkillOutput, SkillTrigger, SkillType, SkillVar, TimeLimit, TriggerSource,
    VarNamespace, VarRequirement,
};
pub use parse_error::{ParseError, ParseErrorKind};
