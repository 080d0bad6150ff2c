//! `posthouse skillfile approve` and `reapprove`: signatures of the skills of a home folder.

use std::path::Path;

use skill::{ApprovalPublicKey, ApprovalSigningKey, Status, stamp, status_of};
use workshop::{ApprovalPolicy, SkillStore, StoreOptions, VersionInfo};

use super::{NO_INPUT, failure, missing_skill};
use crate::cli::Exit;
use crate::cli::output::{Output, without_control_characters};
use crate::cli::skill::key_files::read_signing_key;
use crate::cli::skill_home::{SkillHome, signature_refusal};

/// Shows a skill, signs it and stores it as Approved. Running the command is the approval.
pub async fn approve(output: &Output, home: &SkillHome, name: &str) -> anyhow::Result<()> {
    let key = private_key(home)?;
    let source = home.stored_text(name).ok_or_else(|| missing_skill(home, name))?;
    let line = "─".repeat(60);
    let shown = without_control_characters(&source);
    output.text(&format!("reviewing '{name}' (signing approves it)\n{line}\n{shown}\n{line}\n"))?;
    let signed = sign(home, home.public_key()?, &key, name, &source).await?;
    output.text(&format!("approved '{name}': signed v3, version {}\n", signed.version))
}

/// Lists the Approved skills that have no valid signature. With `apply`, signs them.
pub async fn reapprove(
    output: &Output,
    home: &SkillHome,
    only: Option<&str>,
    apply: bool,
) -> anyhow::Result<()> {
    let Some(public) = home.public_key()? else {
        return Err(missing_key("public", &home.public_key_file()?, "SKILLSCRIPT_APPROVAL_PUBLIC_KEY_FILE"));
    };
    let mut approved: Vec<(String, String)> = home.stored()?.into_iter().collect();
    approved.retain(|(name, source)| {
        only.is_none_or(|only| only == name) && status_of(source).status() == Status::Approved
    });
    approved.sort();
    let failing: Vec<(&str, &str, String)> = approved
        .iter()
        .filter_map(|(name, source)| {
            Some((name.as_str(), source.as_str(), signature_refusal(&public, source)?))
        })
        .collect();
    if failing.is_empty() {
        return output.text(&format!("{} Approved skills: all have a valid signature\n", approved.len()));
    }
    let mut list =
        format!("{} of {} Approved skills have no valid signature:\n", failing.len(), approved.len());
    failing.iter().for_each(|(name, _, why)| list.push_str(&format!("  {name}\n      {why}\n")));
    output.text(&without_control_characters(&list))?;
    if !apply {
        return output.text("\nNothing was changed. Read each skill, then sign them all with --apply.\n");
    }
    let key = private_key(home)?;
    let mut failed = 0;
    for (name, source, _) in &failing {
        match sign(home, Some(public.clone()), &key, name, source).await {
            Ok(signed) => output.text(&format!("  signed '{name}': version {}\n", signed.version))?,
            Err(error) => {
                eprintln!("posthouse: {error:#}");
                failed += 1;
            }
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(failure(format!("{failed} of {} skills were not signed", failing.len()))),
    }
}

fn private_key(home: &SkillHome) -> anyhow::Result<ApprovalSigningKey> {
    let file = home.private_key_file()?;
    if !file.exists() {
        return Err(missing_key("private", &file, "SKILLSCRIPT_APPROVAL_KEY_FILE"));
    }
    read_signing_key(&file)
}

fn missing_key(half: &str, file: &Path, variable: &str) -> anyhow::Error {
    let words = format!(
        "there is no {half} approval key at {}: set {variable}, or create a pair with `posthouse skillfile init` \
         in secured mode",
        file.display()
    );
    Exit { code: NO_INPUT, words }.into()
}

/// Signs a skill and stores it under the rules of secured mode. Fails if it does not land as Approved.
pub async fn sign(
    home: &SkillHome,
    public: Option<ApprovalPublicKey>,
    key: &ApprovalSigningKey,
    name: &str,
    source: &str,
) -> anyhow::Result<VersionInfo> {
    let store = home.store()?.under(ApprovalPolicy::Signed(public.into_iter().collect()));
    let options = StoreOptions { status: Some(Status::Approved), ..StoreOptions::default() };
    let why = match store.store(name, &stamp(source, key), options).await? {
        Ok(stored) if stored.status == Status::Approved => return Ok(stored),
        Ok(stored) => format!("it was stored as {}", stored.status),
        Err(refusal) => refusal.to_string(),
    };
    let file = home.public_key_file()?;
    Err(failure(format!(
        "'{name}' is not approved: {why}; does {} belong to the signing key?",
        file.display()
    )))
}
