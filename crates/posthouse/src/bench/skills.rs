//! `posthouse bench skills`: parsing, checking and running skills, and the start of the command line, in one run.
//!
//! The figures are CPU time, so that other load on the machine does not change them. On request the skillscript runtime
//! parses, checks and runs the same programs.

mod command_line;
mod program;
mod reference;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use skill::check::{CheckContext, check};
use skill::tree::SkillTree;
use skill::{PreparedSkill, RunContext, SkillObject, run_skill};
use skill_doubles::{AgentsPlayed, StandardHost, StandardSettings, drive};

use super::fixtures::BenchFolder;
use super::report::{Report, at_most};
use super::{machine, print_progress, process};

/// A recorded program that needs no connectors.
const SMALL: &str = include_str!("skills/small.skill.md");

const CHAIN: &str = "chain of 100 targets with 20 operations";
const LONG_CHAIN: &str = "chain of 200 targets with 60 operations";
const SMALL_PROGRAM: &str = "recorded program of 0.7 KB";

/// Options of `bench skills`.
#[derive(Args, Clone, Debug)]
pub struct SkillsArgs {
    /// Rounds of the chain; the median counts
    #[arg(long, value_name = "COUNT", default_value_t = 60, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    rounds: u32,
    /// Also measure the skillscript runtime that is built in this folder (`./test skillscript` builds one in
    /// .test/skillscript-0.39.2)
    #[arg(long, value_name = "DIR")]
    reference: Option<PathBuf>,
    /// The Node that runs it, 22.5 or later
    #[arg(long, value_name = "PROGRAM", default_value = "node", requires = "reference")]
    node: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// A program, and how often it is measured.
struct MeasuredProgram {
    name: &'static str,
    source: String,
    rounds: u32,
}

/// CPU time of each step.
#[derive(Clone, Copy)]
struct StepTimes {
    parse: Duration,
    lint: Duration,
    run: Duration,
}

impl StepTimes {
    fn sum(&self) -> Duration {
        self.parse + self.lint + self.run
    }
}

/// Measures and prints. An error means that there is no result.
pub async fn skills(args: SkillsArgs) -> anyhow::Result<()> {
    super::unless_stopped(measure(&args)).await
}

async fn measure(args: &SkillsArgs) -> anyhow::Result<()> {
    let bench_folder = BenchFolder::new(None)?;
    let mut report = Report::new(machine::describe(bench_folder.path())?);
    let programs = [
        MeasuredProgram { name: CHAIN, source: program::chained_targets(100, 20), rounds: args.rounds },
        MeasuredProgram {
            name: LONG_CHAIN,
            source: program::chained_targets(200, 60),
            rounds: args.rounds.div_ceil(6).max(3),
        },
        MeasuredProgram { name: SMALL_PROGRAM, source: SMALL.to_owned(), rounds: args.rounds * 20 },
    ];
    for program in &programs {
        print_progress(&format!(
            "{}: {} bytes, {} rounds",
            program.name,
            program.source.len(),
            program.rounds
        ));
        let times = own_times(program).with_context(|| program.name)?;
        for (step, time) in [("parse", times.parse), ("lint", times.lint), ("run", times.run)] {
            report.figure("skills", format!("{}: {step}", program.name), millis(time), "ms");
        }
        report.figure("skills", program.name, millis(times.sum()), "ms");
    }
    let ratio = report.value("skills", LONG_CHAIN).zip(report.value("skills", CHAIN));
    if let Some((long, short)) = ratio {
        report.judged("ratio", "long chain, in short chains", long / short, "x", at_most(8.0));
    }
    print_progress("command line: exec to the first byte of `skill lint`");
    command_line::measure(&bench_folder, &mut report).await.context("command line")?;
    if let Some(folder) = &args.reference {
        print_progress("reference: the same programs on the skillscript runtime");
        reference::measure(folder, &bench_folder, args, &programs, &mut report).await.context("reference")?;
    }
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The round whose sum is the median, after as many rounds again for warming up.
fn own_times(program: &MeasuredProgram) -> anyhow::Result<StepTimes> {
    let mut rounds = Vec::new();
    for round in 0..program.rounds * 2 {
        let times = one_round(&program.source)?;
        if round >= program.rounds {
            rounds.push(times);
        }
    }
    rounds.sort_by_key(StepTimes::sum);
    rounds.get(rounds.len() / 2).copied().context("no rounds")
}

fn one_round(source: &str) -> anyhow::Result<StepTimes> {
    let host = StandardHost::new(StandardSettings::default(), AgentsPlayed::standard());
    let context = CheckContext { is_read_only: true, ..CheckContext::default() };
    let begin = process::own_thread_cpu()?;
    let tree = Arc::new(SkillTree::parse(source));
    let parsed = process::own_thread_cpu()?;
    let findings = check(&tree, &context);
    let checked = process::own_thread_cpu()?;
    let (inputs, run_context) = (SkillObject::default(), RunContext::default());
    let run = drive(&host.clock, async {
        let skill = PreparedSkill::new(&host, Arc::clone(&tree), &inputs).await?;
        run_skill(&host, &skill, &run_context).await
    });
    let ended = process::own_thread_cpu()?;
    let outcome = run.context("the run waits for ever")?.map_err(|error| anyhow::anyhow!(error.message))?;
    ensure!(outcome.errors.is_empty(), "the program fails: {:?}", outcome.errors.first());
    drop(findings);
    Ok(StepTimes { parse: parsed - begin, lint: checked - parsed, run: ended - checked })
}
