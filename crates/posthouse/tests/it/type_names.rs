//! Type names: a struct, enum, trait, union or type alias has a name that no other one in the workspace has. Readers
//! search by name, so a name with two meanings sends them to the wrong file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that every Rust project uses for the same thing in each of its parts, and what that thing is.
const CONVENTIONAL: &[(&str, &str)] = &[
    ("Command", "the subcommands of one command of the command line"),
    ("Config", "the settings of one crate"),
    ("Fault", "the errors of one crate or module"),
    ("Inner", "what the clones of a handle share"),
    ("Metrics", "the metrics of one crate"),
    ("Parts", "what a handle is built from"),
    ("Settings", "the settings of one part"),
];

/// Names that still have several meanings. The list only ever gets shorter.
const WAITING: &[&str] = &[];

#[test]
fn every_type_name_has_one_meaning() {
    let shared: Vec<String> = defined_twice()
        .into_iter()
        .filter(|(name, _)| !is_conventional(name) && !WAITING.contains(&name.as_str()))
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(shared.is_empty(), "give each of these types a name of its own:\n{}", shared.join("\n"));
}

#[test]
fn every_exception_is_needed() {
    let twice = defined_twice();
    let names = CONVENTIONAL.iter().map(|(name, _)| *name).chain(WAITING.iter().copied());
    let needless: Vec<&str> = names.filter(|name| !twice.contains_key(*name)).collect();
    assert!(
        needless.is_empty(),
        "these names are defined at most once; remove them from the lists: {needless:?}"
    );
}

#[test]
fn definitions_are_found_whatever_their_visibility_and_those_of_tests_are_not() {
    let source = "\
pub(in crate::sqlite) struct Row;
enum Kind<T> {
    Struct(T),
}
pub unsafe trait Scan {
    type Item;
}
pub type Map = u8;
fn build() {
    struct Local;
}
#[cfg(test)]
mod tests {
    struct Fixture;
}
pub(crate) union Bits {
";
    assert_eq!(definitions(source), ["Row", "Kind", "Scan", "Map", "Bits"]);
}

fn is_conventional(name: &str) -> bool {
    CONVENTIONAL.iter().any(|(conventional, _)| *conventional == name)
}

/// The files that define each name, for names with more than one definition.
fn defined_twice() -> BTreeMap<String, Vec<String>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in fs::read_dir(&crates).unwrap().map(|entry| entry.unwrap().path()) {
        for file in shipped_files(&folder.join("src")) {
            let place = file.strip_prefix(&crates).unwrap().display().to_string();
            for name in definitions(&fs::read_to_string(&file).unwrap()) {
                names.entry(name).or_default().push(place.clone());
            }
        }
    }
    assert!(names.len() > 500, "the sources were found");
    names.retain(|_, places| places.len() > 1);
    names
}

/// The Rust files below a folder, without files of tests.
fn shipped_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(shipped_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The names of the types that a file defines outside functions, impl blocks and test modules. The formatter puts such
/// definitions at the beginning of a line.
fn definitions(source: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut after_cfg_test, mut in_tests) = (false, false);
    for line in source.lines() {
        if in_tests {
            in_tests = line != "}";
            continue;
        }
        if after_cfg_test && line.starts_with("mod ") && line.ends_with('{') {
            in_tests = true;
        }
        after_cfg_test = line == "#[cfg(test)]";
        names.extend(defined_name(line).map(str::to_owned));
    }
    names
}

/// The name of the type whose definition begins on this line.
fn defined_name(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(public) = rest.strip_prefix("pub") {
        let scope = public.strip_prefix('(').and_then(|scope| scope.split_once(')'));
        rest = scope.map_or(public, |(_, after)| after).strip_prefix(' ')?;
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let keywords = ["struct ", "enum ", "trait ", "union ", "type "];
    let named = keywords.iter().find_map(|keyword| rest.strip_prefix(keyword))?;
    let end = named.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(named.len());
    Some(&named[..end])
}
