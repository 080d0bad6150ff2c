//! Reference part of `bench stores`: the stores of the skillscript runtime under the same loads, with one tenant and
//! without a server.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use super::super::fixtures::BenchFolder;
use super::super::report::Report;
use super::corpus::Corpus;
use super::{StoresArgs, catalogue, searches, writes};

const SCRIPT: &str = include_str!("reference.mjs");
/// Writes among the skills, each followed by a list.
const REWRITES: u32 = 5;
const SEARCHES: u32 = 200;
const SEED: u64 = 39;

pub async fn measure(
    runtime: &Path,
    bench_folder: &BenchFolder,
    args: &StoresArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let folder = bench_folder.path().join("reference");
    std::fs::create_dir_all(folder.join("skills"))?;
    let (script, plan) = (folder.join("reference.mjs"), folder.join("plan.json"));
    std::fs::write(&script, SCRIPT)?;
    std::fs::write(&plan, self::plan(args).to_string())?;
    let output = Command::new(&args.node)
        .arg(&script)
        .arg(std::path::absolute(runtime)?)
        .args([&folder, &plan])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run {}", args.node.display()))?;
    ensure!(output.status.success(), "the measurement of the runtime ended with {}", output.status);
    let measured: Value = serde_json::from_slice(&output.stdout).context("it did not print JSON")?;
    for (name, path, unit) in FIGURES {
        let value = measured.pointer(path).and_then(Value::as_f64);
        report.figure("reference", *name, value.with_context(|| format!("{path} was not measured"))?, unit);
    }
    compare(report);
    Ok(())
}

const FILES_UNCHANGED: &str = "filesystem: skill_list with if_none_match, p50";
const FILES_CHANGED: &str = "filesystem: skill_list after one write, p50";
const SQLITE_UNCHANGED: &str = "SQLite: skill_list with if_none_match, p50";
const SQLITE_CHANGED: &str = "SQLite: skill_list after one write, p50";
const SEARCH: &str = "data of one tenant: two of the 50 commonest words, p99";
const WRITES: &str = "data: entries written, one caller";

/// Figures, and where the script reports them.
const FIGURES: &[(&str, &str, &str)] = &[
    (FILES_UNCHANGED, "/filesystem/unchanged_ms", "ms"),
    (FILES_CHANGED, "/filesystem/changed_ms", "ms"),
    ("filesystem: skill write, p50", "/filesystem/write_ms", "ms"),
    (SQLITE_UNCHANGED, "/sqlite/unchanged_ms", "ms"),
    (SQLITE_CHANGED, "/sqlite/changed_ms", "ms"),
    ("SQLite: skill write, p50", "/sqlite/write_ms", "ms"),
    (SEARCH, "/data/search_p99_ms", "ms"),
    (WRITES, "/data/writes_per_second", "/s"),
];

/// Ratios of the reference's times to ours.
fn compare(report: &mut Report) {
    let [unchanged, changed] =
        [catalogue::UNCHANGED_P50, catalogue::CHANGED_P50].map(|name| ("skills", name));
    for (name, theirs, ours) in [
        ("unchanged list, filesystem to ours", ("reference", FILES_UNCHANGED), unchanged),
        ("unchanged list, SQLite to ours", ("reference", SQLITE_UNCHANGED), unchanged),
        ("changed list, filesystem to ours", ("reference", FILES_CHANGED), changed),
        ("changed list, SQLite to ours", ("reference", SQLITE_CHANGED), changed),
        ("search, theirs to ours", ("reference", SEARCH), ("search", searches::COMMON_P99)),
        ("data writes, ours to theirs", ("writes", writes::RATE), ("reference", WRITES)),
    ] {
        report.ratio(name, theirs, ours);
    }
}

/// The skills of the catalogue, and the data of one of the smaller tenants.
fn plan(args: &StoresArgs) -> Value {
    let mut corpus = Corpus::new(SEED);
    let texts = args.rows / 2 / (args.tenants - 1);
    json!({
        "skills": (0..args.skills).map(|at| catalogue::skill(at, "first")).collect::<Vec<_>>(),
        "rewrites": (0..REWRITES).map(|at| catalogue::skill(at, "again")).collect::<Vec<_>>(),
        "texts": (0..texts).map(|_| corpus.text()).collect::<Vec<_>>(),
        "searches": (0..SEARCHES).map(|_| corpus.two_common_words()).collect::<Vec<_>>(),
    })
}
