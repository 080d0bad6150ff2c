//! Commands that write to agents: `notify`, `wake` and `ask`, with receipts, connectors and aliases.

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use posthouse_agent::Inbound;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, CorrelationId};
use serde_json::{Value, json};

use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::{BINARY, TestServer};

/// A command as people type it, with what is piped into it.
pub fn types(server: &TestServer, words: &[&str], piped: Option<&str>, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("--dir").arg(server.folder()).args(words).envs(env.iter().copied());
    command.stdin(if piped.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let Some(text) = piped {
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }
    child.wait_with_output().unwrap()
}

/// A command that goes on while others act.
pub fn begins(server: &TestServer, words: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.arg("--dir").arg(server.folder()).args(words).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The exit code and what was said about it.
pub fn fails(server: &TestServer, words: &[&str]) -> (i32, String) {
    let output = types(server, words, None, &[]);
    (output.status.code().unwrap(), err(&output))
}

pub fn settled() -> (TestServer, Value) {
    provide_crypto();
    let server = TestServer::open(&[]);
    server.does(&["tenant", "create", "acme"]);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    (server, heron)
}

pub async fn dials(server: &TestServer, agent: &Value) -> Rider {
    Rider::dial(server, agent, &[("post", "post")]).await
}

/// The text of a program's message, without the first line that the server adds for agents without the SDK.
pub fn text(inbound: &Inbound) -> String {
    let posted = inbound.event.post.as_ref().unwrap();
    posted.unwrap(&inbound.event.text).to_owned()
}

/// Nothing else is on its way to heron: an agent hears its messages in order, and a marker that is sent now is next.
pub async fn hears_nothing_more(server: &TestServer, rider: &mut Rider) {
    server.does(&["notify", "heron", "the marker", "--tenant", "acme"]);
    assert_eq!(text(&rider.hears().await), "the marker", "something else was on its way");
}

/// Answers the question that was heard, however long the server takes to come back.
pub async fn answers(rider: &Rider, question: &Inbound, content: &str) {
    let meta = question.event.post.as_ref().unwrap().meta.as_ref().unwrap();
    let correlation: CorrelationId = meta.correlation_id.clone().unwrap();
    let answer = Action::Send {
        chat_id: question.event.source.chat_id.clone().unwrap(),
        content: content.to_owned(),
        reply_to: None,
        metadata: Metadata { correlation_id: Some(correlation), ..Metadata::default() },
    };
    let taken = async {
        while !rider.asks("post", "post", answer.clone()).await.success {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, taken).await.expect("the answer was not taken");
}

/// Until the one receipt of a dispatch says so.
async fn until_state(server: &TestServer, dispatch: &str, state: &str) -> Value {
    let reached = async {
        loop {
            let shown = server.does(&["receipt", "show", dispatch]);
            if shown["items"][0]["state"] == state {
                return shown;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.expect("the receipt never got so far")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_told_from_the_line_or_from_a_pipe_and_followed_to_its_end() {
    let (server, heron) = settled();
    let mut rider = dials(&server, &heron).await;
    let sent = server.does(&["notify", "heron", "the build is green", "--tenant", "acme", "--from", "ci"]);
    assert_eq!((&sent["agent"], &sent["dispatched"][0]["connector"]), (&json!("heron"), &json!("relay")));
    assert_eq!(sent["dispatched"][0]["ok"], true);
    let heard = rider.hears().await;
    assert_eq!(text(&heard), "the build is green");
    let meta = serde_json::to_value(heard.event.post.as_ref().unwrap().meta.as_ref().unwrap()).unwrap();
    assert_eq!(meta["origin"]["trigger_kind"], "cli");
    assert_eq!(meta["origin"]["skill_name"], "ci");

    let dispatch = sent["dispatch_id"].as_str().unwrap();
    let shown = until_state(&server, dispatch, "acknowledged").await;
    assert_eq!(
        (&shown["items"][0]["tenant"], &shown["items"][0]["agent_id"]),
        (&json!("acme"), &json!("heron"))
    );
    let trace = out(&types(&server, &["message", "trace", dispatch], None, &[]));
    for step in ["emitted", "accepted", "acknowledged", dispatch] {
        assert!(trace.contains(step), "{trace}");
    }
    let people = out(&types(&server, &["receipt", "show", dispatch], None, &[]));
    assert!(people.contains("heron of acme through relay  acknowledged"), "{people}");

    for words in [&["notify", "heron", "-", "--tenant", "acme"][..], &["notify", "heron", "--tenant", "acme"]]
    {
        let told = types(&server, words, Some("line one\n-line two;\n"), &[]);
        assert!(told.status.success(), "{}", err(&told));
        assert_eq!(text(&rider.hears().await), "line one\n-line two;");
    }
    let (code, words) = fails(&server, &["notify", "heron", "--tenant", "acme"]);
    assert!(code == 1 && words.contains("no text:"), "{words}");
    server.does(&["notify", "heron", "-5 degrees", "--tenant", "acme"]);
    assert_eq!(text(&rider.hears().await), "-5 degrees");
    let (code, words) = fails(&server, &["notify", "heron", "--tennant=acme"]);
    assert!(code == 2 && words.contains("no such option"), "{words}");
    hears_nothing_more(&server, &mut rider).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_again_is_the_same_message_again() {
    let (server, heron) = settled();
    let words = ["notify", "heron", "once", "--tenant", "acme", "--idempotency-key", "release-7"];
    let (first, again) = (server.does(&words), server.does(&words));
    assert_eq!(first["dispatch_id"], "release-7");
    assert_eq!(
        first["dispatched"][0]["receipt"]["delivery_id"],
        again["dispatched"][0]["receipt"]["delivery_id"]
    );
    let mut rider = dials(&server, &heron).await;
    assert_eq!(text(&rider.hears().await), "once");
    until_state(&server, "release-7", "acknowledged").await;
    hears_nothing_more(&server, &mut rider).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_says_whether_it_woke_and_may_be_put_off() {
    let (server, heron) = settled();
    let absent = server.does(&["wake", "heron", "now", "--tenant", "acme"]);
    assert_eq!(absent["woken"], false);
    let mut rider = dials(&server, &heron).await;
    assert_eq!(text(&rider.hears().await), "now");
    let woken = server.does(&["wake", "heron@deploys", "look", "--tenant", "acme", "--wait", "60"]);
    assert_eq!((&woken["woken"], &woken["dispatched"][0]["route"]), (&json!(true), &json!("wake")));
    assert_eq!(rider.hears().await.event.source.chat_id.unwrap().as_str(), "post-deploys");
    let later = server.does(&["wake", "heron", "later", "--tenant", "acme", "--when", "+1h"]);
    assert_eq!(later["woken"], false);
    let waiting = server.does(&["receipt", "list", "--tenant", "acme", "--state", "scheduled"]);
    assert_eq!(waiting["items"][0]["dispatch_id"], later["dispatch_id"]);
    let (code, words) = fails(&server, &["wake", "heron", "--tenant", "acme", "--when", "tomorrow"]);
    assert!(code == 1 && words.contains("`tomorrow` is not a time"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_needs_no_text_and_reads_what_is_piped_only_when_told_to() {
    let (server, heron) = settled();
    let mut command = Command::new(BINARY);
    command.arg("--dir").arg(server.folder()).args(["wake", "heron", "--tenant", "acme"]);
    let mut waker = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    // Nobody ever writes into that pipe, and nobody closes it while the command runs.
    let _held = waker.stdin.take();
    assert!(waker.wait().unwrap().success());
    let mut rider = dials(&server, &heron).await;
    assert_eq!(text(&rider.hears().await), "");
    for (words, piped, heard) in
        [(["wake", "heron", "-"], "look\n", "look"), (["wake", "heron", "-5 degrees"], "no", "-5 degrees")]
    {
        let woken = types(&server, &[&words[..], &["--tenant", "acme"]].concat(), Some(piped), &[]);
        assert!(woken.status.success(), "{}", err(&woken));
        assert_eq!(text(&rider.hears().await), heard);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_to_a_question_that_failed_hears_why() {
    provide_crypto();
    let drops = tempfile::tempdir().unwrap();
    let shelf = drops.path().join("shelf");
    std::fs::create_dir(&shelf).unwrap();
    let server = TestServer::open(&[("POSTHOUSE_POST__DROP_DIRS", drops.path().to_str().unwrap())]);
    server.does(&["tenant", "create", "acme"]);
    let settings = server.secret_file("drops.json", &json!({ "dirs": { "clerk": shelf } }).to_string());
    let kind = ["--kind", "file-drop", "--settings", &settings];
    server.does(&[&["connector", "create", "drops", "--tenant", "acme"][..], &kind].concat());
    // The server follows no link, so there is nothing to wait for.
    std::fs::remove_dir(&shelf).unwrap();
    std::os::unix::fs::symlink("/tmp", &shelf).unwrap();
    let asked = ["ask", "clerk", "how many?", "--tenant", "acme", "--correlation-id", "q-1"];
    for words in [&asked[..], &["ask", "--attach", "q-1", "--tenant", "acme"]] {
        let (code, said) = fails(&server, words);
        assert!(code == 1 && said.contains("symbolic links are not followed"), "{code}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_printed_bare_and_who_does_not_answer_has_a_code_of_its_own() {
    let (server, heron) = settled();
    let mut rider = dials(&server, &heron).await;
    let asker = begins(&server, &["ask", "heron", "how many?", "--tenant", "acme"]);
    let question = rider.hears().await;
    assert_eq!(text(&question), "how many?");
    answers(&rider, &question, "{\"open\": 4}").await;
    let printed = asker.wait_with_output().unwrap();
    assert_eq!(
        (out(&printed), printed.status.code()),
        ("{\"open\": 4}\n".to_owned(), Some(0)),
        "{}",
        err(&printed)
    );

    let (code, words) = fails(&server, &["ask", "heron", "anybody?", "--tenant", "acme", "--timeout", "1"]);
    assert!(code == 3 && words.contains("no answer within 1000 ms"), "{code}: {words}");
    for verb in ["ask", "notify", "wake"] {
        let (code, words) = fails(&server, &[verb, "stork", "hello", "--tenant", "acme"]);
        assert!(code == 4 && words.contains("unknown agent `stork`"), "{verb} {code}: {words}");
    }
    let (code, words) = fails(&server, &["ask", "heron@desk", "hello", "--tenant", "acme"]);
    assert!(code == 1 && words.contains("not with a session"), "{code}: {words}");
    let (code, words) = fails(&server, &["ask", "--attach", "q-unheard-of", "--tenant", "acme"]);
    assert!(code == 1 && words.contains("`q-unheard-of`"), "{code}: {words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asked_waits_on_over_a_kill_of_the_server_or_attaches_again() {
    let (mut server, heron) = settled();
    let mut rider = dials(&server, &heron).await;
    let words = ["--json", "ask", "heron", "still there?", "--tenant", "acme", "--timeout", "60"];
    let asker = begins(&server, &[&words[..], &["--correlation-id", "q-1"]].concat());
    let question = rider.hears().await;
    server.kill();
    server.start();
    answers(&rider, &question, "yes").await;
    let heard = asker.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&heard.stdout).unwrap_or_else(|_| panic!("{}", err(&heard)));
    assert_eq!((&answer["content"], &answer["correlation_id"]), (&json!("yes"), &json!("q-1")));
    assert_eq!(server.does(&["ask", "--attach", "q-1", "--tenant", "acme"]), answer);
    // The question is its asker's own.
    server.does(&["tenant", "create", "umbrella"]);
    let (code, words) = fails(&server, &["ask", "--attach", "q-1", "--tenant", "umbrella"]);
    assert!(code == 1 && words.contains("you have no question"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_speaks_with_its_own_credential_wherever_that_is_kept() {
    let (server, heron) = settled();
    let mut rider = dials(&server, &heron).await;
    let credential = server.does(&["client", "create", "--tenant", "acme"]);
    let (id, secret) =
        (credential["client_id"].as_str().unwrap(), credential["client_secret"].as_str().unwrap());
    let file = server.secret_file("client-secret", &format!("{secret}\n"));
    let words = ["notify", "heron", "hello"];
    // The admin token is neither needed nor used.
    let url = ("POSTHOUSE_URL", server.url.as_str());
    for env in [
        vec![("POSTHOUSE_CLIENT_ID", id), ("POSTHOUSE_CLIENT_SECRET", secret)],
        vec![("POSTHOUSE_CLIENT_ID", id), ("POSTHOUSE_CLIENT_SECRET_FILE", file.as_str())],
    ] {
        let mut command = Command::new(BINARY);
        command.current_dir(server.dir.path()).args(words).envs(env).envs([url]);
        let told = command.stdin(Stdio::null()).output().unwrap();
        assert!(told.status.success(), "{}", err(&told));
        assert_eq!(text(&rider.hears().await), "hello");
    }
    let flags = ["--client-id", id, "--client-secret-file", &file];
    server.does(&[&words[..], &flags].concat());
    rider.hears().await;

    let wrong = types(
        &server,
        &words,
        None,
        &[("POSTHOUSE_CLIENT_ID", id), ("POSTHOUSE_CLIENT_SECRET", "canary-wrong")],
    );
    assert_eq!(wrong.status.code(), Some(1));
    assert!(err(&wrong).contains("rejects the secret"), "{}", err(&wrong));
    assert!(!err(&wrong).contains("canary"), "{}", err(&wrong));
    let (code, said) = fails(&server, &words);
    assert!(code == 1 && said.contains("no credentials:"), "{said}");
    let (code, said) = fails(&server, &["notify", "heron", "x", "--tenant", "nobody"]);
    assert!(code == 1 && said.contains("there is no tenant `nobody`"), "{said}");
    hears_nothing_more(&server, &mut rider).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_of_the_reference_are_imported_once_and_their_secrets_stay_unseen() {
    let (server, _) = settled();
    // Nobody listens there.
    let agents =
        json!({ "desk": { "url": "http://127.0.0.1:1/hook", "status_url": "http://127.0.0.1:1/up" } });
    let file = server.secret_file("agents.json", &agents.to_string());
    let authorization = server.secret_file("authorization", "Bearer canary-authorization");
    let hmac = server.secret_file("hmac", "canary-hmac");
    let import = ["connector", "import", &file, "--tenant", "acme", "--authorization-file", &authorization];
    let import = [&import[..], &["--hmac-secret-file", &hmac]].concat();
    let (code, words) = fails(&server, &import);
    assert!(code == 1 && words.contains("not healthy"), "{words}");
    let made = server.does(&[&import[..], &["--force", "--timeout-ms", "700"]].concat());
    assert_eq!((&made["name"], &made["kind"]), (&json!("webhook"), &json!("webhook")));
    assert_eq!((&made["authorization"], &made["hmac_secret"]), (&json!(true), &json!(true)));
    assert_eq!(made["settings"], json!({ "agents": agents, "timeout_ms": 700 }));
    let which = ["webhook", "--tenant", "acme"];
    let shown = server.does(&[&["connector", "show"][..], &which].concat());
    let listed = server.does(&["connector", "list"]);
    assert_eq!(listed["items"][0]["connector_id"], shown["connector_id"]);
    assert_eq!((&listed["items"][0]["healthy"], &shown["healthy"]), (&Value::Null, &json!(false)));
    let checked = server.tries(&[&["connector", "check"][..], &which].concat());
    assert_eq!(checked.status.code(), Some(1));
    let health: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((&health["healthy"], &health["agents"][0]["agent_id"]), (&json!(false), &json!("desk")));
    assert!(
        err(&checked).contains("webhook is not healthy: agent 'desk': GET http://127.0.0.1:1: "),
        "{checked:?}"
    );
    let told = server.does(&["notify", "desk", "hello", "--tenant", "acme"]);
    let receipt = server.does(&["receipt", "show", told["dispatch_id"].as_str().unwrap()]);
    assert_eq!(receipt["items"][0]["connector"], "webhook");
    for answer in [&made, &shown, &listed, &health, &told, &receipt] {
        assert!(!answer.to_string().contains("canary"), "{answer}");
    }
    assert!(!server.log.lock().unwrap().contains("canary"));
    server.does(&[&["connector", "remove"][..], &which].concat());
    let (code, words) = fails(&server, &["notify", "desk", "hello", "--tenant", "acme"]);
    assert_eq!(code, 4, "{words}");

    let broken = server.secret_file("broken.json", r#"{"desk": {"wake_url": "http://127.0.0.1:1/"}}"#);
    let (code, words) = fails(&server, &["connector", "import", &broken, "--tenant", "acme"]);
    assert!(code == 1 && words.contains("`desk`") && words.contains("has no url"), "{words}");
    let (code, words) =
        fails(&server, &["connector", "create", "panes", "--tenant", "acme", "--kind", "tmux"]);
    assert!(code == 1 && !words.is_empty(), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_and_what_agents_may_do_are_the_operators_to_say() {
    let (server, heron) = settled();
    let mut rider = dials(&server, &heron).await;
    server.does(&["alias", "create", "stork", "heron", "--tenant", "acme"]);
    server.does(&["notify", "stork", "hello", "--tenant", "acme"]);
    assert_eq!(text(&rider.hears().await), "hello");
    assert_eq!(server.does(&["alias", "list"])["items"][0]["agent"], "heron");
    let (code, words) = fails(&server, &["alias", "create", "heron", "stork", "--tenant", "acme"]);
    assert!(code == 1 && words.contains("choose another alias"), "{words}");
    server.does(&["alias", "remove", "stork", "--tenant", "acme"]);
    assert_eq!(fails(&server, &["notify", "stork", "hello", "--tenant", "acme"]).0, 4);

    let other = server.does(&["agent", "create", "otter", "--tenant", "acme"]);
    let (id, secret) = (other["client_id"].as_str().unwrap(), other["client_secret"].as_str().unwrap());
    let env = [("POSTHOUSE_CLIENT_ID", id), ("POSTHOUSE_CLIENT_SECRET", secret)];
    let words = ["notify", "heron", "from a neighbour"];
    assert_eq!(types(&server, &words, None, &env).status.code(), Some(0));
    assert_eq!(text(&rider.hears().await), "from a neighbour");
    assert_eq!(server.does(&["tenant", "show", "acme"])["peer_post"], "all");
    server.does(&["tenant", "change", "acme", "--peer-post", "none"]);
    assert_eq!(server.does(&["tenant", "show", "acme"])["peer_post"], "none");
    assert_eq!(types(&server, &words, None, &env).status.code(), Some(4), "as if there were nobody");
    hears_nothing_more(&server, &mut rider).await;
}
