//! Access to the recorded vectors under `vectors/skills`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn folder() -> PathBuf {
    let vectors = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")), PathBuf::from);
    vectors.join("skills")
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn contract(name: &str) -> Value {
    read(&folder().join("contracts").join(name))
}

/// The vectors of every program file, whatever its name.
pub fn programs() -> Vec<Value> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    files.sort();
    let programs: Vec<Value> = files.iter().flat_map(|file| list(&read(file))).collect();
    assert!(!programs.is_empty(), "{} has no programs", folder().display());
    programs
}

/// The cases of a list; an empty one is a mistake.
pub fn list(value: &Value) -> Vec<Value> {
    let cases = value.as_array().unwrap_or_else(|| panic!("no list: {value}")).clone();
    assert!(!cases.is_empty());
    cases
}

pub fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_else(|| panic!("{name} in {case}"))
}
