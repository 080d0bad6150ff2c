//! Steady load of a thousand messages a second: latency of each message.

use std::sync::Arc;
use std::time::Duration;

use super::RelayArgs;
use super::agents::{SdkAgents, everything_acknowledged};
use super::fixtures::{BenchFolder, Plan, ServerFixture};
use super::load::Posters;
use super::report::{FIXED_RATE_P50, Report, Spread, at_most};
use super::server::ServerProcess;
use super::tally::MessageTally;

/// Messages per second.
pub const RATE: u32 = 1_000;
/// Connections they come over. Each posts every 64 ms, long after its last answer.
const POSTERS: u32 = 64;
const WINDOW: u16 = 64;
const WARM_UP: Duration = Duration::from_secs(1);

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &RelayArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let plan = Plan { loaded: args.agents, chats: POSTERS, shared: false, idle: 0 };
    let fixture = ServerFixture::prepare(bench_folder, plan).await?;
    let server = ServerProcess::start(&fixture.folder, &[]).await?;
    let mut posters = Posters::connect(&server, &fixture, POSTERS).await?;

    let capacity = RATE as usize * (args.seconds as usize + 1);
    let tally = Arc::new(MessageTally::new(capacity, POSTERS as usize));
    let agents = SdkAgents::dial(&server, &fixture.loaded, WINDOW, &tally).await?;

    // Warm-up, because the first message of a chat costs more than later ones.
    posters.open_loop(RATE, WARM_UP, &tally).await?;
    everything_acknowledged(&server, &tally).await?;
    let warmed = tally.count_answered();

    let answers = posters.open_loop(RATE, Duration::from_secs(args.seconds), &tally).await?;
    everything_acknowledged(&server, &tally).await?;
    agents.leave().await;
    server.stop().await?;
    tally.check()?;

    let (answers, onward) = (Spread::of(answers), Spread::of(tally.onward(warmed)));
    report.judged("fixed rate", FIXED_RATE_P50, answers.percentile(50.0), "ms", at_most(3.0));
    report.judged("fixed rate", "webhook to 200, p99", answers.percentile(99.0), "ms", at_most(15.0));
    report.judged(
        "fixed rate",
        "200 until the agent has it, p50",
        onward.percentile(50.0),
        "ms",
        at_most(2.0),
    );
    report.judged(
        "fixed rate",
        "200 until the agent has it, p99",
        onward.percentile(99.0),
        "ms",
        at_most(2.0),
    );
    Ok(())
}
