//! Cost per message on a small server and on a large one: it must not grow with the number of tenants.

use std::time::Duration;

use super::RelayArgs;
use super::fixtures::{BenchFolder, Plan, ServerFixture};
use super::peak::{LoadResult, LoadedServer};
use super::print_progress;
use super::report::{Report, at_most};
use super::stopwatch::Stopwatch;

/// Each server is loaded this often, in turn, so that noise affects both.
const ROUNDS: u64 = 2;

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &RelayArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    // One bot for all and a route for every chat, as on a server with many tenants.
    let small = Plan { loaded: args.agents, chats: args.posters, shared: true, idle: 0 };
    let large = Plan { idle: args.instances, ..small };
    let watch = Stopwatch::start();
    let (small, large) = (
        ServerFixture::prepare(bench_folder, small).await?,
        ServerFixture::prepare(bench_folder, large).await?,
    );
    print_progress(&format!("  enrolled {} in {:.1} s", args.instances, watch.elapsed().as_secs_f64()));

    let seconds = args.seconds * ROUNDS;
    let mut servers = [
        LoadedServer::start(&small, args.posters, seconds).await?,
        LoadedServer::start(&large, args.posters, seconds).await?,
    ];
    let mut loads = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (server, loads) in servers.iter_mut().zip(&mut loads) {
            // The connections were idle, perhaps for longer than the server keeps an idle one.
            server.redial().await?;
            loads.push(server.load(Duration::from_secs(args.seconds)).await?);
        }
    }
    for server in servers {
        server.stop().await?;
    }
    let [small, large] = loads.map(|loads| LoadResult::of(loads).cpu_micros());
    report.figure("tenants", format!("server CPU, {} enrolled", args.agents), small, "us/msg");
    report.figure("tenants", format!("server CPU, {} more enrolled", args.instances), large, "us/msg");
    report.judged("tenants", "large server against small", large / small, "x", at_most(1.2));
    Ok(())
}
