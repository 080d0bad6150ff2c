//! `posthouse bench relay`: what a message costs, measured on this machine in one run; `bench clock` (in
//! `clock`): what an armed job and its fire cost; `bench post` (in `post`): what telling an agent something
//! costs beside it.
//!
//! The house runs in a process of its own, the platform and the agents in this one, all on loopback.
//! Machines differ, so the figures stand beside what the same machine does without a house (`floor`)
//! and beside the bars the house was built to; a missed bar is printed, a lost message is an error.

mod agents;
mod clock;
mod drain;
mod estate;
mod floor;
mod idle;
mod load;
mod machine;
mod pace;
mod peak;
mod post;
mod poster;
mod process;
mod report;
mod server;
mod start;
mod stopwatch;
mod tally;
mod tenants;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

pub use clock::{ClockArgs, clock};
pub use post::{PostArgs, post};
use report::Report;

/// What is measured, and how long.
#[derive(Args, Clone, Debug)]
pub struct RelayArgs {
    /// How long each load lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that post at once, each waiting for its answer before it posts again
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    posters: u32,
    /// Agents on the line during a load
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    agents: u32,
    /// Agents on the line with nothing to do
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    idle: u32,
    /// Messages kept for an agent that is away
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    drain: u32,
    /// Agents enrolled in the larger of two houses
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    instances: u32,
    /// Measures only this; may be given several times
    #[arg(long, value_name = "PART", value_enum)]
    only: Vec<Part>,
    /// The folder whose disk is measured; a folder of this run is made in it and removed [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// This disk's fdatasync, and a bare WebSocket echo
    Floor,
    /// As many messages as go through
    Peak,
    /// A thousand messages a second: how long each takes
    Pace,
    /// Memory and CPU of agents that have nothing to do
    Idle,
    /// An agent that comes back to a full inbox
    Drain,
    /// The same load in a small house and in a large one
    Tenants,
    /// From exec to ready
    Start,
}

impl RelayArgs {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// Measures and prints. An error means that nothing can be said, or that a message was lost or repeated.
pub async fn relay(args: RelayArgs) -> anyhow::Result<()> {
    unless_stopped(measure(&args)).await
}

async fn unless_stopped(measure: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    // Everything this run started ends with the future that is dropped here.
    tokio::select! {
        measured = measure => measured,
        stopped = crate::house::termination() => {
            stopped?;
            bail!("stopped before the end");
        }
    }
}

async fn measure(args: &RelayArgs) -> anyhow::Result<()> {
    let files = process::raise_file_limit()?;
    let ground = estate::Ground::new(args.dir.as_deref())?;
    let mut report = Report::new(machine::describe(ground.path())?);
    if args.wants(Part::Floor) {
        said("floor: fdatasync, bare echo");
        floor::measure(ground.path(), &mut report).await.context("floor")?;
    }
    if args.wants(Part::Start) {
        said("start: five times from exec to ready");
        start::measure(&ground, &mut report).await.context("start")?;
    }
    if args.wants(Part::Pace) {
        said(&format!("pace: {} messages a second for {} s", pace::RATE, args.seconds));
        pace::measure(&ground, args, &mut report).await.context("pace")?;
    }
    if args.wants(Part::Peak) {
        said(&format!("peak: {} posters, {} agents, {} s", args.posters, args.agents, args.seconds));
        peak::measure(&ground, args, &mut report).await.context("peak")?;
    }
    if args.wants(Part::Drain) {
        said(&format!("drain: {} messages kept for an agent that is away", args.drain));
        drain::measure(&ground, args, &mut report).await.context("drain")?;
    }
    if args.wants(Part::Idle) {
        said(&format!("idle: {} sockets", args.idle));
        idle::measure(&ground, args, files, &mut report).await.context("idle")?;
    }
    if args.wants(Part::Tenants) {
        said(&format!("tenants: {} enrolled against {}", args.instances, args.agents));
        tenants::measure(&ground, args, &mut report).await.context("tenants")?;
    }
    report.compare();
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

/// Progress is for whoever waits; the figures alone go to standard output.
fn said(words: &str) {
    eprintln!("bench: {words}");
}
