//! Execution of skills over a [`SkillHost`].
//!
//! A run begins with a syntax tree. [`PreparedSkill`] turns inputs into variables, inlines data skills and orders the
//! targets. [`run_skill`] then runs the operations of each target and returns a [`SkillOutcome`].
//!
//! - Only the host reads clocks, files and the network, and tests can replace the host.
//! - Everything that a skill can make large is bounded by [`RunLimits`]. Reaching a bound is an `OpError`.
//! - A run can be dropped at any time. It yields to other tasks after a bounded amount of work.

mod condition;
mod context;
mod executor;
mod filters;
mod host;
mod inlining;
mod json_text;
mod library;
mod limits;
mod literal;
mod mutation_gate;
mod number;
mod object;
mod order;
mod outcome;
mod prepare;
mod run_error;
mod shared_memory;
mod store_check;
mod substitute;
mod timestamp;
mod trace;
mod trace_sampling;
mod utf16;
mod value;
mod variables;

pub use context::{RunContext, RunPolicy, RunTrigger};
pub use executor::run_skill;
pub(crate) use filters::apply as apply_filter;
pub use host::{
    AgentDelivery, CommandRequest, DeliveredKind, DeliveryOrigin, ExchangeAnswer, FileEncoding, FileFault,
    HostFault, LoadedSkill, SecretText, SkillHost, ToolConnector, ToolRequest,
};
pub use inlining::InlinedSkill;
pub use json_text::JsonFault;
pub use library::SkillLibrary;
pub use limits::RunLimits;
pub(crate) use limits::too_large;
pub(crate) use number::leading_integer;
pub use object::SkillObject;
pub use outcome::{FallbackRecord, SkillOutcome, UncertainEffect, UndeliveredOutput};
pub use prepare::PreparedSkill;
pub use run_error::{CutOperation, ErrorClass, ErrorRecord, RunError};
pub use shared_memory::{MemoryRefusal, ReservedMemory, RunMemory};
pub use store_check::{lint_errors, store_facts};
pub use trace::{ChildTrace, TracedOp, TracedRun};
pub use trace_sampling::TraceMode;
pub(crate) use utf16::{utf16_cut, utf16_length, utf16_preview};
pub use value::{SharedList, SkillValue};
pub use variables::Variables;
