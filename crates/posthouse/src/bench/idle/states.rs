//! CPU of idle sockets in every state. Idle sockets in every state cost no CPU: one that spins takes a whole core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::task::JoinSet;

use super::super::fixtures::{BenchFolder, Plan, ServerFixture};
use super::super::poster::Poster;
use super::super::report::{Report, at_most};
use super::super::server::ServerProcess;
use super::super::stopwatch::Stopwatch;
use super::{SETTLED, dial, hear, listen, upgrade};

/// Shorter than the lease of an entry, after which the server would close the socket that holds it.
const WATCHED: Duration = Duration::from_secs(10);

/// Five sockets of one agent with two credentials: one that has not said hello, two standbys, a reserve, and a live
/// one that has not acknowledged its message.
pub async fn measure(bench_folder: &BenchFolder, report: &mut Report) -> anyhow::Result<()> {
    let fixture =
        ServerFixture::prepare(bench_folder, Plan { loaded: 1, chats: 1, shared: false, idle: 0 }).await?;
    let agent = &fixture.loaded[0];
    let other = fixture.another_credential(agent).await?;
    let server = ServerProcess::start(&fixture.folder, &[]).await?;
    let address = server.address()?;

    let mut sockets = vec![upgrade(address, agent).await?];
    for credential in [agent, agent, &other, &other] {
        sockets.push(dial(address, credential).await?);
    }
    let status = Poster::connect(&server, &fixture, 0).await?.post(1).await?;
    ensure!(status == 200, "the server answered a message with {status}");
    let live = sockets.last_mut().context("five sockets were opened")?;
    hear(live, b"\"inbound\"").await.context("the message")?;
    let gone = Arc::new(AtomicU64::new(0));
    let mut listening = JoinSet::new();
    for socket in sockets {
        listening.spawn(listen(socket, Arc::clone(&gone)));
    }
    tokio::time::sleep(SETTLED).await;

    let (watch, cpu) = (Stopwatch::start(), server.cpu()?);
    tokio::time::sleep(WATCHED).await;
    let cpu = server.cpu()?.saturating_sub(cpu).as_secs_f64() / watch.elapsed().as_secs_f64();
    ensure!(gone.load(Ordering::Relaxed) == 0, "the server closed an idle socket");
    listening.shutdown().await;
    server.stop().await?;
    report.judged("idle", "CPU of one core for sockets in every state", cpu * 100.0, "%", at_most(10.0));
    Ok(())
}
