//! Idle agents: memory of each connection, and CPU of all.

mod states;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use posthouse_time::Timepiece;
use posthouse_wire::frame::Hello;
use posthouse_wire::{FromGateway, token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::RelayArgs;
use super::fixtures::{BenchAgent, BenchFolder, PLATFORM, Plan, ServerFixture};
use super::report::{Report, at_most};
use super::server::ServerProcess;
use super::stopwatch::Stopwatch;

/// Concurrent handshakes.
const AT_ONCE: usize = 64;
/// Ping interval of the server: every silent socket is pinged once in this time.
const WATCHED: Duration = Duration::from_secs(30);
const SETTLED: Duration = Duration::from_secs(2);
/// Files that either process needs besides the sockets.
const OTHER_FILES: u64 = 200;
const TOKEN_SECONDS: i64 = 300;

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &RelayArgs,
    files: u64,
    report: &mut Report,
) -> anyhow::Result<()> {
    let count = args.idle.min(u32::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(u32::MAX));
    if count < args.idle {
        super::print_progress(&format!("  only {count}: a process on this machine may open {files} files"));
    }
    let fixture =
        ServerFixture::prepare(bench_folder, Plan { loaded: 0, chats: 0, shared: true, idle: count }).await?;
    let room = [("POSTHOUSE_SERVER__MAX_CONNECTIONS", (u64::from(count) + 100).to_string())];
    let server = ServerProcess::start(&fixture.folder, &room).await?;
    tokio::time::sleep(SETTLED).await;
    let bare = server.resident()?;

    let watch = Stopwatch::start();
    let address = server.address()?;
    let sockets = stream::iter(&fixture.idle).map(|agent| dial(address, agent)).buffer_unordered(AT_ONCE);
    let sockets: Vec<TcpStream> = sockets.try_collect().await?;
    let dialed = f64::from(count) / watch.elapsed().as_secs_f64();
    let gone = Arc::new(AtomicU64::new(0));
    let mut listening = JoinSet::new();
    for socket in sockets {
        listening.spawn(listen(socket, Arc::clone(&gone)));
    }
    tokio::time::sleep(SETTLED).await;

    let (watch, cpu) = (Stopwatch::start(), server.cpu()?);
    tokio::time::sleep(WATCHED).await;
    let cpu = server.cpu()?.saturating_sub(cpu).as_secs_f64() / watch.elapsed().as_secs_f64();
    let full = server.resident()?;
    let seated = server.metric("posthouse_relay_sockets").await?;
    ensure!(
        seated == u64::from(count) && gone.load(Ordering::Relaxed) == 0,
        "of {count} idle agents {seated} are still connected"
    );
    listening.shutdown().await;
    server.stop().await?;

    let each = full.saturating_sub(bare) as f64 / 1024.0 / f64::from(count);
    report.judged(
        "idle",
        "server without agents, resident",
        bare as f64 / f64::from(1 << 20),
        "MiB",
        at_most(40.0),
    );
    report.judged("idle", format!("each of {count} sockets, resident"), each, "KiB", at_most(12.0).goal(8.0));
    report.figure("idle", "CPU of one core for all, each pinged once", cpu * 100.0, "%");
    report.figure("idle", "dialed in", dialed, "/s");
    states::measure(bench_folder, report).await
}

/// Upgrades, sends hello and waits for the descriptor: from then on the server has a seat for it.
async fn dial(address: &str, agent: &BenchAgent) -> anyhow::Result<TcpStream> {
    let mut stream = upgrade(address, agent).await?;
    let hello = FromGateway::Hello(Hello {
        platform: PLATFORM.into(),
        bot_id: agent.bot.clone(),
        client: Some("posthouse-bench".to_owned()),
        window: Some(32),
        fires: false,
        command_manifest: None,
    });
    stream.write_all(&frame(0x81, hello.line().as_bytes())).await?;
    hear(&mut stream, b"\"descriptor\"").await.context("after hello")?;
    Ok(stream)
}

/// Opens a socket and sends nothing.
async fn upgrade(address: &str, agent: &BenchAgent) -> anyhow::Result<TcpStream> {
    let token = token::mint(&agent.gateway, &agent.secret, TOKEN_SECONDS, Timepiece::wall().now().seconds());
    let mut stream = TcpStream::connect(address).await?;
    let upgrade = format!(
        "GET /relay HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await?;
    let heard = hear(&mut stream, b"\r\n\r\n").await?;
    ensure!(heard.starts_with(b"HTTP/1.1 101"), "the server refused an upgrade");
    Ok(stream)
}

async fn hear(stream: &mut TcpStream, wanted: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut heard = Vec::new();
    while !heard.windows(wanted.len()).any(|window| window == wanted) {
        if stream.read_buf(&mut heard).await? == 0 {
            bail!("the server closed the socket");
        }
    }
    Ok(heard)
}

/// Answers pings, the only thing that an idle agent does.
async fn listen(mut stream: TcpStream, gone: Arc<AtomicU64>) {
    let mut buffer = [0; 512];
    loop {
        let read = match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => read,
            _ => break,
        };
        // The rest of a descriptor may come first; a ping of the server is two bytes and comes alone.
        if buffer[..read].ends_with(&[0x89, 0x00]) && stream.write_all(&frame(0x8a, &[])).await.is_err() {
            break;
        }
    }
    gone.fetch_add(1, Ordering::Relaxed);
}

/// A client frame. Its mask is zero, which the protocol allows and which leaves the payload unchanged.
fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![head];
    match u8::try_from(payload.len()) {
        Ok(short) if short < 126 => frame.push(0x80 | short),
        _ => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}
