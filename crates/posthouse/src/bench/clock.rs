//! `posthouse bench clock`: cost of arming jobs and of fires, measured on this machine in one run.
//!
//! The server runs in a process of its own; callers and agents run in this one, all on loopback. As for the
//! relay, figures are compared with what the machine does without a server, and with targets.

mod arming;
mod bare;
mod calls;
mod fires;
mod fixtures;
mod peers;
mod pending;
mod receivers;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::fixtures::BenchFolder;
use super::report::Report;
use super::{floor, machine, print_progress, process};

/// Options of `bench clock`.
#[derive(Args, Clone, Debug)]
pub struct ClockArgs {
    /// Pending arms within the horizon
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    arms: u32,
    /// How long the load of 500 fires a second lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Fires due at the same instant
    #[arg(long, value_name = "COUNT", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    burst: u32,
    /// Callers that arm at the same time, each a different agent
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    callers: u32,
    /// How long they arm
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    arm_seconds: u32,
    /// A tenth of all counts, for a quick look
    #[arg(long)]
    quick: bool,
    /// Measure only this part; can be repeated
    #[arg(long, value_name = "PART", value_enum)]
    only: Vec<ClockMeasurement>,
    /// Also measure other schedulers, with this program
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "bench/peers/run")]
    peers: Option<PathBuf>,
    /// Folder on the disk to measure; a temporary folder is created in it and removed [default: the
    /// system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClockMeasurement {
    /// fdatasync of this disk, and a bare POST in both directions
    Floor,
    /// A server that starts with many arms
    Pending,
    /// Five hundred fires a second: the delay of each
    #[value(alias = "pace")]
    FixedRate,
    /// Many fires at the same instant
    Burst,
    /// As many arms as the server can handle
    Arming,
}

impl ClockArgs {
    fn wants(&self, part: ClockMeasurement) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn shortened(mut self) -> Self {
        if self.quick {
            self.arms = self.arms.div_ceil(10);
            self.seconds = self.seconds.div_ceil(10);
            self.burst = self.burst.div_ceil(10);
            self.arm_seconds = self.arm_seconds.div_ceil(10);
        }
        self
    }
}

/// Measures and prints. An error means that there is no result, or that a fire was lost.
pub async fn clock(args: ClockArgs) -> anyhow::Result<()> {
    super::unless_stopped(measure(&args.shortened())).await
}

async fn measure(args: &ClockArgs) -> anyhow::Result<()> {
    process::raise_file_limit()?;
    let bench_folder = BenchFolder::new(args.dir.as_deref())?;
    let mut report = Report::new(machine::describe(bench_folder.path())?);
    if args.wants(ClockMeasurement::Floor) {
        print_progress("floor: fdatasync, a bare POST taken and a bare POST made");
        floor::disk(bench_folder.path(), &mut report).await.context("floor")?;
        bare::measure(&mut report).await.context("floor")?;
    }
    if args.wants(ClockMeasurement::Arming) {
        print_progress(&format!("arming: {} callers, {} s", args.callers, args.arm_seconds));
        arming::measure(&bench_folder, args, &mut report).await.context("arming")?;
    }
    if args.wants(ClockMeasurement::FixedRate) {
        print_progress(&format!("fixed rate: {} fires a second for {} s", fires::RATE, args.seconds));
        fires::fixed_rate(&bench_folder, args, &mut report).await.context("fixed rate")?;
    }
    if args.wants(ClockMeasurement::Burst) {
        print_progress(&format!("burst: {} fires in one instant", args.burst));
        fires::burst(&bench_folder, args, &mut report).await.context("burst")?;
    }
    if args.wants(ClockMeasurement::Pending) {
        print_progress(&format!("pending: {} arms within the horizon", args.arms));
        pending::measure(&bench_folder, args, &mut report).await.context("pending")?;
    }
    compare(&mut report);
    if let Some(program) = &args.peers {
        print_progress("peers: the same loads on other schedulers");
        peers::measure(program, args, &mut report).await.context("peers")?;
    }
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

/// Ratios to what this machine does without a server.
fn compare(report: &mut Report) {
    for (name, value, floor) in [
        ("arms, part of the bare POSTs taken", ("arming", arming::RATE), ("floor", bare::TAKEN_RATE)),
        ("CPU of an arm, in bare POSTs taken", ("arming", arming::CPU), ("floor", bare::TAKEN_CPU)),
        ("arm to 200, in fdatasyncs", ("arming", arming::P50), ("floor", super::report::SYNC_P50)),
        (
            "CPU of a fire at a fixed rate, in bare POSTs made",
            ("fixed rate", fires::CPU),
            ("floor", bare::MADE_CPU),
        ),
        ("CPU of a fire in a burst, in bare POSTs made", ("burst", fires::CPU), ("floor", bare::MADE_CPU)),
        (
            "fire at a fixed rate, p50 late, in fdatasyncs",
            ("fixed rate", fires::P50),
            ("floor", super::report::SYNC_P50),
        ),
    ] {
        report.ratio(name, value, floor);
    }
}
