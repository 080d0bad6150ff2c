//! Reads the configuration from the file and the environment; errors name the place.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use posthouse_wire::Secret;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};
use toml::{Table, Value};

use super::catalog::{self, Setting, VAULT_KEY, ValueType};
use super::nearest::nearest;
use super::retired::{self, RetiredSetting};
use super::{Config, Fault};

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    Default,
    File { file: PathBuf, line: usize },
    Environment(String),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueOrigin::Default => f.write_str("default"),
            ValueOrigin::File { file, line } => write!(f, "{}:{line}", file.display()),
            ValueOrigin::Environment(name) => f.write_str(name),
        }
    }
}

/// By path. A path that is not in the map has its default.
pub type Origins = HashMap<String, ValueOrigin>;

/// Prefix of the variable of every setting.
const PREFIX: &str = "POSTHOUSE_";

pub fn read(file: &Path, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Config, Fault> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Fault::Missing { file: file.to_owned() },
        _ => Fault::Unreadable { file: file.to_owned(), why: error.to_string() },
    })?;
    let ParsedFile { table, mut origins, mut retired } = parse(file, &text)?;
    let (mut config, mut values) = values(table).map_err(|error| located(file, &text, &origins, &error))?;

    let mut key = None;
    for (name, value) in ours(variables)? {
        if name == catalog::variable(VAULT_KEY) {
            key = Some(Secret::new(value));
            continue;
        }
        let path = path_of(&name);
        if let Some(path) = retired::find(&path) {
            retired.push(RetiredSetting { path, origin: ValueOrigin::Environment(name) });
            continue;
        }
        let setting = meant(&name, &path)?;
        let blame = |what: String| Fault::Variable { name: name.clone(), what };
        put(&mut values, setting.path, worded(setting, &value).map_err(blame)?);
        // Parsed again after each variable, so that an error names the variable that caused it.
        config =
            values.clone().try_into().map_err(|error: toml::de::Error| blame(error.message().to_owned()))?;
        origins.insert(setting.path.to_owned(), ValueOrigin::Environment(name));
    }
    config.vault.key = key;
    config.origins = origins;
    config.retired = retired;
    config.settle_paths(file.parent().unwrap_or(Path::new("")));
    config.check().map_err(|what| Fault::Relation { file: file.to_owned(), what })?;
    Ok(config)
}

impl Config {
    pub fn origin(&self, path: &str) -> ValueOrigin {
        self.origins.get(path).cloned().unwrap_or(ValueOrigin::Default)
    }

    /// Paths are relative to the folder of the configuration file.
    fn settle_paths(&mut self, base: &Path) {
        let mut paths = vec![&mut self.storage.dir, &mut self.vault.key_file];
        if let Some(tls) = &mut self.server.tls {
            paths.extend([&mut tls.cert, &mut tls.key]);
        }
        paths.extend(self.identity.issuers.iter_mut().filter_map(|issuer| issuer.keys_file.as_mut()));
        for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
            *path = if path.as_os_str() == "." { base.to_owned() } else { base.join(&*path) };
            if path.as_os_str().is_empty() {
                *path = PathBuf::from(".");
            }
        }
    }
}

/// The content of a file whose keys are all known.
struct ParsedFile<'text> {
    /// Without the retired settings.
    table: Spanned<DeTable<'text>>,
    /// The line of every setting in the file.
    origins: Origins,
    retired: Vec<RetiredSetting>,
}

/// Parses the file. An unknown key is an error with its whole path.
fn parse<'text>(file: &Path, text: &'text str) -> Result<ParsedFile<'text>, Fault> {
    let (mut origins, mut retired) = (Origins::new(), Vec::new());
    let mut table = DeTable::parse(text).map_err(|error| located(file, text, &origins, &error))?;
    let origin = |at| ValueOrigin::File { file: file.to_owned(), line: line_of(text, at) };
    retired::remove(table.get_mut(), "", &origin, &mut retired);
    walk(file, text, "", table.get_ref(), &mut origins)?;
    Ok(ParsedFile { table, origins, retired })
}

/// The settings of a file: as the structs, and as a table that variables are put into.
fn values(table: Spanned<DeTable<'_>>) -> Result<(Config, Table), toml::de::Error> {
    let config = Config::deserialize(Deserializer::from(table.clone()))?;
    Ok((config, Table::deserialize(Deserializer::from(table))?))
}

fn walk(
    file: &Path,
    text: &str,
    inside: &str,
    table: &DeTable<'_>,
    origins: &mut Origins,
) -> Result<(), Fault> {
    for (key, value) in table {
        let path = joined(inside, key.get_ref());
        let line = line_of(text, key.span().start);
        if catalog::find(&path).is_some() {
            origins.insert(path, ValueOrigin::File { file: file.to_owned(), line });
        } else if !catalog::is_section(&path) {
            return Err(Fault::Line { file: file.to_owned(), line, what: unknown(&path) });
        } else if let DeValue::Table(table) = value.get_ref() {
            walk(file, text, &path, table, origins)?;
        }
    }
    Ok(())
}

/// The path of a key inside a section; the section is empty at the root.
pub fn joined(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

fn unknown(path: &str) -> String {
    if path == VAULT_KEY {
        let variable = catalog::variable(VAULT_KEY);
        return format!(
            "secrets are not allowed in this file: set {variable}, or name a file as vault.key_file"
        );
    }
    match nearest(path, catalog::paths()) {
        Some(near) => format!("unknown key `{path}`; the nearest known key is `{near}`"),
        None => format!("unknown key `{path}`; `posthouse config print --example` shows every key"),
    }
}

/// An error of the TOML parser, with its line and the setting on it.
fn located(file: &Path, text: &str, origins: &Origins, error: &toml::de::Error) -> Fault {
    let line = line_of(text, error.span().map_or(0, |span| span.start));
    let here = origins
        .iter()
        .find(|(_, origin)| matches!(origin, ValueOrigin::File { line: at, .. } if *at == line));
    let message = error.message().trim().replace('\n', ", ");
    let what = match here {
        Some((path, _)) => format!("{path}: {message}"),
        None => message,
    };
    Fault::Line { file: file.to_owned(), line, what }
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The variables that are settings, sorted by name. The name of every setting has a double underscore.
/// Other variables with our prefix, such as those of the command line, are not settings.
fn ours(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Vec<(String, String)>, Fault> {
    let mut ours = Vec::new();
    for (name, value) in variables {
        let Ok(name) = name.into_string() else { continue };
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if !rest.contains("__") {
            // A single underscore instead of two would otherwise be ignored silently.
            let close = catalog::SETTINGS.iter().map(|setting| catalog::variable(setting.path));
            if let Some(near) = close.into_iter().find(|known| known.replace("__", "_") == name) {
                return Err(Fault::Variable { what: format!("did you mean {near}?"), name });
            }
            continue;
        }
        let Ok(value) = value.into_string() else {
            return Err(Fault::Variable { name, what: "its value is not UTF-8".to_owned() });
        };
        ours.push((name, value));
    }
    ours.sort();
    let (key, key_file) = (catalog::variable(VAULT_KEY), catalog::variable("vault.key_file"));
    if [&key, &key_file].iter().all(|name| ours.iter().any(|(set, _)| set == *name)) {
        return Err(Fault::Variable { what: format!("set this or {key_file}, not both"), name: key });
    }
    Ok(ours)
}

/// `POSTHOUSE_RELAY__ACK_LEASE` is `relay.ack_lease`.
fn path_of(name: &str) -> String {
    name[PREFIX.len()..].replace("__", ".").to_lowercase()
}

/// The setting of a variable with this name and path.
fn meant(name: &str, path: &str) -> Result<&'static Setting, Fault> {
    catalog::find(path).ok_or_else(|| {
        let known: Vec<String> =
            catalog::SETTINGS.iter().map(|setting| catalog::variable(setting.path)).collect();
        let what = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("unknown setting; the nearest known is {near}"),
            None => "unknown setting; `posthouse config print --example` shows every key".to_owned(),
        };
        Fault::Variable { name: name.to_owned(), what }
    })
}

/// Converts the text of a variable to the type of its setting. Lists are separated by commas.
fn worded(setting: &Setting, text: &str) -> Result<Value, String> {
    match setting.kind {
        ValueType::Text => Ok(Value::String(text.to_owned())),
        ValueType::Number => {
            text.parse().map(Value::Integer).map_err(|_| format!("`{text}` is not a whole number"))
        }
        ValueType::Switch => {
            text.parse().map(Value::Boolean).map_err(|_| format!("`{text}` is neither true nor false"))
        }
        ValueType::List => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            Ok(Value::Array(parts.map(|part| Value::String(part.to_owned())).collect()))
        }
        ValueType::Tables => Err(format!("{} can only be set in the file", setting.path)),
    }
}

/// Sets a value. Everything on its path is a table, because the file was parsed before.
fn put(values: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(values.insert(path.to_owned(), value)),
        Some((section, rest)) => {
            let inner = values.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}
