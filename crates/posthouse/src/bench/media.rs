//! Media: files pass through the server in both directions. Its memory must not grow with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use posthouse_time::Timepiece;
use posthouse_wire::token;

use super::fixtures::{BenchAgent, BenchFolder, Plan, ServerFixture};
use super::report::{Report, at_most};
use super::server::ServerProcess;
use super::stopwatch::Stopwatch;

/// Number and size of the files.
pub const FILES: usize = 100;
pub const SIZE: usize = 20 << 20;
/// Transfers at a time: as many as one tenant may have.
const AT_ONCE: usize = 8;
/// Interval at which the memory of the server is read.
const LOOK: Duration = Duration::from_millis(20);

pub async fn measure(bench_folder: &BenchFolder, report: &mut Report) -> anyhow::Result<()> {
    let fixture =
        ServerFixture::prepare(bench_folder, Plan { loaded: 1, chats: 1, shared: false, idle: 0 }).await?;
    let room = (2 * FILES * SIZE).to_string();
    let server = ServerProcess::start(&fixture.folder, &[("POSTHOUSE_STORAGE__MEDIA_BYTES", room)]).await?;
    let agent = fixture.loaded.first().context("there is no agent")?;
    let url = format!("http://{}/relay/media", server.address()?);
    let before = server.resident()?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    let peak = Arc::new(AtomicU64::new(before));
    let done = AtomicBool::new(false);
    let watching = async {
        while !done.load(Ordering::Relaxed) {
            peak.fetch_max(server.resident()?, Ordering::Relaxed);
            tokio::time::sleep(LOOK).await;
        }
        anyhow::Ok(())
    };
    let passing = async {
        let up = Stopwatch::start();
        let content = Bytes::from((0..SIZE).map(|number| (number >> 8) as u8).collect::<Vec<_>>());
        let uploads = stream::iter(0..FILES).map(|_| upload(&client, &url, agent, content.clone()));
        let ids: Vec<String> = uploads.buffer_unordered(AT_ONCE).try_collect().await?;
        let (up, down) = (up.elapsed(), Stopwatch::start());
        let downloads = stream::iter(&ids).map(|id| download(&client, &url, agent, id));
        downloads.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        done.store(true, Ordering::Relaxed);
        anyhow::Ok((up, down.elapsed()))
    };
    let ((), (up, down)) = tokio::try_join!(watching, passing)?;
    server.stop().await?;
    let megabytes = (FILES * SIZE) as f64 / 1e6;
    report.figure("media", "uploaded, durable", megabytes / up.as_secs_f64(), "MB/s");
    report.figure("media", "downloaded", megabytes / down.as_secs_f64(), "MB/s");
    let grown = peak.load(Ordering::Relaxed).saturating_sub(before);
    let mebibyte = f64::from(1 << 20);
    report.figure("media", "memory before", before as f64 / mebibyte, "MiB");
    report.judged(
        "media",
        "memory while files pass, more than before",
        grown as f64 / mebibyte,
        "MiB",
        at_most(64.0),
    );
    Ok(())
}

fn bearer(agent: &BenchAgent) -> String {
    let now = Timepiece::wall().now().seconds();
    format!("Bearer {}", token::mint(&agent.gateway, &agent.secret, 300, now))
}

async fn upload(
    client: &reqwest::Client,
    url: &str,
    agent: &BenchAgent,
    content: Bytes,
) -> anyhow::Result<String> {
    let request = client.post(url).header("authorization", bearer(agent)).body(content);
    let answer = request.send().await?.error_for_status()?;
    let answer: serde_json::Value = answer.json().await?;
    Ok(answer["id"].as_str().context("the server named no id")?.to_owned())
}

async fn download(client: &reqwest::Client, url: &str, agent: &BenchAgent, id: &str) -> anyhow::Result<()> {
    let request = client.get(format!("{url}/{id}")).header("authorization", bearer(agent));
    let mut answer = request.send().await?.error_for_status()?;
    let mut length = 0;
    while let Some(piece) = answer.chunk().await? {
        length += piece.len();
    }
    ensure!(length == SIZE, "a file came back with {length} bytes");
    Ok(())
}
