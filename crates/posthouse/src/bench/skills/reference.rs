//! Reference part of `bench skills`: the skillscript runtime with the same programs.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use super::super::fixtures::BenchFolder;
use super::super::report::{Report, at_least};
use super::{CHAIN, MeasuredProgram, SMALL_PROGRAM, SkillsArgs};

const SCRIPT: &str = include_str!("reference.mjs");

pub async fn measure(
    runtime: &Path,
    bench_folder: &BenchFolder,
    args: &SkillsArgs,
    programs: &[MeasuredProgram],
    report: &mut Report,
) -> anyhow::Result<()> {
    let (script, plan) = (bench_folder.path().join("reference.mjs"), bench_folder.path().join("plan.json"));
    let programs: Vec<Value> = programs
        .iter()
        .map(|program| json!({ "name": program.name, "source": program.source, "rounds": program.rounds.min(200) }))
        .collect();
    std::fs::write(&script, SCRIPT)?;
    std::fs::write(&plan, json!({ "programs": programs }).to_string())?;
    let output = Command::new(&args.node)
        .arg(&script)
        .arg(std::path::absolute(runtime)?)
        .arg(&plan)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run {}", args.node.display()))?;
    ensure!(output.status.success(), "the measurement of the runtime ended with {}", output.status);
    let measured: Value = serde_json::from_slice(&output.stdout).context("it did not print JSON")?;
    for (name, least) in [(CHAIN, 20.0), (SMALL_PROGRAM, 10.0)] {
        let theirs = measured[name].as_f64().with_context(|| format!("{name} was not measured"))?;
        report.figure("reference", name, theirs, "ms");
        if let Some(ours) = report.value("skills", name) {
            report.judged("ratio", format!("times faster: {name}"), theirs / ours, "x", at_least(least));
        }
    }
    Ok(())
}
