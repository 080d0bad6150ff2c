//! The skill language, without input and output: a text goes in, a decision or another text comes out.
//!
//! A skill is a text file. Lines that begin with `#` are its header: its name, its variables, its triggers, its status.
//! This crate reads that header, decides whether a skill may run, changes its status and signs it.
//!
//! - No text makes this crate fail or panic. Mistakes of an author are collected in [`SkillHeader::errors`].
//! - The approval gate, the stores and the rewriter all ask [`status_of`]. It compares what the gate reads with what the
//!   parser reads. Where they disagree, the skill counts as Draft.
//! - Nothing here reads a file, a clock or the network, so the command line can sign on the operator's machine.

mod approval;
mod content_hash;
mod footprint;
mod named_skills;
mod status;
mod syntax;

pub use approval::{
    ApprovalMode, ApprovalPublicKey, ApprovalRefusal, ApprovalSigningKey, ApprovalVerdict, KeyFault,
    check_approval, signed_text, stamp,
};
pub use content_hash::ContentHash;
pub use footprint::{Footprint, footprint};
pub use named_skills::named_skills;
pub use status::{
    BodyStatus, Status, StatusLine, force_draft, gate_line, set_status, status_of, stored_status,
};
pub use syntax::{
    OutputKind, ParseError, ParseErrorKind, SkillHeader, SkillOutput, SkillTrigger, SkillType, SkillVar,
    TimeLimit, TriggerSource, VarNamespace, VarRequirement,
};
