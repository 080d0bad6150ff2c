//! Access to the recorded vectors under `vectors/skills/contracts`.

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

/// Whether these are the vectors of this project. Other folders may hold more or fewer steps.
pub fn is_own_folder() -> bool {
    std::env::var_os("POSTHOUSE_VECTORS").is_none()
}

/// The names of all contract files.
pub fn contract_files() -> Vec<String> {
    let entries = fs::read_dir(folder().join("contracts")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

pub fn contract(name: &str) -> Value {
    read(&folder().join("contracts").join(name))
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
