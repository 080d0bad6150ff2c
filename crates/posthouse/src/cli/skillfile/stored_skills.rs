//! `posthouse skillfile list`, `delete` and `shell-audit`: the stored skills of a home folder.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use serde_json::json;
use skill::{SkillHeader, footprint, named_skills, status_of};
use workshop::SkillStore;

use super::{failure, missing_skill};
use crate::cli::output::{Output, without_control_characters};
use crate::cli::skill_home::SkillHome;

pub fn list(output: &Output, home: &SkillHome, status: Option<&str>) -> anyhow::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for (name, source) in home.stored()? {
        let own = status_of(&source).status();
        if status.is_none_or(|status| own.as_str() == status) {
            let description = SkillHeader::parse(&source).description;
            let description = description.map(|text| format!(" — {text}")).unwrap_or_default();
            lines.push(format!("  {name} [{own}]{description}\n"));
        }
    }
    lines.sort();
    if lines.is_empty() {
        return output.text(&format!("No skills found in {}.\n", home.skills().display()));
    }
    output.text(&without_control_characters(&lines.concat()))
}

/// Deletes a skill with its history, unless another one uses it.
pub async fn delete(output: &Output, home: &SkillHome, name: &str, force: bool) -> anyhow::Result<()> {
    if home.stored_text(name).is_none() {
        return Err(missing_skill(home, name).into());
    }
    let stored = home.stored()?;
    let users = stored.iter().filter(|(other, text)| *other != name && named_skills(text).contains(name));
    let mut users: Vec<&str> = users.map(|(other, _)| other.as_str()).collect();
    users.sort_unstable();
    if !users.is_empty() && !force {
        let used = users.join(", ");
        return Err(failure(format!("'{name}' is used by {used}; --force deletes it, for ever")));
    }
    home.store()?.delete(name).await?.map_err(|refusal| anyhow!("{refusal}"))?;
    output.text(&format!("deleted '{name}' with its history\n"))
}

/// The programs of the stored skills, as a value for the list of allowed ones.
pub fn shell_audit(output: &Output, home: &SkillHome) -> anyhow::Result<()> {
    let stored = home.stored()?;
    let mut programs: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (name, source) in &stored {
        // A program that a variable names is known only when the skill runs.
        let named = footprint(source).shell_binaries.into_iter().filter(|program| !program.starts_with('$'));
        for program in named {
            programs.entry(program).or_default().insert(name);
        }
    }
    let list = programs.keys().map(String::as_str).collect::<Vec<_>>().join(",");
    if output.json {
        let binaries = programs.iter().map(|(binary, skills)| json!({ "binary": binary, "used_by": skills }));
        return output.value(&json!({
            "skills_scanned": stored.len(),
            "binaries": binaries.collect::<Vec<_>>(),
            "allowlist_value": list,
        }));
    }
    let mut report = format!("Scanned {} skill(s) under {}.\n", stored.len(), home.skills().display());
    for (program, skills) in &programs {
        let skills: Vec<&str> = skills.iter().copied().collect();
        report.push_str(&format!("  {program}  (in: {})\n", skills.join(", ")));
    }
    match programs.is_empty() {
        true => report.push_str("No skill starts a program; SKILLSCRIPT_SHELL_ALLOWLIST can stay empty.\n"),
        false => report.push_str(&format!("\nSKILLSCRIPT_SHELL_ALLOWLIST={list}\n")),
    }
    if programs.contains_key("bash") {
        report.push_str("Unsafe commands need SKILLSCRIPT_ENABLE_UNSAFE_SHELL=true, too.\n");
    }
    output.text(&without_control_characters(&report))
}
