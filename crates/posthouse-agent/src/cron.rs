//! Managed cron, the agent's side: each job runs once at its time, even if the agent sleeps until then.
//!
//! A [`Cron`] works on a [`JobStore`](crate::jobs::JobStore) and a function for runs. A trigger tells it
//! when a job is due: the portal, which is armed with every job's next run and calls the agent
//! ([`Trigger::Chronos`]), or a ticker in this process ([`Trigger::Ticker`]). [`Config::choose`] picks one
//! from the configuration.
//!
//! Guarantees:
//!
//! - Cron always has a trigger. While the portal does not hold the right arms, because it is unreachable or
//!   refuses the agent, the local ticker runs.
//! - Portal and ticker together run nothing twice: a fire is claimed in the store before it runs, and the
//!   caller gets "accepted" only after the claim is on disk.
//! - The portal is armed with the text of the next run from the job's record, byte for byte.
//!
//! ```no_run
//! use posthouse_agent::cron::{Config, Cron};
//! use posthouse_agent::jobs::{JsonFile, NewJob};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::from_env();
//! let store = JsonFile::open("agent-home", config.store_settings())?;
//! let cron = Cron::builder(store, config.store_settings()).configured(&config).on_job(|run| async move {
//!     println!("{}", run.job().prompt());
//!     Ok::<_, String>(())
//! });
//! cron.start();
//! cron.create(NewJob::new("every 2h").prompt("water the plants")).await?;
//! # Ok(())
//! # }
//! ```

mod arm_request;
mod chronos;
mod config;
mod fire;
mod handle;
mod known_arms;
mod missed;
mod portal;
mod provider;
mod reconcile;
#[cfg(feature = "axum")]
mod route;
mod runner;
pub mod schedule;
mod ticker;

pub use chronos::{Chronos, HandedKeys};
pub use config::{Choice, Config};
pub use fire::FireResponse;
pub use handle::{Cron, CronBuilder, CronState, Trigger};
pub use portal::{Portal, PortalError};
pub use runner::Run;

pub use crate::token::{ApiCredential, FetchedToken, NoToken, TokenSource};
