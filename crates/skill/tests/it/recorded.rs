//! Access to the recorded vectors under `vectors/skills`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use skill::{ApprovalPublicKey, ApprovalSigningKey};
use skill_doubles::TestKeys;

fn folder() -> PathBuf {
    let vectors = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")), PathBuf::from);
    vectors.join("skills")
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Whether these are the vectors of this project. Other folders may hold more or fewer programs.
pub fn is_own_folder() -> bool {
    std::env::var_os("POSTHOUSE_VECTORS").is_none()
}

pub fn contract(name: &str) -> Value {
    read(&folder().join("contracts").join(name))
}

/// The vectors of every program file, whatever its name.
pub fn programs() -> Vec<Value> {
    let programs: Vec<Value> = program_files().into_iter().flat_map(|(_, programs)| programs).collect();
    assert!(!programs.is_empty(), "{} has no programs", folder().display());
    programs
}

/// The program files by their names without ending, sorted.
pub fn program_files() -> Vec<(String, Vec<Value>)> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<_> = files.map(|path| (name(&path), list(&read(&path)))).collect();
    files.sort_by(|a, b| a.0.cmp(&b.0));
    files
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

/// The fixed keys with which recorded skills are signed.
pub fn test_keys() -> TestKeys {
    let keys = contract("approval.json")["keypair"].clone();
    TestKeys {
        public: ApprovalPublicKey::from_pem(text(&keys, "publicKeyPem")).unwrap(),
        private: ApprovalSigningKey::from_pem(text(&keys, "privateKeyPem")).unwrap(),
    }
}
