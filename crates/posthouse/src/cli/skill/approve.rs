//! `posthouse skill approve`, `reapprove` and `verify`: signing happens on this machine.

use anyhow::bail;
use posthouse_agent::post::{NewSkill, SkillDocument, SkillHistoryEntry};
use serde_json::{Value, json};
use skill::{ApprovalSigningKey, footprint, stamp};

use super::ApproveArgs;
use super::describe::describe;
use super::key_files::signing_key;
use crate::cli::output::Output;
use crate::cli::program_client::ProgramClient;
use crate::cli::prompt;

const APPROVED: &str = "Approved";

/// Approves one skill after its footprint was shown.
pub async fn approve(
    output: &Output,
    program: &ProgramClient,
    name: &str,
    args: ApproveArgs,
) -> anyhow::Result<()> {
    let key = signing_key(args.key_file)?;
    let skill = program.post.skill(name, None).await.map_err(|fault| program.error(fault))?;
    if !output.json {
        output.text(&describe(&skill.name, &skill.version, &skill.source))?;
        if key.is_none() {
            output.text("There is no approval key on this machine, so it will not be signed.\n")?;
        }
    }
    confirm(args.yes, &format!("Approve {name}?"), &format!("{name} was not approved"))?;
    let approved = sign(program, &skill, key.as_ref()).await?;
    let mut shown = json!(approved);
    shown["effectful_footprint"] = json!(footprint(&skill.source));
    output.done(&shown, &format!("approved {name} as version {}", approved.version))
}

/// Signs all skills that are marked Approved and do not pass any more. Without `apply`, it lists them.
pub async fn reapprove(
    output: &Output,
    program: &ProgramClient,
    apply: bool,
    args: ApproveArgs,
) -> anyhow::Result<()> {
    let failing: Vec<String> = gate(program, None)
        .await?
        .into_iter()
        .filter(|entry| entry["gate_ok"] != true)
        .filter_map(|entry| entry["name"].as_str().map(str::to_owned))
        .collect();
    if !apply {
        let items = failing.iter().map(|name| json!({ "name": name })).collect();
        return output.list(items, &[("NAME", "name")], "every approved skill passes");
    }
    let Some(key) = signing_key(args.key_file)? else { bail!("there is no approval key on this machine") };
    if !failing.is_empty() {
        let question = format!("Sign {} skills: {}?", failing.len(), failing.join(", "));
        confirm(args.yes, &question, "nothing was signed")?;
    }
    let mut signed = Vec::new();
    for name in &failing {
        let skill = program.post.skill(name, None).await.map_err(|fault| program.error(fault))?;
        signed.push(json!(sign(program, &skill, Some(&key)).await?));
    }
    output.list(signed, &[("NAME", "name"), ("VERSION", "version"), ("STATUS", "status")], "nothing to sign")
}

/// Shows whether approved skills pass the gate of their tenant. Fails if one does not.
pub async fn verify(output: &Output, program: &ProgramClient, name: Option<String>) -> anyhow::Result<()> {
    let entries = gate(program, name.as_deref()).await?;
    if let (Some(name), true) = (&name, entries.is_empty()) {
        let skill = program.post.skill(name, None).await.map_err(|fault| program.error(fault))?;
        bail!("{name} is not approved: its status is {}", skill.metadata.status);
    }
    let failing = entries.iter().filter(|entry| entry["gate_ok"] != true).count();
    let items =
        entries.iter().map(|entry| json!({ "name": entry["name"], "passes": entry["gate_ok"] })).collect();
    output.list(items, &[("NAME", "name"), ("PASSES", "passes")], "no skill is approved")?;
    if failing > 0 {
        let skills = if failing == 1 { "skill does" } else { "skills do" };
        bail!("{failing} approved {skills} not pass; `posthouse skill reapprove` lists and signs them");
    }
    Ok(())
}

/// Approved skills with what the gate says, of all categories.
async fn gate(program: &ProgramClient, only: Option<&str>) -> anyhow::Result<Vec<Value>> {
    let catalogue = program.post.skill_catalogue("all", APPROVED).await;
    let mut catalogue = catalogue.map_err(|fault| program.error(fault))?;
    let lists = ["receives", "skills", "headless"].map(|list| catalogue[list].take());
    let entries = lists.into_iter().flat_map(|list| match list {
        Value::Array(entries) => entries,
        _ => Vec::new(),
    });
    let mut entries: Vec<Value> =
        entries.filter(|entry| only.is_none_or(|name| entry["name"] == name)).collect();
    entries.sort_by_key(|entry| entry["name"].as_str().unwrap_or_default().to_owned());
    Ok(entries)
}

/// Sends the signed text, if nobody changed the skill since it was shown. Without a key, the status is enough.
async fn sign(
    program: &ProgramClient,
    skill: &SkillDocument,
    key: Option<&ApprovalSigningKey>,
) -> anyhow::Result<SkillHistoryEntry> {
    let source = key.map_or_else(|| skill.source.clone(), |key| stamp(&skill.source, key));
    let new = NewSkill {
        source,
        status: Some(APPROVED.to_owned()),
        if_version: Some(skill.version.clone()),
        ..NewSkill::default()
    };
    let written = program.post.write_skill(&skill.name, &new).await.map_err(|fault| program.error(fault))?;
    if written.status != APPROVED {
        bail!(
            "{} was stored as {}: the tenant demands a signature by one of its approval keys \
             (`posthouse approval-key list`)",
            skill.name,
            written.status
        );
    }
    Ok(written)
}

/// Asks unless `yes` was given.
pub fn confirm(yes: bool, question: &str, refused: &str) -> anyhow::Result<()> {
    if yes {
        return Ok(());
    }
    if !prompt::is_interactive() {
        bail!("{refused}: use --yes to confirm without a question");
    }
    if !prompt::confirm(question)? {
        bail!("{refused}");
    }
    Ok(())
}
