use serde_json::json;

use super::*;

fn touches(body: &str) -> serde_json::Value {
    let mut shown = json!(footprint(body));
    shown.as_object_mut().unwrap().retain(|_, value| *value != json!([]) && *value != json!(0));
    shown
}

#[test]
fn a_footprint_names_connectors_tools_programs_and_files() {
    let body = "\
# Skill: a
go:
    $ tools.echo x=1 -> R
    $ data_write content=\"x\"
    execute_skill(name=\"b\")
    shell(command=\"ls -l\")
    shell(argv=[\"git\", \"status\"])
    shell(command=\"rm -rf /\", unsafe=true)
    file_write(path=\"/x\", content=\"a, b)\")
    if ${R}:
        foreach I in ${L}:
            notify(agent=\"desk\", message=\"x\")
    else:
        file_read(path=\"/y\") -> F
default: go
";
    assert_eq!(
        touches(body),
        json!({
            "connectors": ["tools"], "builtins": ["data_write", "execute_skill"],
            "shell_binaries": ["bash", "git", "ls"], "unsafe_shell": 1, "file_writes": 1, "file_reads": 1,
            "notifies": 1,
        })
    );
}

#[test]
fn error_blocks_count_and_calls_may_span_lines() {
    let body = "go:\n    emit(text=\"x\")\nelse:\n    shell(\n        command=\"curl x\"\n    )\n";
    assert_eq!(touches(body), json!({ "shell_binaries": ["curl"] }));
}

#[test]
fn text_that_is_no_operation_touches_nothing() {
    for body in [
        "    shell(command=\"ls\")\n",
        "hello\n    shell(command=\"ls\")\n",
        "go:\n    emit(text=\"\"\"\n    shell(command=\"ls\")\n\"\"\")\n",
        "go:\n    # shell(command=\"ls\")\n",
        "go:\n    while x:\n        shell(command=\"ls\")\n",
        "go:\n    shell(command=\"ls\"\n",
        "go:\n    shell(argv=[], command=\"ls\")\n",
    ] {
        assert_eq!(touches(body), json!({}), "{body}");
    }
}

#[test]
fn a_target_that_is_declared_again_replaces_the_first() {
    let body = "go:\n    shell(command=\"ls\")\ngo:\n    shell(command=\"pwd\")\n";
    assert_eq!(touches(body), json!({ "shell_binaries": ["pwd"] }));
}
