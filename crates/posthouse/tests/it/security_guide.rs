//! The guide "Security model": every line of its tables names tests, and every named test exists.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/security.md");
const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Lines of tables whose last column is for tests, each with its names.
fn promises(guide: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut names_tests = false;
    for line in guide.lines() {
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else {
            names_tests = false;
            continue;
        };
        let last = cells.rsplit(" | ").next().unwrap_or_default();
        if last == "tests" {
            names_tests = true;
        } else if names_tests && !last.starts_with("---") {
            let names = last.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            found.push((line.to_owned(), names));
        }
    }
    found
}

/// All tests of the workspace, as `crate::file::function`.
fn tests() -> Vec<String> {
    let mut files = Vec::new();
    for folder in fs::read_dir(CRATES).unwrap().map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_str().unwrap().replace('-', "_");
        for place in ["src", "tests/it"] {
            collect(&folder.join(place), &name, &mut files);
        }
    }
    let mut tests = Vec::new();
    for (module, file) in files {
        let text = fs::read_to_string(file).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            match line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")) {
                _ if line.starts_with("#[test]") || line.starts_with("#[tokio::test") => is_test = true,
                Some(rest) if is_test => {
                    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                    tests.push(format!("{module}::{name}"));
                    is_test = false;
                }
                _ => {}
            }
        }
    }
    tests
}

fn collect(folder: &Path, module: &str, into: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            collect(&path, &format!("{module}::{name}"), into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push((format!("{module}::{name}"), path));
        }
    }
}

/// What is wrong with a name; none if it means one test.
fn wrong(name: &str, tests: &[String]) -> Option<String> {
    let (module, function) = name.rsplit_once("::").unwrap_or_default();
    let fits = |test: &&String| {
        let (its_module, its_function) = test.rsplit_once("::").unwrap();
        its_module == module
            && match function.strip_suffix('…') {
                Some(start) => its_function.starts_with(start),
                None => its_function == function,
            }
    };
    match tests.iter().filter(fits).collect::<Vec<_>>().as_slice() {
        [_] => None,
        [] => Some(format!("`{name}` is no test")),
        several => Some(format!("`{name}` fits {several:?}")),
    }
}

#[test]
fn every_line_of_the_security_model_names_tests_that_exist() {
    let promises = promises(&fs::read_to_string(GUIDE).unwrap());
    assert!(promises.len() > 30, "only {} lines were found", promises.len());
    let tests = tests();
    let mut wrong_lines = BTreeMap::new();
    for (line, names) in promises {
        let mut reasons: Vec<String> = names.iter().filter_map(|name| wrong(name, &tests)).collect();
        if names.is_empty() {
            reasons.push("it names no test".to_owned());
        }
        if !reasons.is_empty() {
            wrong_lines.insert(line, reasons);
        }
    }
    assert!(wrong_lines.is_empty(), "docs/guide/security.md has lines without a proof:\n{wrong_lines:#?}");
}

#[test]
fn names_that_mean_no_test_or_several_are_found() {
    let tests = ["relay::guard::a_pair_is_refused", "relay::guard::a_chat_is", "relay::guard::a_chat_was"];
    let tests = tests.map(str::to_owned);
    assert_eq!(wrong("relay::guard::a_pair…", &tests), None);
    assert_eq!(wrong("relay::guard::a_chat_is", &tests), None);
    for name in ["relay::guard::a_chat…", "relay::guard::a_pair", "relay::other::a_pair…", "a_pair…", ""]
    {
        assert!(wrong(name, &tests).is_some(), "{name}");
    }
    let guide = "| who | tests |\n| --- | --- |\n| a | `x::y::z`, `x::y::w…` |\n| b | none |\n\n| c | d |\n| e | f |\n";
    let names: Vec<usize> = promises(guide).iter().map(|(_, names)| names.len()).collect();
    assert_eq!(names, [2, 0]);
}
