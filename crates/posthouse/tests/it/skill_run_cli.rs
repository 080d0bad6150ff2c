//! `posthouse skill run`: files and stored skills on this machine, the approval gate, cancelling, and the server.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;

use crate::skill_author_cli::Author;
use crate::skill_cli::{PRIVATE_KEY, PUBLIC_KEY};
use crate::test_server::TestServer;

const HELLO: &str = "# Skill: hello\n# Status: Approved\n# Vars: WHO=world\n# Returns: LINE\ngo:\n    \
    $set LINE = \"hello ${WHO}\"\n    emit(text=\"${LINE}\")\ndefault: go\n";
const PAGE: &str =
    "# Skill: page\n# Vars: WHO=world\n\nDear ${WHO},\n\ngo:\n    emit(text=\"not printed\")\ndefault: go\n";

/// A skill of one target with these operations.
fn skill(header: &str, ops: &str) -> String {
    format!("# Skill: s\n{header}go:\n{ops}\ndefault: go\n")
}

fn error(author: &Author, words: &[&str]) -> (i32, String) {
    let output = author.runs(words);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_file_runs_without_a_server_and_prints_its_template_or_what_it_emitted() {
    let failing = skill("", "    emit(text=\"before\")\n    shell(command=\"ls\")");
    let author =
        Author::new(&[("hello.skill.md", HELLO), ("page.skill.md", PAGE), ("fails.skill.md", &failing)]);
    assert_eq!(author.prints(&["skill", "run", "hello.skill.md"]), (0, "hello world\n".to_owned()));
    let named = author.prints(&["skill", "run", "page.skill.md", "--input", "WHO=Ann"]);
    assert_eq!(named, (0, "Dear Ann,\n".to_owned()));
    let (code, result) = author.json(&["skill", "run", "hello.skill.md", "--json", "--input", "WHO=Ann"]);
    assert_eq!((code, &result["final_vars"]), (0, &json!({ "LINE": "hello Ann" })));
    // The output before the error is printed, and the error names its place and its class.
    assert_eq!(author.prints(&["skill", "run", "fails.skill.md"]), (1, "before\n".to_owned()));
    let (_, said) = error(&author, &["skill", "run", "fails.skill.md"]);
    assert!(said.contains("[go/shell] (ShellBinaryNotAllowedError)"), "{said}");
    let shown = author.prints(&["skill", "run", "fails.skill.md", "--mechanical"]);
    assert!(shown.0 == 0 && shown.1.contains("Would run shell: ls"), "{shown:?}");
}

#[test]
fn mistakes_are_shown_as_lint_shows_them_and_nothing_runs() {
    let wrong = skill("", "    emit(text=\"${HARBOR}\")");
    let tool = skill("", "    $ weather.today -> R");
    let author =
        Author::new(&[("wrong.skill.md", &wrong), ("tool.skill.md", &tool), ("page.skill.md", PAGE)]);
    let (code, said) = error(&author, &["skill", "run", "wrong.skill.md"]);
    for part in ["error[undeclared-var]", "wrong.skill.md:3:16", "^^^^^^^^^", "wrong.skill.md has 1 error"] {
        assert!(code == 1 && said.contains(part), "{part}: {said}");
    }
    // A tool that is not configured is known before the run.
    let (code, said) = error(&author, &["skill", "run", "tool.skill.md"]);
    assert!(code == 1 && said.contains("error[unknown-connector]"), "{said}");
    let (code, result) = author.json(&["skill", "run", "wrong.skill.md", "--json"]);
    assert_eq!((code, &result["errors"][0]["class"]), (1, &json!("LintFailureError")));
    let (code, said) = error(&author, &["skill", "run", "ghost"]);
    assert!(code == 1 && said.contains("there is no file ghost and no skill of this name"), "{said}");
}

#[test]
fn the_home_folder_gives_skills_data_limits_and_secrets() {
    let parent = skill(
        "# Status: Approved\n# Autonomous: true\n# Requires: secret.KEY\n",
        "    $ execute_skill name=\"hello\" WHO=\"child\" -> C\n    emit(text=\"${C.LINE}\")\n    \
             $ data_write content=\"tide at noon\" -> W\n    $ data_read query=\"noon\" -> R\n    \
             emit(text=\"${R.items|length} found\")\n    \
             shell(argv=[\"echo\", \"{{secret.KEY}}\"]) -> S\n    emit(text=\"${S}\")\n    \
             shell(command=\"env\") -> E\n    emit(text=\"${E}\")\n    file_write(path=\"out/note\", content=\"kept\")",
    );
    let settings = "SKILLSCRIPT_SHELL_ALLOWLIST=echo,env\nSKILLSCRIPT_FS_ALLOWLIST=out\n\
                    SKILLSCRIPT_SECRET_KEY=s3cret\nFROM_FILE=yes\n";
    let author = Author::new(&[
        ("srv/skills/hello.skill.md", HELLO),
        ("srv/skills/parent.skill.md", &parent),
        ("srv/.env", settings),
    ]);
    let (code, text) = author.prints(&["skill", "run", "parent", "--home", "srv"]);
    assert!(code == 0 && text.starts_with("hello child\n1 found\ns3cret\n"), "{text}");
    // Commands get the environment and `.env`, without the secrets.
    assert!(text.contains("FROM_FILE=yes\n") && !text.contains("SKILLSCRIPT_SECRET_KEY"), "{text}");
    assert_eq!(author.text("out/note"), "kept");
    assert!(author.path("srv/data.db").exists());
    // A variable of the environment wins over the file.
    let mut command = author.command(&["skill", "run", "parent", "--home", "srv"]);
    let output = command.env("SKILLSCRIPT_SHELL_ALLOWLIST", "").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("ShellBinaryNotAllowedError"));
    // What no skill uses is not created.
    let author = Author::new(&[("home/skills/hello.skill.md", HELLO)]);
    assert_eq!(author.prints(&["skill", "run", "hello"]), (0, "hello world\n".to_owned()));
    assert!(!author.path("home/data.db").exists());
}

#[test]
fn tools_come_from_connectors_json_of_the_home_or_from_the_named_file() {
    let server = "while read -r line; do\n  id=$(printf '%s' \"$line\" | sed -n 's/.*\"id\":\\([0-9]*\\).*/\\1/p')\n  \
        case $line in\n    *'\"initialize\"'*) echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":{}}\" ;;\n    \
        *'\"tools/call\"'*) echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$id,\\\"result\\\":{\\\"content\\\":\
        [{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"$GREETING\\\"}]}}\" ;;\n  esac\ndone\n";
    let file = |greeting: &str| {
        let config = json!({ "command": "sh", "args": ["server.sh"], "framing": "newline",
                             "env": { "GREETING": greeting } });
        json!({ "svc": { "class": "RemoteMcpConnector", "config": config } }).to_string()
    };
    let author = Author::new(&[
        ("call.skill.md", &skill("", "    $ svc.greet -> R\n    emit(text=\"${R}\")")),
        ("server.sh", server),
        ("home/connectors.json", &file("from home")),
        ("home/.env", "WORD=from the file\n"),
        ("other.json", &file("${WORD}")),
    ]);
    assert_eq!(author.prints(&["skill", "run", "call.skill.md"]), (0, "from home\n".to_owned()));
    let words = ["skill", "run", "call.skill.md", "--connectors", "other.json"];
    assert_eq!(author.prints(&words), (0, "from the file\n".to_owned()));
    let (code, said) = error(&author, &["skill", "run", "call.skill.md", "--connectors", "absent.json"]);
    assert!(code == 1 && said.contains("cannot read absent.json"), "{said}");
}

#[test]
fn in_secured_mode_an_unapproved_or_changed_skill_does_not_run_or_go_into_another_one() {
    let data =
        "# Skill: rules\n# Status: Approved\n# Type: data\ngo:\n    emit(text=\"be kind\")\ndefault: go\n";
    let caller = "# Skill: day\n# Status: Approved\ngo:\n    inline(skill=\"rules\")\ndefault: go\n";
    let author = Author::new(&[
        ("home/skills/hello.skill.md", HELLO),
        ("home/skills/rules.skill.md", data),
        ("home/skills/day.skill.md", caller),
        ("hello.skill.md", HELLO),
        ("home/.env", "SKILLSCRIPT_SECURED_MODE=true\n"),
        ("approval.key", PRIVATE_KEY),
        ("approval.pub", PUBLIC_KEY),
    ]);
    author.keep_private("approval.key");
    let keys = [
        ("SKILLSCRIPT_APPROVAL_KEY_FILE", "approval.key"),
        ("SKILLSCRIPT_APPROVAL_PUBLIC_KEY_FILE", "approval.pub"),
    ];
    let run = |words: &[&str]| {
        let output = author.command(words).envs(keys).stdin(Stdio::null()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    for words in
        [["skill", "run", "hello"], ["skill", "run", "hello.skill.md"], ["skillfile", "execute", "hello"]]
    {
        let (code, said) = run(&words);
        assert!(code == 1 && said.contains("'hello") && said.contains("refused"), "{words:?}: {said}");
    }
    assert_eq!(run(&["skillfile", "approve", "hello"]).0, 0);
    assert_eq!(run(&["skill", "run", "hello"]), (0, "hello world\n".to_owned()));
    // A changed text no longer has its signature.
    let changed = author.text("home/skills/hello.skill.md").replace("hello ${WHO}", "bye ${WHO}");
    author.write("home/skills/hello.skill.md", &changed);
    let (code, said) = run(&["skill", "run", "hello"]);
    assert!(code == 1 && said.contains("refused"), "{said}");
    // A data skill that is not approved goes into no text, neither to run nor to read.
    assert_eq!(run(&["skillfile", "approve", "day"]).0, 0);
    let compile = ["skill", "compile", "home/skills/day.skill.md"];
    for words in [&["skill", "run", "day"][..], &compile, &["skillfile", "compile", "day"]] {
        let (code, said) = run(words);
        assert!(code == 1 && said.contains("rules") && !said.contains("be kind"), "{words:?}: {said}");
    }
    assert_eq!(run(&["skillfile", "approve", "rules"]).0, 0);
    assert_eq!(run(&["skill", "run", "day"]), (0, "be kind\n".to_owned()));
    assert!(run(&compile).1.contains("be kind"));
}

#[test]
fn ctrl_c_cancels_the_run_and_kills_its_commands() {
    let waits = skill("", "    shell(argv=[\"sh\", \"-c\", \"echo $$ > process; sleep 1000; true\"])");
    let author = Author::new(&[("waits.skill.md", &waits)]);
    let mut command = author.command(&["skill", "run", "waits.skill.md"]);
    let mut running =
        command.env("SKILLSCRIPT_SHELL_ALLOWLIST", "sh").stderr(Stdio::piped()).spawn().unwrap();
    let shell = loop {
        match std::fs::read_to_string(author.path("process")) {
            Ok(text) if text.ends_with('\n') => break Pid::from_raw(text.trim().parse().unwrap()).unwrap(),
            _ => std::thread::yield_now(),
        }
        assert!(running.try_wait().unwrap().is_none(), "the run has ended");
    };
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the run was cancelled"));
    while test_kill_process(shell).is_ok() {
        std::thread::yield_now();
    }
}

#[test]
fn watch_runs_the_file_again_when_it_changes() {
    let author = Author::new(&[("hello.skill.md", HELLO)]);
    let mut command = author.command(&["skill", "run", "hello.skill.md", "--watch"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "hello world"));
    author.write("hello.skill.md", &HELLO.replace("WHO=world", "WHO=everybody"));
    assert!(lines.any(|line| line == "hello everybody"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_skill_runs_on_the_server_that_is_named_and_its_run_can_be_replayed() {
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let file = server.secret_file("hello.skill.md", HELLO);
    server.does(&["skill", "write", "hello", &file, "--tenant", "acme"]);
    let ran = server.does(&["skill", "run", "hello", "--input", "WHO=Ann", "--tenant", "acme"]);
    assert_eq!(
        (&ran["transcript"], &ran["final_vars"]["LINE"]),
        (&json!(["hello Ann"]), &json!("hello Ann"))
    );
    let runs = server.does(&["run", "list", "--tenant", "acme"]);
    let run = &runs["items"][0];
    assert_eq!((&run["skill"], &run["state"]), (&json!("hello"), &json!("succeeded")));
    // The replay shows what the skill does now, with the defaults of its variables.
    let id = run["id"].as_str().unwrap();
    let replayed = server.does(&["run", "replay", id, "--tenant", "acme"]);
    assert_eq!(
        (&replayed["replayed_trace_id"], &replayed["result"]["mechanical"]),
        (&json!(id), &json!(true))
    );
    assert_eq!(replayed["result"]["transcript"], json!(["hello world"]), "{replayed}");
    assert_eq!(replayed["replay_skill_version"], run["version"], "{replayed}");
    // A skill that may not run is a result, and a failure of the command.
    let draft = server.secret_file("draft.skill.md", &HELLO.replace("Approved", "Draft"));
    server.does(&["skill", "write", "draft", &draft, "--tenant", "acme"]);
    let refused = server.tries(&["skill", "run", "draft", "--tenant", "acme"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("ApprovalRejectedError"));
}
