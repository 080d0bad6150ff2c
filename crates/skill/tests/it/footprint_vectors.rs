//! Footprints of all recorded programs, compared with their recorded operations.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skill::footprint;

use crate::recorded::{is_own_folder, programs};

#[test]
fn vectors_footprint_of_every_program_is_that_of_the_recorded_operations() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for program in programs() {
        let parsed = &program["expect"]["parse"];
        let Some(targets) = parsed["targets"].as_array() else { continue };
        let expected = recorded(targets);
        let found = json!(footprint(program["source"].as_str().unwrap()));
        let id = program["id"].as_str().unwrap();
        compared += 1;
        if found != expected {
            wrong.push(format!("{id}:\n  found    {found}\n  recorded {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(!is_own_folder() || compared > 250, "{compared}");
}

/// The footprint of recorded targets, error blocks included.
fn recorded(targets: &[Value]) -> Value {
    let mut ops = Vec::new();
    for target in targets {
        for list in ["ops", "elseBlock"] {
            collect(&target[list], &mut ops);
        }
    }
    let (mut connectors, mut builtins, mut binaries) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let is = |kind: &str| ops.iter().filter(|op| op["kind"] == kind).count();
    for op in &ops {
        let first =
            |text: &Value| text.as_str().and_then(|text| text.split_whitespace().next()).map(str::to_owned);
        match op["kind"].as_str() {
            Some("$") => match op["mcpConnector"].as_str() {
                Some(connector) => drop(connectors.insert(connector.to_owned())),
                None => builtins.extend(first(&op["body"])),
            },
            Some("shell") if op["policy"] == "unsafe" => drop(binaries.insert("bash".to_owned())),
            Some("shell") => {
                let argv = op["argv"][0].as_str().map(str::to_owned);
                binaries.extend(argv.or_else(|| first(&op["body"])));
            }
            _ => {}
        }
    }
    json!({
        "connectors": connectors, "builtins": builtins, "shell_binaries": binaries,
        "unsafe_shell": ops.iter().filter(|op| op["policy"] == "unsafe").count(),
        "file_writes": is("file_write"), "file_reads": is("file_read"), "notifies": is("notify"),
    })
}

fn collect<'v>(list: &'v Value, into: &mut Vec<&'v Value>) {
    for op in list.as_array().into_iter().flatten() {
        into.push(op);
        for branch in op["ifBranches"].as_array().into_iter().flatten() {
            collect(&branch["body"], into);
        }
        collect(&op["ifElseBody"], into);
        collect(&op["foreachBody"], into);
    }
}
