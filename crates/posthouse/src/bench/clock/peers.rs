//! Comparison with other schedulers: the program under `bench/peers` runs the same loads, and one table
//! shows all results.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::super::report::Report;
use super::{ClockArgs, arming, fires};

pub async fn measure(program: &Path, args: &ClockArgs, report: &mut Report) -> anyhow::Result<()> {
    let mut command = Command::new(std::path::absolute(program)?);
    command
        .arg("--json")
        .args(["--rate", &fires::RATE.to_string(), "--seconds", &args.seconds.to_string()])
        .args(["--burst", &args.burst.to_string()])
        .args(["--arm-callers", &args.callers.to_string(), "--arm-seconds", &args.arm_seconds.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(dir) = &args.dir {
        command.env("TMPDIR", dir);
    }
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    let mut stdout = child.stdout.take().context("the child has no pipe")?;
    let mut running = Running(child);
    let printed = tokio::task::spawn_blocking(move || {
        let mut printed = Vec::new();
        stdout.read_to_end(&mut printed).map(|_| printed)
    });
    let printed = printed.await??;
    let status = running.0.wait()?;
    ensure!(status.success(), "{} ended with {status}", program.display());
    let document: Value = serde_json::from_slice(&printed).context("the program did not print JSON")?;
    let table = table(report, args, &document);
    report.beside(document, table);
    Ok(())
}

/// Asks the program to end when this run ends, because it has servers of its own to stop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        }
    }
}

/// Our row first, then theirs.
fn table(report: &Report, args: &ClockArgs, document: &Value) -> String {
    let ours = |part, name| report.value(part, name).map(tenths);
    let late = |part| pair(ours(part, fires::P50), ours(part, fires::P99));
    let mut text = format!(
        "| system | {}/s for {} s: p50 / p99 late, ms | {} in one instant: p50 / p99, ms | armed per second, {} callers |\n\
         |---|---|---|---|\n",
        fires::RATE,
        args.seconds,
        args.burst,
        args.callers
    );
    let armed = report.value("arming", arming::RATE).map(|rate| format!("{rate:.0}"));
    let _ = writeln!(
        text,
        "| posthouse {}, its own ledger | {} | {} | {} |",
        env!("CARGO_PKG_VERSION"),
        late("fixed rate"),
        late("burst"),
        armed.unwrap_or_else(|| NONE.to_owned())
    );
    for system in document["systems"].as_array().into_iter().flatten() {
        let word = |name: &str| system[name].as_str().unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} {}, {} {} | {} | {} | {} |",
            word("name"),
            word("version"),
            word("server"),
            word("server_version"),
            theirs(&system["rate"]),
            theirs(&system["burst"]),
            rate(&system["arm"])
        );
    }
    let _ = write!(
        text,
        "\nOurs is measured past due time and guard, over HTTP with a signed token to another process. The guard is\n\
         100 ms on purpose, for agents whose clocks run behind: past the due time alone, ours is 100 ms more.\n\
         Granted to the others: {}\n",
        document["granted"].as_str().unwrap_or_default()
    );
    text
}

const NONE: &str = "not measured";

fn tenths(value: f64) -> String {
    format!("{:.1}", value)
}

fn pair(p50: Option<String>, p99: Option<String>) -> String {
    match (p50, p99) {
        (Some(p50), Some(p99)) => format!("{p50} / {p99}"),
        _ => NONE.to_owned(),
    }
}

fn theirs(stage: &Value) -> String {
    let of = |name: &str| stage[name].as_f64().map(tenths);
    let early = stage["early"].as_u64().filter(|early| *early > 0);
    let early = early.map(|early| format!(", {early} early")).unwrap_or_default();
    format!("{}{early}{}", pair(of("p50_ms"), of("p99_ms")), unfinished(stage))
}

fn rate(stage: &Value) -> String {
    let rate = stage["per_second"].as_f64().map_or_else(|| NONE.to_owned(), |rate| format!("{rate:.0}"));
    format!("{rate}{}", unfinished(stage))
}

fn unfinished(stage: &Value) -> String {
    match stage["ended"].as_bool() {
        Some(false) => format!(" (did not end: {})", stage["why"].as_str().unwrap_or("no reason given")),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_s_figures_are_told_with_what_they_lack() {
        let stage = serde_json::json!({ "ended": true, "p50_ms": 3, "p99_ms": 12.34, "early": 2 });
        assert_eq!(theirs(&stage), "3.0 / 12.3, 2 early");
        let stage = serde_json::json!({ "ended": false, "why": "no server" });
        assert_eq!(theirs(&stage), "not measured (did not end: no server)");
        assert_eq!(rate(&serde_json::json!({ "ended": true, "per_second": 812 })), "812");
    }
}
