//! `posthouse bench stores`: lists and writes of skills, searches and writes of data, measured on this machine in one run.
//!
//! The server runs in a process of its own and is called over HTTP, as programs call it. Figures are compared with what
//! the machine does without a server, with targets, and on request with the stores of the skillscript runtime.

mod catalogue;
mod corpus;
mod fixtures;
mod reference;
mod searches;
mod store_caller;
mod writes;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::fixtures::BenchFolder;
use super::report::{Report, SYNC_P50};
use super::{floor, machine, print_progress, process};

/// Options of `bench stores`.
#[derive(Args, Clone, Debug)]
pub struct StoresArgs {
    /// Skills of the tenant whose catalogue is listed
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    skills: u32,
    /// Entries of data of all tenants; one tenant has half of them
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    rows: u32,
    /// Tenants with data
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    tenants: u32,
    /// Searches of each kind
    #[arg(long, value_name = "COUNT", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    searches: u32,
    /// Callers that write at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    callers: u32,
    /// How long they write
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// A tenth of all counts, for a quick look
    #[arg(long)]
    quick: bool,
    /// Measure only this part; can be repeated
    #[arg(long, value_name = "PART", value_enum)]
    only: Vec<StoresMeasurement>,
    /// Also measure the stores of the skillscript runtime that is built in this folder (`./test skillscript` builds one
    /// in .test/skillscript-0.39.2)
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    /// The Node that runs it, 22.5 or later
    #[arg(long, value_name = "PROGRAM", default_value = "node", requires = "reference")]
    node: PathBuf,
    /// Folder on the disk to measure; a temporary folder is created in it and removed [default: the
    /// system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoresMeasurement {
    /// This disk's fdatasync
    Floor,
    /// The catalogue of many skills, and writes among them
    Skills,
    /// Searches of data by two words
    Searches,
    /// As many writes of data as the server can handle
    Writes,
}

impl StoresArgs {
    fn wants(&self, part: StoresMeasurement) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn shortened(mut self) -> Self {
        if self.quick {
            self.skills = self.skills.div_ceil(10);
            self.rows = self.rows.div_ceil(10).max(1_000);
            self.tenants = self.tenants.div_ceil(10).max(2);
            self.searches = self.searches.div_ceil(10);
            self.seconds = self.seconds.div_ceil(10);
        }
        self
    }
}

/// Measures and prints. An error means that there is no result, or that an answer was wrong.
pub async fn stores(args: StoresArgs) -> anyhow::Result<()> {
    super::unless_stopped(measure(&args.shortened())).await
}

async fn measure(args: &StoresArgs) -> anyhow::Result<()> {
    process::raise_file_limit()?;
    let bench_folder = BenchFolder::new(args.dir.as_deref())?;
    let mut report = Report::new(machine::describe(bench_folder.path())?);
    if args.wants(StoresMeasurement::Floor) {
        print_progress("floor: fdatasync");
        floor::disk(bench_folder.path(), &mut report).await.context("floor")?;
    }
    if args.wants(StoresMeasurement::Skills) {
        print_progress(&format!("skills: {} skills of one tenant", args.skills));
        catalogue::measure(&bench_folder, args, &mut report).await.context("skills")?;
    }
    if args.wants(StoresMeasurement::Searches) || args.wants(StoresMeasurement::Writes) {
        data(&bench_folder, args, &mut report).await.context("data")?;
    }
    report.ratio("write of a Draft, in fdatasyncs", ("skills", catalogue::WRITE_P50), ("floor", SYNC_P50));
    if let Some(folder) = &args.reference {
        print_progress("reference: the same on the stores of the skillscript runtime");
        reference::measure(folder, &bench_folder, args, &mut report).await.context("reference")?;
    }
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

/// Both parts use one server, because filling it takes longest.
async fn data(bench_folder: &BenchFolder, args: &StoresArgs, report: &mut Report) -> anyhow::Result<()> {
    print_progress(&format!("data: writing {} entries of {} tenants", args.rows, args.tenants));
    let fixture = fixtures::DataFixture::prepare(bench_folder, args).await?;
    report.figure("fill", "entries written in process", fixture.fill_rate, "/s");
    let server = super::server::ServerProcess::start(&fixture.folder, &[]).await?;
    if args.wants(StoresMeasurement::Searches) {
        print_progress(&format!("searches: {} of each kind", args.searches));
        searches::measure(&server, &fixture, args, report).await.context("searches")?;
    }
    if args.wants(StoresMeasurement::Writes) {
        print_progress(&format!("writes: {} callers, {} s", args.callers, args.seconds));
        writes::measure(&server, &fixture, args, report).await.context("writes")?;
    }
    server.stop().await
}
