//! Test doubles for running skills: tools, a model, agents, stores, files and commands, as the recorded programs had
//! them.
//!
//! [`StandardHost`] has tools with fixed answers, a model that repeats its prompt, agents that record what they get, a
//! shelf of skills, a shelf of data, a folder for files and commands of this machine. [`drive`] runs a skill with a clock
//! that moves only when everything waits for it, so nothing sleeps.
//!
//! [`ProgramCase`] plays a program in the format of the recorded ones, and compares what it left with what the case
//! expects.
//!
//! Tests, `posthouse skill test` and the bench use these doubles. They start processes and write files, which `skill` never does,
//! so they are a crate of their own.

mod agents;
mod commands;
mod data_shelf;
mod files;
mod hand_clock;
mod program;
mod skill_shelf;
mod standard_host;
mod tools;

pub use agents::{AgentDouble, AgentFlags, AgentsPlayed};
pub use data_shelf::DataShelf;
pub use hand_clock::{HandClock, drive};
pub use program::compare::path_differences;
pub use program::parsed_form::tree_form;
pub use program::{CaseFault, PlayedProgram, ProgramCase, TestKeys};
pub use skill_shelf::SkillShelf;
pub use standard_host::{StandardHost, StandardSettings};
pub use tools::PlayedCall;
