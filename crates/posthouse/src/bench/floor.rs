//! Baseline of this machine without a server: fdatasync, and a bare WebSocket echo.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite;

use super::process;
use super::report::{ECHO_CPU, ECHO_RATE, Report, SYNC_P50, Spread};
use super::stopwatch::Stopwatch;

const SYNCS: usize = 1_000;
const CONNECTIONS: usize = 64;
const FRAME: usize = 300;
const ECHOING: Duration = Duration::from_secs(3);

pub async fn measure(folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    disk(folder, report).await?;
    let (echoes, took, cpu) = echo().await?;
    report.figure("floor", ECHO_RATE, echoes as f64 / took.as_secs_f64(), "/s");
    report.figure("floor", ECHO_CPU, cpu.as_secs_f64() * 1e6 / echoes as f64, "us/msg");
    Ok(())
}

pub async fn disk(folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let file = folder.join("floor");
    let syncs = Spread::of(tokio::task::spawn_blocking(move || syncs(&file)).await??);
    report.figure("floor", SYNC_P50, syncs.percentile(50.0), "ms");
    report.figure("floor", "fdatasync of 4 KiB, p99", syncs.percentile(99.0), "ms");
    Ok(())
}

/// Nanoseconds of each append with fdatasync.
fn syncs(path: &Path) -> anyhow::Result<Vec<u64>> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let block = [7; 4096];
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let watch = Stopwatch::start();
        file.write_all(&block)?;
        file.sync_data()?;
        took.push(watch.nanos());
    }
    std::fs::remove_file(path)?;
    Ok(took)
}

/// Echoes over 64 connections: their count, their duration, and the CPU time of the one thread that
/// answers.
async fn echo() -> anyhow::Result<(u64, Duration, Duration)> {
    let (tell_address, address) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = std::thread::Builder::new().name("bare-echo".to_owned()).spawn(
        move || -> anyhow::Result<Duration> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let _ = tell_address.send(listener.local_addr()?);
                let doors = Router::new().route("/", get(upgrade));
                tokio::select! {
                    served = async { axum::serve(listener, doors).await } => served?,
                    _ = stopped => {}
                }
                anyhow::Ok(())
            })?;
            process::own_thread_cpu()
        },
    )?;
    let address = address.await.context("the echo server did not start")?;
    let count = Arc::new(AtomicU64::new(0));
    let watch = Stopwatch::start();
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(ask(address, watch, Arc::clone(&count)));
    }
    while let Some(asked) = clients.join_next().await {
        asked??;
    }
    let took = watch.elapsed();
    drop(stop);
    let cpu = tokio::task::spawn_blocking(move || server.join()).await?;
    let cpu = cpu.map_err(|_| anyhow::anyhow!("the echo server panicked"))??;
    Ok((count.load(Ordering::Relaxed), took, cpu))
}

async fn upgrade(upgrade: WebSocketUpgrade) -> axum::response::Response {
    upgrade.read_buffer_size(4096).on_upgrade(answer)
}

async fn answer(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Text(_)) && socket.send(message).await.is_err() {
            return;
        }
    }
}

async fn ask(address: SocketAddr, watch: Stopwatch, count: Arc<AtomicU64>) -> anyhow::Result<()> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await?;
    let message = tungstenite::Message::text("x".repeat(FRAME));
    while watch.elapsed() < ECHOING {
        socket.send(message.clone()).await?;
        socket.next().await.context("the echo server closed a socket")??;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
