//! Key files of approvals, where the reference runtime has them. They are used on this machine only.

use std::path::{Path, PathBuf};

use anyhow::Context;
use skill::ApprovalSigningKey;

use crate::cli::skill_home::HomeEnvironment;
use crate::key_files::read_key_file;

pub const KEY_VARIABLE: &str = "SKILLSCRIPT_APPROVAL_KEY_FILE";
pub const PUBLIC_KEY_VARIABLE: &str = "SKILLSCRIPT_APPROVAL_PUBLIC_KEY_FILE";

/// The file with the private key: the named one, the one in the environment, or the usual one.
pub fn key_file(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    file(named, KEY_VARIABLE, &of_process)
}

/// The same for the public key.
pub fn public_key_file(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    file(named, PUBLIC_KEY_VARIABLE, &of_process)
}

/// The file that a variable of a skill home names, or the usual one.
pub fn in_environment(variable: &str, environment: &HomeEnvironment) -> anyhow::Result<PathBuf> {
    file(None, variable, &|name| environment.path(name))
}

fn of_process(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn file(
    named: Option<PathBuf>,
    variable: &str,
    given: &dyn Fn(&str) -> Option<PathBuf>,
) -> anyhow::Result<PathBuf> {
    if let Some(file) = named.or_else(|| given(variable)) {
        return Ok(file);
    }
    let usual = if variable == KEY_VARIABLE { "approval.key" } else { "approval.pub" };
    let home = given("HOME").with_context(|| format!("no home folder: set {variable}"))?;
    Ok(home.join(".config/skillscript").join(usual))
}

/// The private key that signs. None if there is no such file and none was named.
pub fn signing_key(named: Option<PathBuf>) -> anyhow::Result<Option<ApprovalSigningKey>> {
    let is_named = named.is_some() || std::env::var_os(KEY_VARIABLE).is_some_and(|value| !value.is_empty());
    let file = key_file(named)?;
    if !is_named && !file.exists() {
        return Ok(None);
    }
    read_signing_key(&file).map(Some)
}

/// Reads a private key. A file that every user of the machine can read is refused.
pub fn read_signing_key(file: &Path) -> anyhow::Result<ApprovalSigningKey> {
    let read = read_key_file(file)?;
    if let Some(warning) = &read.warning {
        eprintln!("posthouse: {warning}");
    }
    // The text is wiped with the secret.
    let pem = posthouse_wire::Secret::new(read.text);
    ApprovalSigningKey::from_pem(pem.expose())
        .with_context(|| format!("{} cannot be used as an approval key", file.display()))
}
