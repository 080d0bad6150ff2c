//! The commands of `posthouse skillfile` that run, approve, delete and look at recorded runs.

use std::process::Stdio;

use serde_json::json;

use crate::skill_author_cli::Author;
use crate::skill_cli::{PRIVATE_KEY, PUBLIC_KEY};

const TIDE: &str = "# Skill: tide\n# Status: Approved\n# Vars: HARBOUR=Bergen\ngo:\n    \
    shell(command=\"date -u\", approved=\"x\") -> D (fallback: none)\n    emit(text=\"tide at ${HARBOUR}\")\ndefault: go\n";

#[test]
fn init_creates_a_home_whose_examples_run_and_changes_nothing_the_second_time() {
    let author = Author::new(&[]);
    let (code, text) = author.prints(&["skillfile", "init"]);
    assert!(code == 0 && text.contains("Initialized") && text.contains("Next:"), "{text}");
    assert_eq!(author.prints(&["skillfile", "execute", "hello-world"]), (0, "Hello, world!\n".to_owned()));
    let (code, text) = author.prints(&["skillfile", "execute", "data-store-roundtrip"]);
    assert!(code == 0 && text.ends_with("found 1 entries\n"), "{text}");
    let (code, text) = author.prints(&["skillfile", "execute", "skill-store-roundtrip"]);
    assert!(code == 0 && text.starts_with("wrote hello-child as Draft"), "{text}");
    author.write("home/connectors.json", "{}");
    author.write("home/skills/hello-world.skill.md", "# Skill: hello-world\n\nmine\n");
    assert_eq!(author.prints(&["skillfile", "init"]).0, 0);
    assert_eq!(author.text("home/connectors.json"), "{}");
    assert_eq!(author.prints(&["skillfile", "execute", "hello-world"]).1, "mine\n");
}

#[test]
fn init_in_secured_mode_creates_the_keys_and_signs_the_examples() {
    let author = Author::new(&[("home/.env", "SKILLSCRIPT_SECURED_MODE=true\n")]);
    let run = |words: &[&str]| author.command(words).env("HOME", author.path("me")).output().unwrap();
    assert!(run(&["skillfile", "init"]).status.success());
    assert!(
        author.text("me/.config/skillscript/approval.key").starts_with("-----BEGIN PRIVATE KEY-----\nMC4C")
    );
    assert!(author.text("home/skills/hello-world.skill.md").contains("# Status: Approved v3:"));
    let ran = run(&["skillfile", "execute", "hello-world"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "Hello, world!\n");
}

#[test]
fn execute_has_no_connectors_and_records_a_trace_that_fires_health_and_replay_read() {
    let calls = "# Skill: calls\ngo:\n    $ svc.greet -> R\ndefault: go\n";
    let author = Author::new(&[
        ("home/skills/tide.skill.md", TIDE),
        (
            "home/connectors.json",
            r#"{"svc":{"class":"HttpMcpConnector","config":{"endpoint":"http://127.0.0.1:9/"}}}"#,
        ),
        ("calls.skill.md", calls),
    ]);
    let said = author.runs(&["skillfile", "execute", "calls.skill.md"]);
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(1) && text.contains("unknown-connector"), "{text}");
    let words = ["skillfile", "execute", "tide", "--input", "HARBOUR=Oslo", "--trace", "on"];
    assert_eq!(author.prints(&words), (0, "tide at Oslo\n".to_owned()));
    assert_eq!(author.prints(&["skillfile", "execute", "tide", "--trace", "off"]).0, 0);
    let (code, fires) = author.json(&["skillfile", "fires", "tide"]);
    let record = &fires[0];
    assert_eq!((code, fires.as_array().unwrap().len(), &record["version"]), (0, 1, &json!(1)));
    assert_eq!((&record["skill_name"], &record["emissions"]), (&json!("tide"), &json!(["tide at Oslo"])));
    assert_eq!(record["trigger"]["source"], "inline");
    let id = record["trace_id"].as_str().unwrap();
    assert!(author.path(&format!("home/traces/tide/{id}.json")).exists());
    let human = author.prints(&["skillfile", "fires", "tide", "--human", "--limit", "1"]).1;
    assert!(human.contains(id) && human.contains("  ok  "), "{human}");
    let (code, replayed) = author.json(&["skillfile", "replay", id]);
    assert_eq!((code, &replayed["replayed_trace_id"]), (0, &json!(id)));
    assert_eq!(replayed["result"]["finalVars"]["HARBOUR"], "Bergen");
    assert!(replayed["result"]["emissions"][0].as_str().unwrap().starts_with("Would run shell: date -u"));
    let (_, health) = author.json(&["skillfile", "health"]);
    let tide = &health["perSkill"]["tide"];
    assert_eq!(
        (&health["totalFires"], &tide["successCount"], &tide["successRate"]),
        (&json!(1), &json!(1), &json!(1.0))
    );
    let none = author.json(&["skillfile", "health", "--since-ms", "9000000000000000"]).1;
    assert_eq!(none["totalFires"], 0);
    assert_eq!(author.prints(&["skillfile", "fires", "ghost"]), (0, "[]\n".to_owned()));
    std::fs::remove_file(author.path("home/skills/tide.skill.md")).unwrap();
    for (words, code) in [
        (&["skillfile", "replay", id][..], 66),
        (&["skillfile", "replay", "../tide/x"], 66),
        (&["skillfile", "replay", id, "--connectors", "recorded"], 64),
        (&["skillfile", "execute", "tide"], 1),
        (&["skillfile", "execute"], 64),
        (&["skillfile", "serve", "--port", "7878"], 1),
        (&["skillfile", "dashboard"], 1),
    ] {
        assert_eq!(author.runs(words).status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_file_runs_in_secured_mode_without_effects() {
    let text = "# Skill: f\n# Status: Approved\ngo:\n    emit(text=\"ran\")\n    \
                file_write(path=\"note\", content=\"x\", approved=\"x\")\ndefault: go\n";
    let author = Author::new(&[("f.skill.md", text)]);
    let mut command = author.command(&["skillfile", "execute", "f.skill.md"]);
    let settings =
        [("SKILLSCRIPT_SECURED_MODE", "true"), ("SKILLSCRIPT_FS_ALLOWLIST", "."), ("HOME", "/nonexistent")];
    let output = command.envs(settings).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ran\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("SecuredModeEffectError"));
    assert!(!author.path("note").exists());
}

#[test]
fn approve_reapprove_delete_and_shell_audit_work_on_the_stored_skills() {
    let user = "# Skill: user\n# Status: Approved\ngo:\n    execute_skill(name=\"tide\") -> R\n    \
                shell(command=\"ls | wc\", unsafe=true)\ndefault: go\n";
    let author = Author::new(&[
        ("home/skills/tide.skill.md", TIDE),
        ("home/skills/user.skill.md", user),
        ("approval.key", PRIVATE_KEY),
        ("approval.pub", PUBLIC_KEY),
    ]);
    author.keep_private("approval.key");
    let key = ("SKILLSCRIPT_APPROVAL_KEY_FILE", "approval.key");
    let public = ("SKILLSCRIPT_APPROVAL_PUBLIC_KEY_FILE", "approval.pub");
    let run = |words: &[&str], keys: &[(&str, &str)]| {
        let output = author.command(words).envs(keys.iter().copied()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let none = ("HOME", "/nonexistent");
    assert_eq!(run(&["skillfile", "approve", "tide"], &[none]).0, 66, "there is no key");
    assert_eq!(run(&["skillfile", "approve", "ghost"], &[key, public]).0, 66);
    assert_eq!(run(&["skillfile", "reapprove"], &[none]).0, 66);
    let (code, text) = run(&["skillfile", "approve", "tide"], &[key, public]);
    assert!(
        code == 0 && text.contains("shell(command=\"date -u\""),
        "it is shown before it is signed: {text}"
    );
    assert!(author.text("home/skills/tide.skill.md").contains("# Status: Approved v3:"));
    let (code, text) = run(&["skillfile", "reapprove"], &[key, public]);
    assert!(
        code == 0 && text.contains("1 of 2") && text.contains("  user\n") && !text.contains("  tide\n"),
        "{text}"
    );
    assert!(!author.text("home/skills/user.skill.md").contains("v3:"));
    assert_eq!(run(&["skillfile", "reapprove", "--apply"], &[key, public]).0, 0);
    assert!(author.text("home/skills/user.skill.md").contains("v3:"));
    let (_, text) = run(&["skillfile", "reapprove"], &[public]);
    assert!(text.contains("all have a valid signature"), "{text}");

    let (_, audit) = author.json(&["skillfile", "shell-audit", "--json"]);
    assert_eq!((&audit["skills_scanned"], &audit["allowlist_value"]), (&json!(2), &json!("bash,date")));
    assert_eq!(audit["binaries"][1], json!({ "binary": "date", "used_by": ["tide"] }));
    let text = author.prints(&["skillfile", "shell-audit"]).1;
    assert!(text.contains("SKILLSCRIPT_SHELL_ALLOWLIST=bash,date"), "{text}");

    assert_eq!(author.prints(&["skillfile", "delete", "tide"]).0, 1, "another skill uses it");
    assert!(author.path("home/skills/tide.skill.md").exists());
    assert_eq!(author.prints(&["skillfile", "delete", "tide", "--force"]).0, 0);
    assert!(!author.path("home/skills/tide.skill.md").exists());
    assert_eq!(author.prints(&["skillfile", "delete", "tide"]).0, 66);
}
