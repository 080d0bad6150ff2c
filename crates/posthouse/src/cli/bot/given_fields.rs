//! Secrets and settings of a bot, from files, options and questions on a terminal.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};

use crate::cli::server_address::read_secret;
use crate::cli::{RawArguments, prompt};

pub type SecretFiles = BTreeMap<String, PathBuf>;

pub fn read_secrets(given: &SecretFiles) -> anyhow::Result<Map<String, Value>> {
    given.iter().map(|(name, file)| Ok((name.clone(), read_secret(file)?.expose().into()))).collect()
}

/// The name of a field, and what it is, if a bot with these settings cannot be created without it.
fn required<'f>(field: &'f Value, settings: &Map<String, Value>) -> Option<(&'f str, &'f str)> {
    let is_listed = || {
        let needed = field.get("needed_with")?;
        let list = settings.get(needed["setting"].as_str()?)?.as_str()?;
        Some(list.split(',').any(|listed| needed["word"] == listed.trim()))
    };
    let is_needed = field.get("needed_with").is_none() || is_listed() == Some(true);
    let is_required = field["generated"] != json!(true) && field["optional"] != json!(true) && is_needed;
    is_required
        .then(|| (field["name"].as_str().unwrap_or_default(), field["about"].as_str().unwrap_or_default()))
}

/// The name and description of a field that may be left out.
fn optional(field: &Value) -> Option<(&str, &str)> {
    (field["optional"] == json!(true))
        .then(|| (field["name"].as_str().unwrap_or_default(), field["about"].as_str().unwrap_or_default()))
}

/// Asks for every setting that the platform needs and that was not given.
pub fn ask_settings(platform: &str, known: &Value, settings: &mut Map<String, Value>) -> anyhow::Result<()> {
    let fields = known["settings"].as_array().into_iter().flatten();
    for (name, about) in fields.filter_map(|field| required(field, &Map::new())) {
        if settings.contains_key(name) {
            continue;
        }
        if !prompt::is_interactive() {
            bail!("a {platform} bot needs --set {name}=VALUE: {about}");
        }
        settings.insert(name.to_owned(), prompt::text(about)?.into());
    }
    Ok(())
}

/// Every secret that the platform needs, from its file or from a prompt. On a terminal optional secrets are asked for
/// too, unless one of them is given.
pub fn secrets(
    platform: &str,
    known: &Value,
    settings: &Map<String, Value>,
    given: SecretFiles,
) -> anyhow::Result<Map<String, Value>> {
    let mut secrets = read_secrets(&given)?;
    let fields = known["secrets"].as_array().into_iter().flatten();
    for (name, about) in fields.filter_map(|field| required(field, settings)) {
        if secrets.contains_key(name) {
            continue;
        }
        if !prompt::is_interactive() {
            bail!("a {platform} bot needs --{}-file FILE: {about}", name.replace('_', "-"));
        }
        secrets.insert(name.to_owned(), prompt::secret(about)?.expose().into());
    }
    // Some platforms need one of several. Whoever names one has chosen.
    let optional: Vec<_> = known["secrets"].as_array().into_iter().flatten().filter_map(optional).collect();
    if prompt::is_interactive() && !optional.iter().any(|(name, _)| secrets.contains_key(*name)) {
        for (name, about) in optional {
            if let Some(secret) = prompt::optional_secret(about)? {
                secrets.insert(name.to_owned(), secret.expose().into());
            }
        }
    }
    Ok(secrets)
}

pub fn named_file(word: &OsString) -> anyhow::Result<(String, PathBuf)> {
    match word.to_str().and_then(|word| word.split_once('=')) {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(file)))
        }
        _ => bail!("--secret-file needs NAME=FILE"),
    }
}

/// `NAME=VALUE`
pub fn named_setting(word: &str) -> anyhow::Result<(&str, &str)> {
    match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name, value)),
        _ => bail!("--set needs NAME=VALUE"),
    }
}

/// A JSON object from a file.
pub fn read_settings(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a JSON object", file.display()))
}

/// Options that end in `-file` but do not name a secret of a bot.
const OTHERS: [&str; 2] = ["admin-token", "secret"];

/// Rewrites `--SECRET-file F` to `--secret-file SECRET=F` after `bot create` and `bot change`. Clap cannot define these
/// options, because only the platform knows the names of its secrets.
pub fn with_secrets_named(words: impl IntoIterator<Item = OsString>) -> RawArguments {
    let words: RawArguments = words.into_iter().collect();
    let takes_secrets = |pair: &[OsString]| pair[0] == "bot" && (pair[1] == "create" || pair[1] == "change");
    let Some(command) = words.windows(2).position(takes_secrets) else { return words };
    let mut rewritten: RawArguments = Vec::with_capacity(words.len() + 1);
    let mut words = words.into_iter().enumerate();
    while let Some((at, word)) = words.next() {
        let Some((name, value)) = secret_flag(&word).filter(|_| at > command) else {
            rewritten.push(word);
            continue;
        };
        let Some(value) = value.map(OsString::from).or_else(|| words.next().map(|(_, value)| value)) else {
            rewritten.push(word);
            continue;
        };
        let mut named = OsString::from(format!("{name}="));
        named.push(value);
        rewritten.extend([OsString::from("--secret-file"), named]);
    }
    rewritten
}

/// The name of the secret, and the file if it is given with an equals sign.
fn secret_flag(word: &OsString) -> Option<(String, Option<String>)> {
    let flag = word.to_str()?.strip_prefix("--")?;
    let (flag, value) = match flag.split_once('=') {
        Some((flag, value)) => (flag, Some(value.to_owned())),
        None => (flag, None),
    };
    let name = flag.strip_suffix("-file").filter(|name| !name.is_empty() && !OTHERS.contains(name))?;
    Some((name.replace('-', "_"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let words = with_secrets_named(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn any_secrets_file_may_be_named_by_a_flag_of_its_own() {
        for (typed, meant) in [
            (
                "p bot create telegram --token-file F --json",
                "p bot create telegram --secret-file token=F --json",
            ),
            ("p bot create x --webhook-secret-file=F", "p bot create x --secret-file webhook_secret=F"),
            ("p bot change x:1 --token-file F", "p bot change x:1 --secret-file token=F"),
            ("p bot create x --admin-token-file F", "p bot create x --admin-token-file F"),
            ("p --admin-token-file F bot create x", "p --admin-token-file F bot create x"),
            ("p bot create x --secret-file a=F", "p bot create x --secret-file a=F"),
            ("p bot create x --token-file", "p bot create x --token-file"),
            ("p agent list --token-file F", "p agent list --token-file F"),
        ] {
            assert_eq!(read(typed), meant);
        }
    }
}
