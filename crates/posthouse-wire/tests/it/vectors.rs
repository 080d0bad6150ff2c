//! Access to the recorded vectors under `vectors/`.

use std::path::PathBuf;

use serde_json::Value;

pub fn file(name: &str) -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors")), PathBuf::from);
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// The cases of one list in a file; a file without any is a mistake.
pub fn cases(name: &str, list: &str) -> Vec<Value> {
    let cases = file(name)[list].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{name} has no {list}");
    cases
}

pub fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_else(|| panic!("{name} in {case}"))
}
