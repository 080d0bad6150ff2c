//! The skill language, without input and output: a text goes in, a decision or another text comes out.
//!
//! A skill is a text file. Lines that begin with `#` are its header: its name, its variables, its triggers, its status.
//! Below it are targets with operations, and text that becomes the output.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`tree`] | the syntax tree; [`tree::SkillTree::parse`] fills it |
//! | [`check`] | lint: findings with place, rule and remedy |
//! | [`PreparedSkill`], [`run_skill`] | running a skill over a [`SkillHost`] |
//! | [`render_skill`], [`Provenance`] | a prepared skill as steps to read; which texts went into it |
//! | [`SkillHeader`] | the header alone, for lists and stores |
//! | [`footprint`], [`named_skills`] | what a skill touches; the other skills that it names |
//! | [`language_reference`] | the language and its lint rules as Markdown |
//! | [`format_skill`] | formatting without a change of meaning |
//! | [`status_of`], [`check_approval`], [`stamp`] | the status of a text, the approval gate, signing |
//!
//! - No text makes this crate fail or panic, and its time grows with the length of the text. Mistakes of an author are
//!   collected with their place.
//! - The approval gate, the stores and the rewriter all ask [`status_of`]. It compares what the gate reads with what
//!   the parser reads. Where they disagree, the skill counts as Draft.
//! - Nothing here reads a file, a clock or the network, so the command line can sign on the operator's machine.

mod approval;
pub mod check;
mod compile;
mod content_hash;
mod cron;
mod footprint;
mod format;
mod language_reference;
mod named_skills;
mod run;
mod status;
mod syntax;

pub use approval::{
    ApprovalMode, ApprovalPublicKey, ApprovalRefusal, ApprovalSigningKey, ApprovalVerdict, KeyFault,
    check_approval, signed_text, stamp,
};
pub use compile::{
    Provenance, ProvenanceFinding, RenderFormat, SourceSkill, compare_provenance, render_skill,
    resolved_outputs,
};
pub use content_hash::ContentHash;
pub use cron::{CivilMinute, CronFields};
pub use footprint::{Footprint, footprint};
pub use format::format_skill;
pub use language_reference::language_reference;
pub use named_skills::{named_skills, names_skill_by_value};
pub use run::{
    AgentDelivery, ChildTrace, CommandRequest, CutOperation, DeliveredKind, DeliveryOrigin, ErrorClass,
    ErrorRecord, ExchangeAnswer, FallbackRecord, FileEncoding, FileFault, HostFault, InlinedSkill, JsonFault,
    LoadedSkill, MemoryRefusal, PreparedSkill, ReservedMemory, RunContext, RunError, RunLimits, RunMemory,
    RunPolicy, RunTrigger, SecretText, SharedList, SkillHost, SkillLibrary, SkillObject, SkillOutcome,
    SkillValue, ToolConnector, ToolRequest, TraceMode, TracedOp, TracedRun, UncertainEffect,
    UndeliveredOutput, Variables, lint_errors, run_skill, store_facts,
};
pub use status::{
    BodyStatus, Status, StatusLine, force_draft, gate_line, set_status, status_of, stored_status,
};
pub use syntax::tree;
pub use syntax::{
    OutputKind, ParseError, ParseErrorKind, SkillHeader, SkillOutput, SkillTrigger, SkillType, SkillVar,
    TimeLimit, TriggerSource, VarNamespace, VarRequirement,
};
