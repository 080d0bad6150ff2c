//! Write part of `bench stores`: as many durable writes of data as the server can handle.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::super::report::{Report, Spread, at_least};
use super::super::server::ServerProcess;
use super::super::stopwatch::Stopwatch;
use super::StoresArgs;
use super::corpus::Corpus;
use super::fixtures::DataFixture;
use super::store_caller::StoreCaller;

pub const RATE: &str = "entries written durably";

pub async fn measure(
    server: &ServerProcess,
    fixture: &DataFixture,
    args: &StoresArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut writing = JoinSet::new();
    let (span, cpu) = (Duration::from_secs(args.seconds), server.cpu()?);
    let mut callers = Vec::new();
    for at in 0..args.callers as usize {
        let token = &fixture.tenants[at % fixture.tenants.len()].token;
        callers.push((StoreCaller::connect(server, token).await?, Corpus::new(at as u64)));
    }
    let watch = Stopwatch::start();
    for (mut caller, mut corpus) in callers {
        writing.spawn(async move {
            let mut took = Vec::new();
            while watch.elapsed() < span {
                let entry = json!({ "content": corpus.text() });
                took.push(caller.call("POST", "/v1/data", &entry).await?.took);
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(wrote) = writing.join_next().await {
        took.extend(wrote??);
    }
    let (seconds, cpu) = (watch.elapsed().as_secs_f64(), server.cpu()?.saturating_sub(cpu));
    let count = took.len() as f64;
    report.judged("writes", RATE, count / seconds, "/s", at_least(3_000.0));
    report.figure("writes", "server CPU of a write", cpu.as_secs_f64() * 1e6 / count, "us");
    let took = Spread::of(took);
    report.figure("writes", "write to 201, p50", took.percentile(50.0), "ms");
    report.figure("writes", "write to 201, p99", took.percentile(99.0), "ms");
    Ok(())
}
