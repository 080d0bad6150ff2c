//! Peak load: as many messages as the server can handle, and the cost of each.

use std::sync::Arc;
use std::time::Duration;

use super::RelayArgs;
use super::agents::{SdkAgents, everything_acknowledged};
use super::fixtures::{BenchFolder, Plan, ServerFixture};
use super::load::Posters;
use super::report::{PEAK_CPU, PEAK_RATE, Report, Spread, at_least, at_most};
use super::server::ServerProcess;
use super::stopwatch::Stopwatch;
use super::tally::MessageTally;

/// Capacity of the tally per second, more than any machine answers.
const FASTEST: u64 = 100_000;
pub const WARM_UP: Duration = Duration::from_secs(1);
const WINDOW: u16 = 64;

/// A server under load, with everything connected.
pub struct LoadedServer {
    server: ServerProcess,
    posters: Posters,
    agents: SdkAgents,
    tally: Arc<MessageTally>,
}

/// Result of one load.
pub struct LoadResult {
    pub messages: u64,
    /// Until the last message was acknowledged.
    pub took: Duration,
    pub cpu: Duration,
    /// From request to 200, in nanoseconds.
    pub answers: Vec<u64>,
}

impl LoadResult {
    /// Several loads combined.
    pub fn of(loads: impl IntoIterator<Item = LoadResult>) -> Self {
        let mut all = Self { messages: 0, took: Duration::ZERO, cpu: Duration::ZERO, answers: Vec::new() };
        for load in loads {
            all.messages += load.messages;
            all.took += load.took;
            all.cpu += load.cpu;
            all.answers.extend(load.answers);
        }
        all
    }

    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64()
    }

    pub fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.messages as f64
    }
}

impl LoadedServer {
    /// With room for loads that last `seconds` in total.
    pub async fn start(fixture: &ServerFixture, posters: u32, seconds: u64) -> anyhow::Result<Self> {
        let server = ServerProcess::start(&fixture.folder, &[]).await?;
        let capacity = FASTEST * (seconds + 1);
        let tally = Arc::new(MessageTally::new(usize::try_from(capacity)?, posters as usize));
        let agents = SdkAgents::dial(&server, &fixture.loaded, WINDOW, &tally).await?;
        let posters = Posters::connect(&server, fixture, posters).await?;
        let mut loaded = Self { server, posters, agents, tally };
        loaded.load(WARM_UP).await?;
        Ok(loaded)
    }

    pub fn process(&self) -> &ServerProcess {
        &self.server
    }

    /// Replaces the connections of the posters.
    pub async fn redial(&mut self) -> anyhow::Result<()> {
        self.posters.redial(&self.server).await
    }

    /// Posts for `span`, and waits until everything is acknowledged.
    pub async fn load(&mut self, span: Duration) -> anyhow::Result<LoadResult> {
        load(&self.server, &mut self.posters, &self.tally, span).await
    }

    /// The same with other posters.
    pub async fn load_by(&mut self, others: &mut Posters, span: Duration) -> anyhow::Result<LoadResult> {
        load(&self.server, others, &self.tally, span).await
    }

    /// Disconnects everything and stops the server; nothing may be lost, repeated or out of order.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.agents.leave().await;
        self.server.stop().await?;
        self.tally.check()
    }
}

async fn load(
    server: &ServerProcess,
    posters: &mut Posters,
    tally: &Arc<MessageTally>,
    span: Duration,
) -> anyhow::Result<LoadResult> {
    let before = tally.count_answered();
    let (watch, cpu) = (Stopwatch::start(), server.cpu()?);
    let answers = posters.closed_loop(span, tally).await?;
    everything_acknowledged(server, tally).await?;
    let took = watch.elapsed();
    let cpu = server.cpu()?.saturating_sub(cpu);
    Ok(LoadResult { messages: tally.count_answered() - before, took, cpu, answers })
}

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &RelayArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let plan = Plan { loaded: args.agents, chats: args.posters, shared: false, idle: 0 };
    let fixture = ServerFixture::prepare(bench_folder, plan).await?;
    let mut loaded = LoadedServer::start(&fixture, args.posters, args.seconds).await?;
    let load = loaded.load(Duration::from_secs(args.seconds)).await?;
    loaded.stop().await?;

    report.judged("peak", PEAK_RATE, load.rate(), "/s", at_least(10_000.0).goal(15_000.0));
    report.judged("peak", PEAK_CPU, load.cpu_micros(), "us/msg", at_most(110.0).goal(70.0));
    let answers = Spread::of(load.answers);
    for (name, percent) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)] {
        report.figure("peak", format!("webhook to 200, {name}"), answers.percentile(percent), "ms");
    }
    report.judged("peak", "lost, repeated or out of order", 0.0, "", at_most(0.0));
    Ok(())
}
