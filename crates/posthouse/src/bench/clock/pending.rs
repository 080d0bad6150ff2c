//! Start with many pending arms, all within the horizon: time until they are loaded, and memory of each.

use std::time::Duration;

use anyhow::ensure;
use posthouse_time::Timepiece;

use super::super::fixtures::BenchFolder;
use super::super::poster::Poster;
use super::super::print_progress;
use super::super::report::{Report, Spread, at_most};
use super::super::server::ServerProcess;
use super::super::stopwatch::Stopwatch;
use super::fixtures::{ClockAgent, ClockFixture, JobToArm, settings};
use super::{ClockArgs, calls};

/// Jobs per agent.
const JOBS: u32 = 100;
/// Time from creation to the first due time, and from the first due time to the last. No job fires during
/// the measurement.
const FIRST_US: i64 = 3_600_000_000;
const OVER_US: i64 = 3_600_000_000;
const HORIZON: &str = "3h";
/// A horizon that ends before the first due time.
const NEAR: &str = "1m";
/// Arms that are due before all others, armed one after another.
const EARLIEST: u32 = 1_000;
/// Time for the work that a server does right after it is ready.
const SETTLED: Duration = Duration::from_secs(2);
const LOADED_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &ClockArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let fixture = ClockFixture::prepare(bench_folder, args.arms.div_ceil(JOBS)).await?;
    let first_us = Timepiece::wall().now().millis() * 1000 + FIRST_US;
    let step_us = OVER_US / i64::from(args.arms);
    let watch = Stopwatch::start();
    let jobs = (0..args.arms).map(|at| JobToArm {
        // Ordered by agent, because adjacent rows are written faster.
        agent: (at / JOBS) as usize,
        job: format!("{:012x}", u64::from(at).wrapping_mul(0x9e37_79b9_7f4a) & 0xffff_ffff_ffff),
        due_us: first_us + step_us * i64::from(at),
        callback: calls::CALLBACK.to_owned(),
    });
    fixture.arm(jobs).await?;
    print_progress(&format!("  armed in {:.1} s", watch.elapsed().as_secs_f64()));

    let server = ServerProcess::start(&fixture.folder, &with_horizon(NEAR)).await?;
    tokio::time::sleep(SETTLED).await;
    let without = server.resident()?;
    server.stop().await?;

    let watch = Stopwatch::start();
    let server = ServerProcess::start(&fixture.folder, &with_horizon(HORIZON)).await?;
    while server.metric("posthouse_clock_near_arms").await? < u64::from(args.arms) {
        ensure!(watch.elapsed() < LOADED_WITHIN, "the clock does not hold all arms");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let loaded = watch.elapsed();
    let cpu_of_load = server.cpu()?;
    tokio::time::sleep(SETTLED).await;
    let with = server.resident()?;
    report.judged("pending", "exec until all are held", loaded.as_secs_f64(), "s", at_most(10.0));
    report.figure("pending", "server CPU until then", cpu_of_load.as_secs_f64(), "s");
    let each = with.saturating_sub(without) as f64 / f64::from(args.arms);
    report.judged("pending", "resident memory of an arm", each, "bytes", at_most(300.0));

    let (cpu, answers) = earliest(&server, &fixture.agents[0], first_us).await?;
    server.stop().await?;
    let each = cpu.as_secs_f64() * 1e3 / f64::from(EARLIEST);
    report.judged("pending", "server CPU of one armed before all", each, "ms", at_most(1.0));
    report.figure("pending", "one armed before all, to 200, p50", answers.percentile(50.0), "ms");
    Ok(())
}

/// Every arm is due before the previous one, so each becomes the first and moves the clock's alarm.
async fn earliest(
    server: &ServerProcess,
    agent: &ClockAgent,
    first_us: i64,
) -> anyhow::Result<(Duration, Spread)> {
    let address = server.address()?;
    let request = |at: u32| {
        let due_us = first_us - 1_000_000 - i64::from(at) * 1_000_000 - 1;
        calls::request(address, agent, &format!("early-{at:04}"), due_us)
    };
    let mut caller = Poster::open(address, request(EARLIEST)).await?;
    caller.post(0).await?;
    let (cpu, mut answers) = (server.cpu()?, Vec::new());
    for at in 0..EARLIEST {
        caller.rewrite(request(EARLIEST + 1 + at));
        let watch = Stopwatch::start();
        let status = caller.post(0).await?;
        answers.push(watch.nanos());
        ensure!(status == 200, "the server answered a valid arm request with {status}");
    }
    Ok((server.cpu()?.saturating_sub(cpu), Spread::of(answers)))
}

fn with_horizon(horizon: &str) -> Vec<(&'static str, String)> {
    let mut settings = settings();
    settings.push(("POSTHOUSE_CLOCK__HORIZON", horizon.to_owned()));
    settings
}
