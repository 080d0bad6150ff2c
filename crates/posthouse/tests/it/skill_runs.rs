//! Skills that the server runs: approval, effects, records, cancelling and events, by the real binary.

use std::time::Duration;

use serde_json::{Value, json};

use crate::crash::stepping::SteppingClock;
use crate::post_cli::fails;
use crate::test_server::TestServer;
use crate::tools::ToolClient;

fn skill(status: &str, header: &str, ops: &str) -> String {
    format!("# Skill: s\n# Status: {status}\n{header}go:\n{ops}\ndefault: go\n")
}

/// A tenant with an agent, and clients of both.
struct Fixture {
    server: TestServer,
    program: ToolClient,
    heron: ToolClient,
}

impl Fixture {
    fn open(environment: &[(&str, &str)]) -> Self {
        let server = TestServer::open(environment);
        server.does(&["tenant", "create", "acme"]);
        server.does(&["agent", "create", "heron", "--tenant", "acme"]);
        let program = ToolClient::create(&server, &["--tenant", "acme"]);
        let heron = ToolClient::create(&server, &["--tenant", "acme", "--agent", "heron"]);
        Self { server, program, heron }
    }

    async fn rpc(client: &ToolClient, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let (_, _, answer) = client.post("/rpc", &[], &body.to_string()).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        serde_json::from_str(text).unwrap()
    }

    async fn write(&self, name: &str, source: &str) {
        let written = json!({ "name": name, "source": source, "overwrite": true });
        Self::rpc(&self.program, "skill_write", written).await;
    }

    async fn execute(&self, name: &str) -> Value {
        Self::rpc(&self.program, "execute_skill", json!({ "name": name })).await
    }

    fn runs(&self) -> Vec<Value> {
        let listed = self.server.does(&["run", "list", "--tenant", "acme"]);
        listed["items"].as_array().cloned().unwrap_or_default()
    }

    /// The newest run, once it is in this state.
    fn run_in(&self, state: &str) -> Value {
        until(&format!("a run is {state}"), Duration::from_secs(30), || {
            self.runs().first().filter(|run| run["state"] == state).cloned()
        })
    }
}

/// Looks again and again until there is a result.
fn until<T>(what: &str, limit: Duration, look: impl Fn() -> Option<T>) -> T {
    let clock = posthouse_time::Timepiece::wall();
    let begun = clock.instant();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(clock.instant().since(begun) < limit, "waited in vain: {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unapproved_skill_does_not_run_by_any_path_and_the_refusal_is_in_the_audit() {
    let fixture = Fixture::open(&[]);
    fixture.write("draft", &skill("Draft", "# Triggers: event: go.draft\n", "    emit(text=\"ran\")")).await;
    let refused = fixture.execute("draft").await;
    assert_eq!(refused["errors"][0]["class"], "ApprovalRejectedError", "{refused}");
    let parent = skill("Approved", "", "    $ execute_skill name=\"draft\" -> R");
    fixture.write("parent", &parent).await;
    let refused = fixture.execute("parent").await;
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("Draft"), "{refused}");
    // A Draft has no triggers, so its event is as unknown as any other.
    let (status, _, _) = fixture.program.post("/v1/events/go.draft", &[], "{}").await;
    assert_eq!(status, 404);
    // A trigger that was registered for it queues a run, which is refused when it begins.
    let registered = json!({ "skill_name": "draft", "source": "event", "name": "go.registered" });
    Fixture::rpc(&fixture.program, "register_trigger", registered).await;
    let (status, _, _) = fixture.program.post("/v1/events/go.registered", &[], "{}").await;
    assert_eq!(status, 202);
    let failed = fixture.run_in("failed");
    assert!(failed["error"].as_str().unwrap().starts_with("ApprovalRejectedError"), "{failed}");
    let log = fixture.server.does(&["approval-key", "log", "--tenant", "acme"]);
    let log = if log.is_array() { log } else { log["items"].clone() };
    let refused = log.as_array().unwrap().iter().filter(|row| row["event"] == "run_refused");
    assert_eq!(refused.filter(|row| row["skill"] == "draft").count(), 3, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_whose_signature_is_missing_or_broken_does_not_run_for_a_tenant_that_demands_one() {
    let fixture = Fixture::open(&[]);
    fixture.write("tide", &skill("Approved", "", "    emit(text=\"ran\")")).await;
    assert_eq!(fixture.execute("tide").await["transcript"], json!(["ran"]));
    fixture.server.does(&["tenant", "change", "acme", "--approval", "signed"]);
    assert_eq!(fixture.execute("tide").await["errors"][0]["class"], "ApprovalRejectedError");
    // A text of one's own runs, and has no effects.
    let source = skill("Approved", "", "    emit(text=\"ran\")\n    notify(agent=\"heron\", message=\"x\")");
    let run = Fixture::rpc(&fixture.program, "execute_skill", json!({ "source": source })).await;
    assert_eq!(run["transcript"], json!(["ran"]), "{run}");
    assert_eq!(run["errors"][0]["class"], "SecuredModeEffectError", "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_an_agent_brings_has_no_effects_and_an_approved_skill_that_it_runs_has() {
    let fixture = Fixture::open(&[]);
    let source =
        skill("Approved", "", "    notify(agent=\"heron\", message=\"hello\") -> R\n    emit(text=\"${R}\")");
    let own = Fixture::rpc(&fixture.heron, "execute_skill", json!({ "source": source })).await;
    assert_eq!(own["errors"][0]["class"], "SecuredModeEffectError", "{own}");
    fixture.write("hello", &source).await;
    let stored = Fixture::rpc(&fixture.heron, "execute_skill", json!({ "name": "hello" })).await;
    assert_eq!(stored["errors"], json!([]), "{stored}");
    // The record of the run leads to the message, and the message to the run.
    let run = fixture.run_in("succeeded");
    let shown = fixture.server.does(&["run", "show", run["id"].as_str().unwrap(), "--tenant", "acme"]);
    let dispatch = shown["dispatches"][0].as_str().unwrap();
    assert_eq!(shown["record"]["ops"][0]["op_kind"], "notify", "{shown}");
    for id in [dispatch, run["id"].as_str().unwrap()] {
        let traced = fixture.server.does(&["message", "trace", id]);
        assert_eq!(traced["items"][0]["runs"], json!([run["id"]]), "{traced}");
    }
    let receipt = fixture.server.does(&["receipt", "show", dispatch, "--tenant", "acme"]);
    assert_eq!(receipt["items"][0]["agent_id"], "heron", "{receipt}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_a_caller_brings_has_the_size_limit_of_a_stored_one() {
    let fixture = Fixture::open(&[]);
    let most = 256 * 1024;
    let text = |size: usize| {
        let text = skill("Approved", "", "    emit(text=\"ran\")");
        format!("{text}{}", "# padding\n".repeat(most / 10 + 1)).chars().take(size).collect::<String>()
    };
    for tool in ["lint_skill", "compile_skill", "execute_skill"] {
        let call = |size: usize| {
            let params = json!({ "name": tool, "arguments": { "source": text(size) } });
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
        };
        let (_, _, answer) = fixture.program.post("/rpc", &[], &call(most)).await;
        assert!(answer.contains("\"result\""), "{tool}: {answer}");
        let (_, _, answer) = fixture.program.post("/rpc", &[], &call(most + 1)).await;
        let refused =
            format!("{tool}: `source` has 262145 bytes, and the text of a skill has at most 262144.");
        assert!(answer.contains("\"error\"") && answer.contains(&refused), "{tool}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_need_the_consent_of_the_configuration_and_of_the_tenants_settings() {
    let fixture = Fixture::open(&[]);
    let change = ["run-settings", "change", "--tenant", "acme", "--program", "echo"];
    let (_, refused) = fails(&fixture.server, &change);
    assert!(refused.contains("workshop.run_commands"), "{refused}");
    fixture
        .write(
            "shell",
            &skill("Approved", "", "    shell(command=\"echo hi\") -> R\n    emit(text=\"${R}\")"),
        )
        .await;
    assert_eq!(fixture.execute("shell").await["errors"][0]["class"], "ShellBinaryNotAllowedError");
    let fixture = Fixture::open(&[("POSTHOUSE_WORKSHOP__RUN_COMMANDS", "true")]);
    fixture
        .write(
            "shell",
            &skill("Approved", "", "    shell(command=\"echo hi\") -> R\n    emit(text=\"${R}\")"),
        )
        .await;
    assert_eq!(fixture.execute("shell").await["errors"][0]["class"], "ShellBinaryNotAllowedError");
    fixture.server.does(&change);
    assert_eq!(fixture.execute("shell").await["transcript"], json!(["hi"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn while_one_tenant_runs_endless_texts_another_ones_skill_runs_and_messages_pass() {
    const ENDLESS: usize = 12;
    let fixture = Fixture::open(&[]);
    for words in [["tenant", "create", "zen"].as_slice(), &["agent", "create", "owl", "--tenant", "zen"]] {
        fixture.server.does(words);
    }
    let zen = ToolClient::create(&fixture.server, &["--tenant", "zen"]);
    // Ten million operations, which is the limit of a run.
    let items = vec!["1"; 1000].join(",");
    let ops = format!(
        "    $set L = [{items}]\n    foreach A in ${{L}}:\n        foreach B in ${{L}}:\n            \
         foreach C in ${{L}}:\n                $set X = ${{C}}"
    );
    let endless = skill("Approved", "", &ops);
    let heron = std::sync::Arc::new(fixture.heron);
    let runs: Vec<_> = (0..ENDLESS)
        .map(|_| {
            let (heron, source) = (std::sync::Arc::clone(&heron), endless.clone());
            tokio::spawn(
                async move { Fixture::rpc(&heron, "execute_skill", json!({ "source": source })).await },
            )
        })
        .collect();
    let listed = || {
        let listed = fixture.server.does(&["run", "list", "--tenant", "acme"]);
        listed["items"].as_array().cloned().unwrap_or_default()
    };
    until("all endless runs have begun", Duration::from_secs(60), || {
        (listed().iter().filter(|run| run["state"] == "running").count() == ENDLESS).then_some(())
    });
    let ran = Fixture::rpc(
        &zen,
        "execute_skill",
        json!({ "source": skill("Approved", "", "    emit(text=\"ran\")") }),
    );
    assert_eq!(ran.await["transcript"], json!(["ran"]));
    let linted = Fixture::rpc(&zen, "lint_skill", json!({ "source": endless })).await;
    assert_eq!(linted["error_count"], 0, "{linted}");
    let (status, _, answer) = zen.post("/v1/notify", &[], r#"{"agent":"owl","message":"hello"}"#).await;
    assert!(status < 300, "{answer}");
    // All of that came first: the endless runs still run.
    let still = listed();
    assert_eq!(still.iter().filter(|run| run["state"] == "running").count(), ENDLESS, "{still:?}");
    for run in still {
        fixture.server.does(&["run", "cancel", run["id"].as_str().unwrap(), "--tenant", "acme"]);
    }
    for run in runs {
        let ended = run.await.unwrap();
        assert_eq!(ended["errors"][0]["class"], "RunCancelledError", "{ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_stops_within_a_second_and_its_commands_are_killed() {
    let fixture = Fixture::open(&[("POSTHOUSE_WORKSHOP__RUN_COMMANDS", "true")]);
    fixture.server.does(&["run-settings", "change", "--tenant", "acme", "--program", "sleep"]);
    let mark = format!("{}", 100_000 + std::process::id());
    fixture
        .write(
            "nap",
            &skill("Approved", "# Triggers: event: nap\n", &format!("    shell(command=\"sleep {mark}\")")),
        )
        .await;
    let (status, _, body) = fixture.program.post("/v1/events/nap", &[], "").await;
    assert_eq!(status, 202, "{body}");
    let run = fixture.run_in("running");
    let is_asleep = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        processes
            .map(|entry| entry.path().join("cmdline"))
            .any(|file| std::fs::read(file).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&mark)))
    };
    until("the command starts", Duration::from_secs(30), || is_asleep().then_some(()));
    let answer = fixture.server.does(&["run", "cancel", run["id"].as_str().unwrap(), "--tenant", "acme"]);
    assert_eq!(answer["cancelled"], true, "{answer}");
    fixture.run_in("cancelled");
    until("the command has ended", Duration::from_secs(5), || (!is_asleep()).then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_line_is_all_that_a_written_skill_needs_to_run_at_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let clock = SteppingClock::build(folder.path());
    // The next minute of the server's clock is near, so that the test need not wait for it.
    let second = posthouse_time::Timepiece::wall().now().seconds() % 60;
    clock.set(50 - second);
    let environment = clock.environment();
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let fixture = Fixture::open(&environment);
    let text = skill("Approved", "# Triggers: cron: * * * * *\n", "    emit(text=\"${TRIGGER_TYPE}\")");
    let file = fixture.server.secret_file("tide.skill.md", &text);
    fixture.server.does(&["skill", "write", "tide", &file, "--tenant", "acme"]);
    let run = until("the minute comes and the skill runs", Duration::from_secs(180), || {
        fixture.runs().into_iter().find(|run| run["state"] == "succeeded")
    });
    assert_eq!((&run["skill"], &run["trigger"]["source"]), (&json!("tide"), &json!("cron")), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_runs_its_skill_with_exactly_its_parameters() {
    let fixture = Fixture::open(&[]);
    let header = "# Triggers: event: Door.Open\n# Vars: WHO\n";
    fixture.write("door", &skill("Approved", header, "    emit(text=\"door ${WHO}\")")).await;
    let (status, _, body) = fixture.program.post("/v1/events/door.open", &[], r#"{"WHO":"ann"}"#).await;
    assert_eq!(status, 202, "{body}");
    let run = fixture.run_in("succeeded");
    let shown = fixture.server.does(&["run", "show", run["id"].as_str().unwrap(), "--tenant", "acme"]);
    assert_eq!(shown["record"]["emissions"], json!(["door ann"]), "{shown}");
    assert_eq!(shown["trigger"], json!({ "source": "event", "name": "door.open", "id": "trig-1" }));
    let (status, _, body) = fixture.program.post("/v1/events/door.open", &[], r#"{"WHO":"a","Z":1}"#).await;
    assert_eq!(status, 422, "{body}");
    assert!(body.contains(r#""extra":["Z"]"#), "{body}");
    let metrics = Fixture::rpc(&fixture.program, "health_metrics", json!({})).await;
    assert_eq!((&metrics["totalFires"], &metrics["perSkill"]["door"]["errors"]), (&json!(1), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_a_tenant_is_never_shown_and_no_other_tenant_has_it() {
    let fixture = Fixture::open(&[]);
    let file = fixture.server.secret_file("key.txt", "s3cret-of-acme");
    fixture.server.does(&["secret", "set", "KEY", "--tenant", "acme", "--value-file", &file]);
    let listed = fixture.server.does(&["secret", "list", "--tenant", "acme"]);
    assert!(listed.to_string().contains("KEY") && !listed.to_string().contains("s3cret"), "{listed}");
    let source =
        skill("Approved", "# Requires: secret.KEY\n", "    shell(argv=[\"echo\", \"{{secret.KEY}}\"]) -> R");
    fixture.write("keyed", &source).await;
    let refused = fixture.execute("keyed").await;
    assert!(!refused.to_string().contains("s3cret"), "{refused}");
    fixture.server.does(&["tenant", "create", "zen"]);
    assert!(!fixture.server.does(&["secret", "list", "--tenant", "zen"]).to_string().contains("KEY"));
    fixture.server.does(&["secret", "remove", "KEY", "--tenant", "acme"]);
    assert!(!fixture.server.does(&["secret", "list", "--tenant", "acme"]).to_string().contains("KEY"));
}
