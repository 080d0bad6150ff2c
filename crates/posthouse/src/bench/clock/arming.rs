//! Arming load: as many arms as the server can handle, each durable before its answer, and the cost of
//! each.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::Timepiece;

use super::super::fixtures::BenchFolder;
use super::super::load::Posters;
use super::super::report::{Report, Spread, at_least};
use super::super::server::ServerProcess;
use super::super::stopwatch::Stopwatch;
use super::super::tally::MessageTally;
use super::fixtures::{ClockFixture, settings};
use super::{ClockArgs, calls};

pub const RATE: &str = "jobs armed durably";
pub const CPU: &str = "server CPU of an arm";
pub const P50: &str = "arm to 200, p50";
const WARM_UP: Duration = Duration::from_secs(1);
/// Capacity of the tally per second, more than any machine answers.
const FASTEST: usize = 100_000;

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &ClockArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let fixture = ClockFixture::prepare(bench_folder, args.callers).await?;
    let server = ServerProcess::start(&fixture.folder, &settings()).await?;
    let now = Timepiece::wall().now();
    let mut callers = Vec::new();
    for agent in &fixture.agents {
        callers.push(calls::caller(&server, agent, now).await?);
    }
    let mut callers = Posters::of(callers);
    let tally = Arc::new(MessageTally::new(FASTEST * (args.arm_seconds as usize + 1), 0));
    callers.closed_loop(WARM_UP, &tally).await?;

    let before = tally.count_answered();
    let (watch, cpu) = (Stopwatch::start(), server.cpu()?);
    let answers = callers.closed_loop(Duration::from_secs(args.arm_seconds.into()), &tally).await?;
    let (took, cpu) = (watch.elapsed(), server.cpu()?.saturating_sub(cpu));
    server.stop().await?;

    let count = (tally.count_answered() - before) as f64;
    report.judged("arming", RATE, count / took.as_secs_f64(), "/s", at_least(3_000.0).goal(8_000.0));
    report.figure("arming", CPU, cpu.as_secs_f64() * 1e6 / count, "us");
    let answers = Spread::of(answers);
    report.figure("arming", P50, answers.percentile(50.0), "ms");
    report.figure("arming", "arm to 200, p99", answers.percentile(99.0), "ms");
    Ok(())
}
