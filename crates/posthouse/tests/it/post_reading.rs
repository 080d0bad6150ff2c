//! Commands that read receipts and exchanges: they show only what the credential permits, for programs as
//! well as for the operator.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::post_cli::{answers, begins, dials, err, fails, out, settled, text, types};
use crate::test_server::{BINARY, TestServer};

/// The variables that a program has its credential in.
fn environment(credential: &Value) -> [(&str, &str); 2] {
    let said = |name: &str| credential[name].as_str().unwrap();
    [("POSTHOUSE_CLIENT_ID", said("client_id")), ("POSTHOUSE_CLIENT_SECRET", said("client_secret"))]
}

/// What a program reads, as JSON.
fn reads(server: &TestServer, by: &Value, words: &[&str]) -> Value {
    let output = types(server, &[&["--json"], words].concat(), None, &environment(by));
    assert!(output.status.success(), "{words:?}: {}", err(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_in_an_inbox_is_called_queued_or_kept_and_never_delivered() {
    let (server, heron) = settled();
    let words = ["notify", "heron", "hello", "--tenant", "acme"];
    let told = out(&types(&server, &words, None, &[]));
    assert!(told.contains("\n  relay  kept  ent_"), "{told}");
    let rider = dials(&server, &heron).await;
    let told = out(&types(&server, &words, None, &[]));
    assert!(told.contains("\n  relay  queued  ent_"), "{told}");
    drop(rider);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_goes_by_that_name_unless_it_gives_another() {
    let (server, heron) = settled();
    let mut rider = dials(&server, &heron).await;
    server.does(&["notify", "heron", "hello", "--tenant", "acme"]);
    let heard = rider.hears().await.event;
    assert_eq!(heard.source.chat_id.unwrap().as_str(), "post-operator");
    assert_eq!(heard.source.user_name.as_deref(), Some("operator"));
    server.does(&["wake", "heron", "hello", "--tenant", "acme"]);
    assert_eq!(rider.hears().await.event.source.user_name.as_deref(), Some("operator"));
    let asker = begins(&server, &["ask", "heron", "hello?", "--tenant", "acme"]);
    let question = rider.hears().await;
    assert_eq!(question.event.source.user_name.as_deref(), Some("operator"));
    answers(&rider, &question, "yes").await;
    assert!(asker.wait_with_output().unwrap().status.success());
    let program = server.does(&["client", "create", "--tenant", "acme"]);
    reads(&server, &program, &["notify", "heron", "hello"]);
    let name = program["client_id"].as_str();
    assert_eq!(rider.hears().await.event.source.user_name.as_deref(), name, "a program has its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connector_that_does_not_know_the_agent_is_named_and_not_everybody_blamed() {
    let (server, _) = settled();
    for verb in ["notify", "wake", "ask"] {
        let words = [verb, "heron", "hello", "--tenant", "acme", "--connector", "hoks"];
        let (code, said) = fails(&server, &words);
        assert!(code == 4 && said.contains("no connector `hoks` knows an agent `heron`"), "{verb}: {said}");
        let (code, said) = fails(&server, &[&words[..], &["--connector", "drops"]].concat());
        assert!(code == 4 && said.contains("none of the connectors hoks, drops knows"), "{verb}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_piped_to_a_wake_without_a_word_is_not_dropped_without_one() {
    let (server, _) = settled();
    let words = ["wake", "heron", "--tenant", "acme"];
    let woken = types(&server, &words, Some("the window opens\n"), &[]);
    assert!(woken.status.success() && err(&woken).contains("standard input is ignored"), "{}", err(&woken));
    for (words, piped) in [(&words[..], None), (&["wake", "heron", "-", "--tenant", "acme"], Some("now\n"))] {
        let woken = types(&server, words, piped, &[]);
        assert!(woken.status.success(), "{}", err(&woken));
        assert_eq!(err(&woken), "", "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_an_address_is_asked_for_one_and_not_for_the_operators_folder() {
    let (server, _) = settled();
    let mut command = Command::new(BINARY);
    command.current_dir(server.dir.path()).args(["notify", "heron", "hello"]).stdin(Stdio::null());
    let program = json!({ "client_id": "tenant:ten_1", "client_secret": "s" });
    let told = command.envs(environment(&program)).output().unwrap();
    let said = err(&told);
    assert!(said.contains("--url") && said.contains("POSTHOUSE_URL") && !said.contains("admin"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_reads_its_receipts_with_its_own_credential_and_is_told_when_there_are_more() {
    let (server, _) = settled();
    let otter = server.does(&["agent", "create", "otter", "--tenant", "acme"]);
    let program = server.does(&["client", "create", "--tenant", "acme"]);
    for key in ["d-1", "d-2"] {
        reads(&server, &otter, &["notify", "heron", "hello", "--idempotency-key", key]);
    }
    reads(&server, &program, &["notify", "otter", "hello", "--idempotency-key", "d-3"]);
    let sent = |by: &Value, words: &[&str]| -> Vec<String> {
        let page = reads(&server, by, &[&["receipt", "list"], words].concat());
        let items = page["items"].as_array().unwrap().iter();
        items.map(|receipt| receipt["dispatch_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(sent(&otter, &[]), ["d-2", "d-1"], "an agent's own");
    assert_eq!(sent(&program, &[]), ["d-3", "d-2", "d-1"], "all of its tenant's");
    assert_eq!(sent(&program, &["--agent", "otter", "--state", "queued"]), ["d-3"]);
    let env = environment(&program);
    let shown = types(&server, &["receipt", "show", "d-1"], None, &env);
    assert!(out(&shown).starts_with("d-1 deliver  heron through relay  queued\n"), "{}", out(&shown));
    for by in [&environment(&otter)[..], &[]] {
        let words = if by.is_empty() { &["receipt", "show", "d-4"] } else { &["receipt", "show", "d-3"] };
        let refused = types(&server, words, None, by);
        assert!(
            refused.status.code() == Some(1) && err(&refused).contains("no receipt with the dispatch id"),
            "{}",
            err(&refused)
        );
    }
    // A tenant that the operator names has its own.
    server.does(&["tenant", "create", "umbrella"]);
    assert_eq!(server.does(&["receipt", "show", "d-1"])["items"][0]["tenant"], "acme");
    let (code, said) = fails(&server, &["receipt", "show", "d-1", "--tenant", "umbrella"]);
    assert!(code == 1 && said.contains("no receipt with the dispatch id `d-1`"), "{said}");

    for env in [&env[..], &[]] {
        let first = types(&server, &["receipt", "list", "--limit", "2"], None, env);
        assert!(out(&first).contains("d-2") && !out(&first).contains("d-1"), "{}", out(&first));
        let said = err(&first);
        let (_, after) = said.split_once("--after ").unwrap_or_else(|| panic!("{said}"));
        let after = after.split_whitespace().next().unwrap();
        let rest = types(&server, &["receipt", "list", "--limit", "2", "--after", after], None, env);
        assert!(out(&rest).contains("d-1") && !out(&rest).contains("d-2"), "{}", out(&rest));
        assert_eq!(err(&rest), "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_listed_and_shown_as_they_stand_to_whom_they_concern() {
    let (server, heron) = settled();
    let mut rider = dials(&server, &heron).await;
    let program = server.does(&["client", "create", "--tenant", "acme"]);
    let env = environment(&program);
    let ask = ["ask", "heron", "well?", "--timeout", "1", "--correlation-id", "q-late"];
    assert_eq!(types(&server, &ask, None, &env).status.code(), Some(3));
    let asker =
        begins(&server, &["ask", "heron", "how many?", "--tenant", "acme", "--correlation-id", "q-1"]);
    // What nobody waits for any more may have come before it, or not at all.
    let question = loop {
        let heard = rider.hears().await;
        if text(&heard) == "how many?" {
            break heard;
        }
    };
    let as_operator = |words: &[&str]| server.does(&[&["exchange"], words, &["--tenant", "acme"]].concat());
    assert_eq!(as_operator(&["show", "q-1"])["state"], "open");
    answers(&rider, &question, "four\nor five").await;
    assert!(asker.wait_with_output().unwrap().status.success());
    let shown = as_operator(&["show", "q-1"]);
    assert_eq!((&shown["state"], &shown["content"]), (&json!("answered"), &json!("four\nor five")));
    assert_eq!(reads(&server, &program, &["exchange", "show", "q-late"])["state"], "timed_out");
    let people = out(&types(&server, &["exchange", "show", "q-1"], None, &env));
    assert!(
        people.starts_with("q-1  answered by heron") && people.ends_with("\n\nfour\nor five\n"),
        "{people}"
    );

    let states = |page: &Value| -> Vec<(String, String)> {
        let word = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| (word(item, "correlation_id"), word(item, "state"))).collect()
    };
    let all = [("q-1", "answered"), ("q-late", "timed_out")].map(|(id, state)| (id.into(), state.into()));
    assert_eq!(states(&as_operator(&["list"])), all);
    assert_eq!(states(&reads(&server, &program, &["exchange", "list"])), all);
    assert_eq!(states(&reads(&server, &heron, &["exchange", "list"])), []);
    let first = types(&server, &["exchange", "list", "--limit", "1"], None, &env);
    assert!(out(&first).contains("q-1") && err(&first).contains("--after "), "{}", err(&first));
    let (code, said) = fails(&server, &["exchange", "show", "q-9", "--tenant", "acme"]);
    assert!(code == 1 && said.contains("you have no question with the id `q-9`"), "{said}");
    let (code, said) = fails(&server, &["exchange", "list"]);
    assert!(code == 1 && said.contains("no credentials:"), "{said}");
}

/// A server made and served by one command, ended with the test.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn right_after_up_a_program_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data");
    let mut command = Command::new(BINARY);
    command.arg("--dir").arg(&folder).args(["up", "--listen", "127.0.0.1:0"]);
    let mut up = Up(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    // Held to the end: it has more to print than this line.
    let mut printed = BufReader::new(up.0.stdout.take().unwrap());
    let mut ready = String::new();
    printed.read_line(&mut ready).unwrap();
    assert!(ready.contains("posthouse is ready at"), "{ready}");
    let mut command = Command::new(BINARY);
    command.arg("--dir").arg(&folder).args(["ask", "sample", "are you there?", "--tenant", "home"]);
    let asked = command.stdin(Stdio::null()).output().unwrap();
    assert!(out(&asked).starts_with("Hello operator! You said: “are you there?”.\n"), "{asked:?}");
}
