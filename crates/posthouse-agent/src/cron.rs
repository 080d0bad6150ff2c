//! Managed cron, the agent's side: jobs that run at their second, once, also on an agent that sleeps.
//!
//! A [`Cron`] stands over a [`JobStore`](crate::jobs::JobStore) and a function for runs. Something has to
//! tell it when: the portal, which is armed with every job's next run and calls ([`Trigger::Chronos`]), or
//! a ticker in this process ([`Trigger::Ticker`]). [`Config::choose`] picks one by what is configured.
//!
//! What holds whatever happens:
//!
//! - Cron never loses its trigger. While the portal does not hold what the jobs want, because it cannot be
//!   reached or will not have us, the ticker runs here.
//! - Both at once run nothing twice: whoever tells us, a fire is claimed in the store before it runs, and
//!   the caller hears "accepted" only after the claim is on the disk.
//! - A job's own text of its next run is what the portal is armed with, byte for byte.
//!
//! ```no_run
//! use posthouse_agent::cron::{Config, Cron};
//! use posthouse_agent::jobs::{JsonFile, NewJob};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::from_env();
//! let store = JsonFile::open("agent-home", config.terms())?;
//! let cron = Cron::builder(store, config.terms()).configured(&config).on_job(|run| async move {
//!     println!("{}", run.job().prompt());
//!     Ok::<_, String>(())
//! });
//! cron.start();
//! cron.create(NewJob::new("every 2h").prompt("water the plants")).await?;
//! # Ok(())
//! # }
//! ```

mod chronos;
mod config;
mod fire;
mod handle;
mod memory;
mod missed;
mod portal;
mod provider;
mod reconcile;
#[cfg(feature = "axum")]
mod route;
mod runner;
pub mod schedule;
mod ticker;
mod wish;

pub use chronos::{Chronos, HandedKeys};
pub use config::{Choice, Config};
pub use fire::Answer;
pub use handle::{Cron, CronBuilder, Standing, Trigger};
pub use portal::{Credential, Portal, Refusal};
pub use runner::Run;
