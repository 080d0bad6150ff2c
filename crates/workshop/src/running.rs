//! Running skills: the real `SkillHost`, with tools, models, commands, files, agents and secrets.
//!
//! [`RunResources`] are what the runs of one tenant share: connected tools, the model, what is allowed. A [`RunHost`] is
//! the outside world of one run. Without a server, a host has a folder of skills and no agents.
//!
//! - Commands, files and child processes are refused unless the operator allows them.
//! - Dropping a run ends what it does: its commands are killed with their children.
//! - A secret is read just before the call that needs it, and from the run's own tenant only.

mod active_runs;
mod admission;
mod agent_messages;
mod bridges;
mod commands;
mod connectors_file;
mod cron_times;
mod event_cause;
mod file_access;
mod first_effect;
mod local_model;
mod memory_budget;
mod process_group;
mod repeatable;
mod routes;
mod run_end;
mod run_host;
mod run_queue;
mod run_report;
mod run_resources;
mod run_secrets;
mod run_settings;
mod run_skills;
mod run_slots;
mod run_turns;
mod runs;
mod skill_runner;
mod skill_threads;
mod tenant_resources;
mod tool_clients;
mod trigger_alarms;
mod trigger_events;
mod trigger_follower;
mod triggers;

pub use agent_messages::AgentMessages;
pub use commands::Commands;
pub use connectors_file::{ConnectorClass, ConnectorsFile, FileConnector};
pub use file_access::FileAccess;
pub use local_model::LocalModel;
pub(crate) use routes::own_runs;
pub use routes::{RUN_OPENAPI, RUN_OPERATIONS, run_routes};
pub use run_host::RunHost;
pub use run_report::{RefusedName, RunRefusal, envelope as run_envelope};
pub use run_resources::RunResources;
pub use run_secrets::RunSecrets;
pub use run_settings::{MissedRuns, RunSettings};
pub use run_skills::{RefusedSkill, RunSkills};
pub use runs::{RunOrder, RunParts, RunReport, RunText, Runs};
pub use skill_runner::{RunnerParts, SkillRunner};
pub(crate) use skill_threads::{NoTurn, SkillThreads};
pub use tenant_resources::{RunSettingsRefusal, TenantResources, TenantRunSetup};
pub use tool_clients::{ToolClientParts, ToolClients};
pub use trigger_events::EventOutcome;
pub use triggers::{EnableOutcome, RegisterOutcome, Triggers, trigger_id};
