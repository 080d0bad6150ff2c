//! Configuration as text: the settings in force with their origin, and the example file.

use serde::Serialize;
use toml::{Table, Value};

use super::catalog::{self, SETTINGS, VAULT_KEY};
use super::{Config, ValueOrigin};

/// The file that `posthouse init` writes. It sets nothing, because defaults may change with the program.
pub const FRESH: &str = "\
# Settings of this Posthouse server. `posthouse config print --example` shows every one of them.
# Every setting except `identity.issuers` can also be set by an environment variable: the name in capitals after
# `POSTHOUSE_`, with `__` between section and key. relay.ack_lease is POSTHOUSE_RELAY__ACK_LEASE.

[server]
# listen = \"127.0.0.1:7678\"
# The address that platforms and agents use, when it is not the listener itself:
# public_url = \"https://post.example\"

[vault]
# Keep a copy of this file apart from the backups: without it the stored secrets cannot be decrypted.
key_file = \"vault.key\"
";

/// One setting in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Printed {
    pub key: String,
    /// As in the file; none if it is not set. Never a secret.
    pub value: Option<String>,
    pub origin: String,
}

impl Config {
    /// Every setting in force and its origin.
    pub fn printed(&self) -> Vec<Printed> {
        let values = values(self);
        let mut printed: Vec<Printed> = SETTINGS
            .iter()
            .map(|setting| Printed {
                key: setting.path.to_owned(),
                value: at(&values, setting.path).map(ToString::to_string),
                origin: self.origin(setting.path).to_string(),
            })
            .collect();
        printed.extend(self.retired.iter().map(|retired| Printed {
            key: retired.path.to_owned(),
            value: Some("(no longer a setting, no effect)".to_owned()),
            origin: retired.origin.to_string(),
        }));
        if self.vault.key.is_some() {
            printed.push(Printed {
                key: VAULT_KEY.to_owned(),
                value: Some("(set, not shown)".to_owned()),
                origin: ValueOrigin::Environment(catalog::variable(VAULT_KEY)).to_string(),
            });
        }
        printed
    }
}

/// A complete file: every setting explained, at its default, commented out.
pub fn example() -> String {
    let defaults = values(&Config::default());
    let mut text = "# Every setting of a Posthouse server, at its default.\n".to_owned();
    let mut section = "";
    for setting in SETTINGS {
        let (inside, name) = setting.path.rsplit_once('.').unwrap_or(("", setting.path));
        if inside != section {
            section = inside;
            // An empty section has no effect, except that `[server.tls]` turns TLS on; that one is
            // commented out.
            let mark = if at(&defaults, section).is_none() { "# " } else { "" };
            text.push_str(&format!("\n{mark}[{section}]\n"));
        }
        for line in wrapped(setting.about) {
            text.push_str(&format!("# {line}\n"));
        }
        let value = at(&defaults, setting.path).map(ToString::to_string);
        let value = value.or_else(|| setting.sample.map(str::to_owned)).unwrap_or_default();
        text.push_str(&format!("# {name} = {value}\n"));
    }
    text
}

fn values(config: &Config) -> Table {
    Table::try_from(config).expect("settings are texts, numbers, switches and lists of texts")
}

fn at<'a>(values: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        None => values.get(path),
        Some((section, rest)) => at(values.get(section)?.as_table()?, rest),
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a line");
        if !last.is_empty() && last.len() + word.len() > 95 {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}
