//! Drain: an agent reconnects to a full inbox.

use std::sync::Arc;
use std::time::Duration;

use super::RelayArgs;
use super::agents::{SdkAgents, everything_acknowledged};
use super::fixtures::{BenchFolder, Plan, ServerFixture};
use super::load::Posters;
use super::report::{Report, at_least};
use super::server::ServerProcess;
use super::stopwatch::Stopwatch;
use super::tally::MessageTally;

/// The window of the SDK, and the window of stock agents.
const WINDOWS: [u16; 2] = [32, 1];
const POSTERS: u32 = 32;
/// Long enough for any count; posting ends with the last message.
const POSTING: Duration = Duration::from_secs(600);

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &RelayArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    for window in WINDOWS {
        let plan = Plan { loaded: 1, chats: POSTERS, shared: false, idle: 0 };
        let fixture = ServerFixture::prepare(bench_folder, plan).await?;
        // The default limit of an inbox is 10,000 entries; a longer drain needs a higher one.
        let room = [("POSTHOUSE_RELAY__INBOX_ENTRIES", args.drain.max(10_000).to_string())];
        let server = ServerProcess::start(&fixture.folder, &room).await?;
        let tally = Arc::new(MessageTally::new(args.drain as usize, POSTERS as usize));
        let mut posters = Posters::connect(&server, &fixture, POSTERS).await?;
        posters.closed_loop(POSTING, &tally).await?;

        let (watch, cpu) = (Stopwatch::start(), server.cpu()?);
        let agents = SdkAgents::dial(&server, &fixture.loaded, window, &tally).await?;
        everything_acknowledged(&server, &tally).await?;
        let (took, cpu) = (watch.elapsed(), server.cpu()?.saturating_sub(cpu));
        agents.leave().await;
        server.stop().await?;
        tally.check()?;

        let count = f64::from(args.drain);
        let name = format!("drained in order, window {window}");
        match window {
            1 => report.figure("drain", name, count / took.as_secs_f64(), "/s"),
            _ => report.judged("drain", name, count / took.as_secs_f64(), "/s", at_least(5_000.0)),
        }
        report.figure(
            "drain",
            format!("server CPU, window {window}"),
            cpu.as_secs_f64() * 1e6 / count,
            "us/msg",
        );
    }
    Ok(())
}
