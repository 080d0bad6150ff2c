//! Managed cron: stores armed jobs and calls the agent at the due time, even if the agent was off meanwhile.
//!
//! An agent arms one call per job. The clock stores the arm, fires it at the due time with a token that it
//! signs itself, and retries until the agent has accepted the fire. Other planes use the same mechanism for
//! alarms, which fire a target that the plane has registered. Agents do not see alarms.
//!
//! Invariants:
//! - An arm request is answered only after its commit.
//! - A fire is never early, also when the wall clock is set.
//! - A fire that the agent has accepted is not repeated.
//! - After a cancel or a newer arm was answered, no attempt of the older arm begins.
//! - The owner of a job follows from the stored credential, never from a request body.

mod alarm;
mod arm;
mod background;
mod callback;
mod cancelled_during_claim;
mod clock;
mod config;
mod due;
mod external_scheduler;
mod fault;
mod fire;
mod fire_queue;
mod fire_targets;
mod heap;
mod held;
mod leases;
mod metrics;
mod mint;
mod missed;
mod operator;
mod prewake;
mod rate_limit;
mod retry;
mod revivals;
mod routes;
mod socket_target;
mod target;
#[cfg(test)]
mod tests;
mod wake_requests;
mod wall_clock;

pub use alarm::{Alarm, Alarms};
pub use clock::{Clock, Parts};
pub use config::Config;
pub use fault::Fault;
pub use metrics::Metrics;
pub use operator::{CronJobs, JobFilter, JobStatus, ManualFire};
pub use routes::{OPENAPI, OPERATIONS, render_fire, routes};
pub use target::{FireOutcome, FireTarget};
/// Types in which the admin API shows the signing keys.
pub use vault::{Algorithm, SigningKeyStatus};
