//! Catalogue part of `bench stores`: lists of a tenant with many skills, and writes between them.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::super::fixtures::BenchFolder;
use super::super::report::{Report, Spread, at_most};
use super::super::server::ServerProcess;
use super::StoresArgs;
use super::fixtures::TenantFixture;
use super::store_caller::StoreCaller;

pub const WRITE_P50: &str = "write of a Draft, p50";
pub const UNCHANGED_P50: &str = "skill_list with if_none_match, p50";
pub const CHANGED_P50: &str = "skill_list after one write, p50";
const UNCHANGED_CALLS: u32 = 1_000;
const CHANGED_CALLS: u32 = 30;
const DRAFT_WRITES: u32 = 200;
/// Connections that write the skills at the beginning.
const AT_ONCE: u32 = 32;

pub async fn measure(
    bench_folder: &BenchFolder,
    args: &StoresArgs,
    report: &mut Report,
) -> anyhow::Result<()> {
    let fixture = TenantFixture::prepare(bench_folder).await?;
    let server = ServerProcess::start(&fixture.folder, &[]).await?;
    fill(&server, &fixture, args.skills).await?;
    let mut caller = StoreCaller::connect(&server, &fixture.token).await?;

    let (_, first) = caller.tool("skill_list", json!({})).await?;
    let version = version_and_count(&first, args.skills)?;
    report.figure("skills", "size of the list", first.len() as f64 / 1e6, "MB");
    let mut took = Vec::new();
    for _ in 0..UNCHANGED_CALLS {
        let (nanos, answer) = caller.tool("skill_list", json!({ "if_none_match": version })).await?;
        ensure!(answer.contains("not_modified"), "an unchanged catalogue was listed again");
        took.push(nanos);
    }
    let took = Spread::of(took);
    report.judged("skills", UNCHANGED_P50, took.percentile(50.0), "ms", at_most(1.0));
    report.figure("skills", "skill_list with if_none_match, p99", took.percentile(99.0), "ms");

    let (mut wrote, mut listed, mut version) = (Vec::new(), Vec::new(), version);
    for round in 0..CHANGED_CALLS {
        let at = round * 7919 % args.skills;
        wrote.push(write(&mut caller, at, &format!("round {round}")).await?);
        let (nanos, answer) = caller.tool("skill_list", json!({ "if_none_match": version })).await?;
        let new = version_and_count(&answer, args.skills)?;
        ensure!(new != version, "a write did not change the version of the catalogue");
        version = new;
        listed.push(nanos);
    }
    let (wrote, listed) = (Spread::of(wrote), Spread::of(listed));
    report.judged("skills", CHANGED_P50, listed.percentile(50.0), "ms", at_most(60.0));
    report.figure("skills", "skill_list after one write, p95", listed.percentile(95.0), "ms");
    report.figure(
        "skills",
        "write of an Approved skill, with its audit row, p50",
        wrote.percentile(50.0),
        "ms",
    );
    let drafts = Spread::of(write_drafts(&mut caller).await?);
    report.figure("skills", WRITE_P50, drafts.percentile(50.0), "ms");
    server.stop().await
}

async fn fill(server: &ServerProcess, fixture: &TenantFixture, skills: u32) -> anyhow::Result<()> {
    let mut writing = tokio::task::JoinSet::new();
    for first in 0..AT_ONCE.min(skills) {
        let mut caller = StoreCaller::connect(server, &fixture.token).await?;
        writing.spawn(async move {
            for at in (first..skills).step_by(AT_ONCE as usize) {
                write(&mut caller, at, "first").await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(wrote) = writing.join_next().await {
        wrote??;
    }
    Ok(())
}

/// Writes one skill again and again. Each write is one commit.
async fn write_drafts(caller: &mut StoreCaller) -> anyhow::Result<Vec<u64>> {
    let mut took = Vec::new();
    for round in 0..DRAFT_WRITES {
        let body = json!({ "source": format!("# Skill: draft\n# Status: Draft\n# Description: {round}\n") });
        took.push(caller.call("PUT", "/v1/skills/draft", &body).await?.took);
    }
    Ok(took)
}

async fn write(caller: &mut StoreCaller, at: u32, words: &str) -> anyhow::Result<u64> {
    let (name, source) = skill(at, words);
    let answer = caller.call("PUT", &format!("/v1/skills/{name}"), &json!({ "source": source })).await?;
    Ok(answer.took)
}

/// A skill whose entry in the catalogue has about 440 bytes. The reference gets the same.
pub fn skill(at: u32, words: &str) -> (String, String) {
    let name = format!("tide-report-{at:05}");
    let source = format!(
        "# Skill: {name}\n# Status: Approved\n# Description: Reports the tides of harbour {at}, {words}\n\
         # Tags: sea, tides\n# Vars: HARBOUR, DAYS=3\n# Returns: REPORT\n\n\
         report:\n    $ data_read query=\"tides ${{HARBOUR}}\" limit=5 -> FOUND\n\
         \x20   notify(agent=\"heron\", message=\"${{FOUND}}\")\n    $set REPORT = ${{FOUND}}\n\ndefault: report\n"
    );
    (name, source)
}

fn version_and_count(list: &str, skills: u32) -> anyhow::Result<String> {
    let list: Value = serde_json::from_str(list)?;
    let count = ["receives", "skills"].map(|part| list[part].as_array().map_or(0, Vec::len));
    ensure!(
        count.iter().sum::<usize>() == skills as usize,
        "{skills} skills were written, {count:?} are listed"
    );
    Ok(list["catalog_version"].as_str().context("the catalogue has no version")?.to_owned())
}
