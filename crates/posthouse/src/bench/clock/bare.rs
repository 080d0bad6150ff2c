//! Baseline of the clock: a bare POST, received by the same server stack as an arm, and sent by the same
//! client as a fire.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use errand::{Errand, OutgoingCall};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::header::CONTENT_TYPE;
use posthouse_time::Timepiece;
use posthouse_wire::{InstanceId, Secret};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::super::load::Posters;
use super::super::poster::Poster;
use super::super::process;
use super::super::report::Report;
use super::super::stopwatch::Stopwatch;
use super::super::tally::MessageTally;
use super::calls;
use super::fixtures::ClockAgent;
use super::receivers::{FireReceivers, FireTimes, job};

pub const TAKEN_RATE: &str = "bare POST taken, 64 connections";
pub const TAKEN_CPU: &str = "bare POST taken, server CPU";
pub const MADE_CPU: &str = "bare POST made, client CPU";
const CONNECTIONS: usize = 64;
const FASTEST: usize = 400_000;
const POSTING: Duration = Duration::from_secs(2);
const MADE: usize = 10_000;
const MADE_AT_ONCE: usize = 16;

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let (count, took, cpu) = taken().await?;
    report.figure("floor", TAKEN_RATE, count as f64 / took.as_secs_f64(), "/s");
    report.figure("floor", TAKEN_CPU, cpu.as_secs_f64() * 1e6 / count as f64, "us");
    let cpu = made().await?;
    report.figure("floor", MADE_CPU, cpu.as_secs_f64() * 1e6 / MADE as f64, "us");
    Ok(())
}

/// Arm requests, answered by one thread that does nothing with them.
async fn taken() -> anyhow::Result<(u64, Duration, Duration)> {
    let (tell_address, address) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = on_one_thread(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let _ = tell_address.send(listener.local_addr()?);
        let doors = Router::new().route("/api/agent-cron/provision", post(answer));
        tokio::select! {
            served = async { axum::serve(listener, doors).await } => served?,
            _ = stopped => {}
        }
        Ok(())
    })?;
    let address: SocketAddr = address.await.context("the bare server did not start")?;
    let agent = ClockAgent { instance: InstanceId::new("inst_bare"), access: Secret::new("x".repeat(68)) };
    let (now_us, address) = (Timepiece::wall().now().millis() * 1000, address.to_string());
    let mut posters = Vec::new();
    for _ in 0..CONNECTIONS {
        posters.push(Poster::open(&address, calls::request(&address, &agent, &job(0), now_us)).await?);
    }
    let tally = Arc::new(MessageTally::new(FASTEST, 0));
    let watch = Stopwatch::start();
    let mut posters = Posters::of(posters);
    posters.closed_loop(POSTING, &tally).await?;
    let took = watch.elapsed();
    drop((stop, posters));
    Ok((tally.count_answered(), took, ended(server).await?))
}

async fn answer(body: Bytes) -> ([(http::HeaderName, &'static str); 1], &'static str) {
    let _ = body;
    ([(CONTENT_TYPE, "application/json")], "{\"schedule_id\":\"sch_01890000000070008000000000000000\"}")
}

/// Calls like fires: errands of one thread to agents that accept them.
async fn made() -> anyhow::Result<Duration> {
    let times = Arc::new(FireTimes::new(vec![0; MADE]));
    let receivers = FireReceivers::listen(1, &times).await?;
    let url = format!("{}/api/cron/fire", receivers.urls[0]);
    let client = on_one_thread(async move {
        let errand = Errand::new(errand::Config::loopback());
        let token = http::HeaderValue::from_str(&format!("Bearer ey{}", "x".repeat(600)))?;
        let calls = stream::iter(0..MADE).map(|at| {
            let body = format!("{{\"job_id\":\"{}\",\"fire_at\":\"2026-01-01T00:00:00+00:00\"}}", job(at));
            let call = OutgoingCall::post(url.clone(), body)
                .header(CONTENT_TYPE, http::HeaderValue::from_static("application/json"))
                .header(http::header::AUTHORIZATION, token.clone());
            errand.run(call)
        });
        let mut calls = calls.buffer_unordered(MADE_AT_ONCE);
        while let Some(answer) = calls.try_next().await? {
            ensure!(answer.status == 202, "an agent answered {}", answer.status);
        }
        Ok(())
    })?;
    ended(client).await
}

type OneThread = std::thread::JoinHandle<anyhow::Result<Duration>>;

/// Runs `work` on a thread of its own, which returns its CPU time at the end.
fn on_one_thread(
    work: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) -> anyhow::Result<OneThread> {
    let thread = std::thread::Builder::new().name("bare".to_owned()).spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)?;
        process::own_thread_cpu()
    })?;
    Ok(thread)
}

async fn ended(thread: OneThread) -> anyhow::Result<Duration> {
    let ended = tokio::task::spawn_blocking(move || thread.join()).await?;
    ended.map_err(|_| anyhow::anyhow!("the thread of the baseline panicked"))?
}
