//! Fires to agents in another process: delay and cost of each.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;

use super::super::fixtures::BenchFolder;
use super::super::report::{Report, Spread, at_most};
use super::super::server::ServerProcess;
use super::super::stopwatch::{Stopwatch, wall_micros};
use super::ClockArgs;
use super::fixtures::{ClockFixture, JobToArm, settings};
use super::receivers::{FireReceivers, FireTimes, job};

/// Fires per second in the part `fixed-rate`.
pub const RATE: u32 = 500;
pub const CPU: &str = "server CPU of a fire";
pub const P50: &str = "late at the agent, p50";
pub const P99: &str = "late at the agent, p99";

const AGENTS: u32 = 200;
const HOSTS: usize = 8;
/// The default of `clock.guard`, which the server adds to a due time.
const GUARD_US: i64 = 100_000;
/// Fires before the first measured one, a few ms apart, and the pause after them.
const WARM_UP: usize = 500;
const WARM_US: i64 = 4_000;
const PAUSE_US: i64 = 1_500_000;
/// Time for creating the arms and starting the server.
const LEAD_US: i64 = 6_000_000;
const LEAD_EACH_US: i64 = 300;
/// A fire that has not come this long after the last due time is lost.
const CAME_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub async fn fixed_rate(
    bench_folder: &BenchFolder,
    args: &ClockArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let gap_us = 1_000_000 / i64::from(RATE);
    // Due times of people are whole seconds; those of intervals can be anything.
    let due = (0..i64::from(RATE * args.seconds)).map(|at| at * gap_us + at * 617 % 1000);
    let found = run(bench_folder, due.collect()).await?;
    found.report("fixed rate", report);
    report.judged("fixed rate", P50, found.percentile(50.0), "ms", at_most(5.0));
    report.judged("fixed rate", P99, found.percentile(99.0), "ms", at_most(25.0));
    report.figure("fixed rate", "late at the agent, max", found.percentile(100.0), "ms");
    Ok(())
}

pub async fn burst(bench_folder: &BenchFolder, args: &ClockArgs, report: &mut Report) -> anyhow::Result<()> {
    let found = run(bench_folder, vec![0; args.burst as usize]).await?;
    found.report("burst", report);
    report.figure("burst", P50, found.percentile(50.0), "ms");
    report.judged("burst", P99, found.percentile(99.0), "ms", at_most(2_000.0));
    report.figure("burst", "late at the agent, max", found.percentile(100.0), "ms");
    Ok(())
}

/// Result of a load.
struct FireStatistics {
    fires: usize,
    early: usize,
    again: u64,
    cpu: Duration,
    /// Delay after due time and guard.
    late: Spread,
}

impl FireStatistics {
    fn percentile(&self, percent: f64) -> f64 {
        self.late.percentile(percent)
    }

    fn report(&self, part: &'static str, report: &mut Report) {
        report.judged(part, "before their time", self.early as f64, "", at_most(0.0));
        report.judged(part, "came twice", self.again as f64, "", at_most(0.0));
        report.figure(part, CPU, self.cpu.as_secs_f64() * 1e6 / self.fires as f64, "us");
    }
}

/// Fires at these offsets from a start time that this function chooses.
async fn run(bench_folder: &BenchFolder, after_us: Vec<i64>) -> anyhow::Result<FireStatistics> {
    let fixture = ClockFixture::prepare(bench_folder, AGENTS).await?;
    let fires = after_us.len();
    let warm_us = wall_micros() + LEAD_US + LEAD_EACH_US * fires as i64;
    let start_us = warm_us + WARM_US * WARM_UP as i64 + PAUSE_US;
    let warm_up = (0..WARM_UP as i64).map(|at| warm_us + at * WARM_US);
    let due = warm_up.chain(after_us.into_iter().map(|after| start_us + after)).collect();
    let times = Arc::new(FireTimes::new(due));
    let receivers = FireReceivers::listen(HOSTS, &times).await?;
    let jobs = times.due().iter().enumerate().map(|(at, due_us)| {
        let agent = at % AGENTS as usize;
        JobToArm { agent, job: job(at), due_us: *due_us, callback: receivers.urls[agent % HOSTS].clone() }
    });
    fixture.arm(jobs).await?;
    let server = ServerProcess::start(&fixture.folder, &settings()).await?;
    ensure!(wall_micros() < warm_us, "the server was not ready before the first fire was due");

    let watch = Stopwatch::start();
    let in_micros = |at_us: i64| Duration::from_micros(u64::try_from(at_us - wall_micros()).unwrap_or(0));
    watch.until(in_micros(start_us - PAUSE_US / 3)).await;
    ensure!(times.count() >= WARM_UP as u64, "only {} of {WARM_UP} fires came to warm up", times.count());
    let cpu = server.cpu()?;
    let patience = in_micros(*times.due().last().unwrap_or(&start_us)) + CAME_WITHIN;
    let of = (WARM_UP + fires) as u64;
    while times.count() < of {
        ensure!(watch.elapsed() < patience, "only {} of {of} fires came", times.count());
        tokio::time::sleep(LOOK_EVERY).await;
    }
    while server.metric("posthouse_clock_fires_total{fate=\"delivered\"}").await? < of {
        ensure!(watch.elapsed() < patience, "some fires have no recorded result");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let cpu = server.cpu()?.saturating_sub(cpu);
    server.stop().await?;

    let late = times.late_us(WARM_UP);
    let early = late.iter().filter(|late| **late < 0).count();
    let past_guard = late.iter().map(|late| u64::try_from(late - GUARD_US).unwrap_or(0) * 1000).collect();
    Ok(FireStatistics { fires, early, again: times.again(), cpu, late: Spread::of(past_guard) })
}
