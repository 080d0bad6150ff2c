//! `posthouse bench clock`: what an armed job and a fire cost, measured on this machine in one run.
//!
//! The house runs in a process of its own; callers and agents run in this one, all on loopback. As with
//! the relay, figures stand beside what the machine does without a house, and beside the bars.

mod arming;
mod bare;
mod calls;
mod crew;
mod fires;
mod peers;
mod pending;
mod premises;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::estate::Ground;
use super::report::Report;
use super::{floor, machine, process, said};

/// What is measured, and how long.
#[derive(Args, Clone, Debug)]
pub struct ClockArgs {
    /// Arms pending within the horizon
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    arms: u32,
    /// How long 500 fires a second go on
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Fires due in one instant
    #[arg(long, value_name = "COUNT", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    burst: u32,
    /// Callers that arm at once, each an agent of its own
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    callers: u32,
    /// How long they arm
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    arm_seconds: u32,
    /// A tenth of everything, for a first look
    #[arg(long)]
    quick: bool,
    /// Measures only this; may be given several times
    #[arg(long, value_name = "PART", value_enum)]
    only: Vec<Part>,
    /// Measures other schedulers too, by this program
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "bench/peers/run")]
    peers: Option<PathBuf>,
    /// The folder whose disk is measured; a folder of this run is made in it and removed [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// This disk's fdatasync, and a bare POST either way
    Floor,
    /// A house that starts with many arms
    Pending,
    /// Five hundred fires a second: how late each is
    Pace,
    /// Many fires in one instant
    Burst,
    /// As many arms as go through
    Arming,
}

impl ClockArgs {
    fn wants(&self, part: Part) -> bool {
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

/// Measures and prints. An error means that nothing can be said, or that a fire was lost.
pub async fn clock(args: ClockArgs) -> anyhow::Result<()> {
    super::unless_stopped(measure(&args.shortened())).await
}

async fn measure(args: &ClockArgs) -> anyhow::Result<()> {
    process::raise_file_limit()?;
    let ground = Ground::new(args.dir.as_deref())?;
    let mut report = Report::new(machine::describe(ground.path())?);
    if args.wants(Part::Floor) {
        said("floor: fdatasync, a bare POST taken and a bare POST made");
        floor::disk(ground.path(), &mut report).await.context("floor")?;
        bare::measure(&mut report).await.context("floor")?;
    }
    if args.wants(Part::Arming) {
        said(&format!("arming: {} callers, {} s", args.callers, args.arm_seconds));
        arming::measure(&ground, args, &mut report).await.context("arming")?;
    }
    if args.wants(Part::Pace) {
        said(&format!("pace: {} fires a second for {} s", fires::RATE, args.seconds));
        fires::pace(&ground, args, &mut report).await.context("pace")?;
    }
    if args.wants(Part::Burst) {
        said(&format!("burst: {} fires in one instant", args.burst));
        fires::burst(&ground, args, &mut report).await.context("burst")?;
    }
    if args.wants(Part::Pending) {
        said(&format!("pending: {} arms within the horizon", args.arms));
        pending::measure(&ground, args, &mut report).await.context("pending")?;
    }
    compare(&mut report);
    if let Some(program) = &args.peers {
        said("peers: the same loads on other schedulers");
        peers::measure(program, args, &mut report).await.context("peers")?;
    }
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

/// The ratios to what this machine does without a house.
fn compare(report: &mut Report) {
    for (name, value, floor) in [
        ("arms, part of the bare POSTs taken", ("arming", arming::RATE), ("floor", bare::TAKEN_RATE)),
        ("CPU of an arm, in bare POSTs taken", ("arming", arming::CPU), ("floor", bare::TAKEN_CPU)),
        ("arm to 200, in fdatasyncs", ("arming", arming::P50), ("floor", super::report::SYNC_P50)),
        ("CPU of a fire at pace, in bare POSTs made", ("pace", fires::CPU), ("floor", bare::MADE_CPU)),
        ("CPU of a fire in a burst, in bare POSTs made", ("burst", fires::CPU), ("floor", bare::MADE_CPU)),
        ("fire at pace, p50 late, in fdatasyncs", ("pace", fires::P50), ("floor", super::report::SYNC_P50)),
    ] {
        report.ratio(name, value, floor);
    }
}
