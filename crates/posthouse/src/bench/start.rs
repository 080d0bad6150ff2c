//! Start-up time from exec to ready, with an existing ledger.

use std::time::Duration;

use super::fixtures::{BenchFolder, Plan, ServerFixture};
use super::report::{Report, at_most};
use super::server::ServerProcess;

const TIMES: usize = 5;
/// Agents in the ledger, as on a server in use.
const ENROLLED: u32 = 1_000;
/// Time for the work that a server does right after it is ready.
const SETTLED: Duration = Duration::from_secs(1);

pub async fn measure(bench_folder: &BenchFolder, report: &mut Report) -> anyhow::Result<()> {
    let fixture =
        ServerFixture::prepare(bench_folder, Plan { loaded: 1, chats: 1, shared: false, idle: ENROLLED })
            .await?;
    let (mut ready, mut resident) = (Vec::new(), 0);
    for _ in 0..TIMES {
        let server = ServerProcess::start(&fixture.folder, &[]).await?;
        ready.push(server.ready_after);
        tokio::time::sleep(SETTLED).await;
        resident = resident.max(server.resident()?);
        server.stop().await?;
    }
    ready.sort_unstable();
    let median = ready[TIMES / 2].as_secs_f64() * 1e3;
    report.judged("start", "exec to ready, median of 5", median, "ms", at_most(200.0));
    let mebibytes = resident as f64 / f64::from(1 << 20);
    report.judged("start", "idle server, resident", mebibytes, "MiB", at_most(40.0));
    Ok(())
}
