//! Benchmarks: `posthouse bench relay` measures messages; `bench clock` (in `clock`) measures armed jobs
//! and their fires; `bench post` (in `post`) compares messages of programs with messages from a platform;
//! `bench stores` (in `stores`) measures skills and data; `bench edge` (in `edge`) measures the verification and
//! normalization of deliveries, without a server.
//!
//! The server runs in a process of its own; the platform and the agents run in this one, all on loopback.
//! Machines differ, so each figure is compared with what the same machine does without a server (`floor`),
//! and with a target. A missed target is printed; a lost message is an error.

mod agents;
mod clock;
mod drain;
mod edge;
mod fixed_rate;
mod fixtures;
mod floor;
mod idle;
mod load;
mod machine;
mod media;
mod neighbours;
mod pacer;
mod peak;
mod post;
mod poster;
mod process;
mod report;
mod server;
mod shared_bot;
mod skills;
mod start;
mod stopwatch;
mod stores;
mod tally;
mod tenants;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

pub use clock::{ClockArgs, clock};
pub use edge::{EdgeArgs, edge};
pub use post::{PostArgs, post};
use report::Report;
pub use skills::{SkillsArgs, skills};
pub use stores::{StoresArgs, stores};

/// Options of `bench relay`.
#[derive(Args, Clone, Debug)]
pub struct RelayArgs {
    /// How long each load lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Connections that post at the same time; each waits for its answer before it posts again
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    posters: u32,
    /// Connected agents during a load
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    agents: u32,
    /// Connected agents that have nothing to do
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    idle: u32,
    /// Messages stored for an agent that is not connected
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    drain: u32,
    /// Agents enrolled on the larger of two servers
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    instances: u32,
    /// Measure only this part; can be repeated
    #[arg(long, value_name = "PART", value_enum)]
    only: Vec<RelayMeasurement>,
    /// Folder on the disk to measure; a temporary folder is created in it and removed [default: the
    /// system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RelayMeasurement {
    /// This disk's fdatasync, and a bare WebSocket echo
    Floor,
    /// As many messages as the server can handle
    Peak,
    /// A thousand messages a second: the latency of each
    #[value(alias = "pace")]
    FixedRate,
    /// Memory and CPU of agents that have nothing to do
    Idle,
    /// An agent that reconnects to a full inbox
    Drain,
    /// The same load on a small server and on a large one
    Tenants,
    /// Messages of one tenant while another tenant floods the server
    Neighbours,
    /// A thousand tenants on one shared bot, while one of them floods it
    SharedBot,
    /// Files that pass in both directions, and the memory of the server meanwhile
    Media,
    /// From exec to ready
    Start,
}

impl RelayArgs {
    fn wants(&self, part: RelayMeasurement) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// Measures and prints. An error means that there is no result, or that a message was lost or repeated.
pub async fn relay(args: RelayArgs) -> anyhow::Result<()> {
    unless_stopped(measure(&args)).await
}

async fn unless_stopped(measure: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    // Dropping this future ends everything that the run started.
    tokio::select! {
        measured = measure => measured,
        stopped = crate::wiring::termination() => {
            stopped?;
            bail!("interrupted");
        }
    }
}

async fn measure(args: &RelayArgs) -> anyhow::Result<()> {
    let files = process::raise_file_limit()?;
    let bench_folder = fixtures::BenchFolder::new(args.dir.as_deref())?;
    let mut report = Report::new(machine::describe(bench_folder.path())?);
    if args.wants(RelayMeasurement::Floor) {
        print_progress("floor: fdatasync, bare echo");
        floor::measure(bench_folder.path(), &mut report).await.context("floor")?;
    }
    if args.wants(RelayMeasurement::Start) {
        print_progress("start: five times from exec to ready");
        start::measure(&bench_folder, &mut report).await.context("start")?;
    }
    if args.wants(RelayMeasurement::FixedRate) {
        print_progress(&format!("fixed rate: {} messages a second for {} s", fixed_rate::RATE, args.seconds));
        fixed_rate::measure(&bench_folder, args, &mut report).await.context("fixed rate")?;
    }
    if args.wants(RelayMeasurement::Peak) {
        print_progress(&format!(
            "peak: {} posters, {} agents, {} s",
            args.posters, args.agents, args.seconds
        ));
        peak::measure(&bench_folder, args, &mut report).await.context("peak")?;
    }
    if args.wants(RelayMeasurement::Drain) {
        print_progress(&format!("drain: {} messages stored for an agent that is not connected", args.drain));
        drain::measure(&bench_folder, args, &mut report).await.context("drain")?;
    }
    if args.wants(RelayMeasurement::Idle) {
        print_progress(&format!("idle: {} sockets", args.idle));
        idle::measure(&bench_folder, args, files, &mut report).await.context("idle")?;
    }
    if args.wants(RelayMeasurement::Tenants) {
        print_progress(&format!("tenants: {} enrolled against {}", args.instances, args.agents));
        tenants::measure(&bench_folder, args, &mut report).await.context("tenants")?;
    }
    if args.wants(RelayMeasurement::Neighbours) {
        print_progress(
            "neighbours: one tenant's messages while another floods by notify, junk, big answers and wakes",
        );
        neighbours::measure(&bench_folder, args, &mut report).await.context("neighbours")?;
    }
    if args.wants(RelayMeasurement::SharedBot) {
        print_progress(&format!(
            "shared bot: {} tenants, {} messages a second, without and with floods, {} rounds of {} s each",
            shared_bot::TENANTS,
            shared_bot::RATE,
            shared_bot::ROUNDS,
            args.seconds
        ));
        shared_bot::measure(&bench_folder, args, &mut report).await.context("shared bot")?;
    }
    if args.wants(RelayMeasurement::Media) {
        print_progress(&format!("media: {} files of {} MiB up and down", media::FILES, media::SIZE >> 20));
        media::measure(&bench_folder, &mut report).await.context("media")?;
    }
    report.compare();
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

/// Progress goes to standard error; standard output has only the figures.
fn print_progress(words: &str) {
    eprintln!("bench: {words}");
}
