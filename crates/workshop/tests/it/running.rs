//! Running skills over the real host, without a server: a folder of skills, tools over HTTP and child processes, a model.

mod tool_server;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use errand::Errand;
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use serde_json::{Value, json};
use skill::tree::SkillTree;
use skill::{
    PreparedSkill, RunContext, RunError, RunPolicy, SkillObject, SkillOutcome, SkillValue, lint_errors,
    run_skill,
};
use workshop::{
    ApprovalPolicy, Commands, Config, ConnectorsFile, FileAccess, FilesystemSettings, FilesystemSkillStore,
    LocalModel, RunHost, RunResources, RunSecrets, RunSettings, RunSkills, SkillStore, StoreOptions,
    ToolClientParts, ToolClients,
};

use self::tool_server::ToolServer;
use crate::fixtures::START;
use crate::skill_server::SkillServer;

/// A machine on which skills run without a server.
struct Machine {
    clock: Timepiece,
    folder: tempfile::TempDir,
    store: Arc<FilesystemSkillStore>,
    resources: Arc<RunResources>,
    policy: RunPolicy,
}

impl Machine {
    fn new(connectors: &Value) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let clock = Timepiece::wound(START);
        let folder = tempfile::tempdir().unwrap();
        let settings = FilesystemSettings::new(folder.path().join("skills"));
        let store = Arc::new(FilesystemSkillStore::open(settings, clock.clone()));
        let errand = Errand::new(errand::Config::loopback());
        let file = ConnectorsFile::read(&connectors.to_string(), &|_| None);
        let parts = ToolClientParts {
            errand: errand.clone(),
            tenant: None,
            child_environment: Some(vec![("PATH".into(), "/usr/bin:/bin".into())]),
            timepiece: clock.clone(),
        };
        let model =
            file.slot("local_model").map(|slot| LocalModel::read(slot, &|_| None, errand, None).unwrap());
        let (tools, errors) = ToolClients::new(file.connectors, &parts);
        assert_eq!(errors, Vec::<String>::new());
        let secrets = HashMap::from([("KEY".to_owned(), Secret::new("s3cret-value"))]);
        let resources = RunResources {
            tools,
            model,
            // Commands really take their time.
            commands: Commands::clean(Timepiece::wall()),
            files: FileAccess::new(vec![folder.path().join("files")], PathBuf::from("/")),
            secrets: RunSecrets::Given(secrets),
            errors: Vec::new(),
            timepiece: clock.clone(),
        };
        let policy = RunPolicy { shell_programs: Some(vec!["echo".to_owned()]), ..RunPolicy::default() };
        Self { clock, folder, store, resources: Arc::new(resources), policy }
    }

    fn host(&self) -> RunHost {
        let store: Arc<dyn SkillStore> = self.store.clone();
        let skills = RunSkills::in_store(store, ApprovalPolicy::Open);
        RunHost::new(Arc::clone(&self.resources), skills, None, None)
    }

    async fn stores(&self, name: &str, source: &str) {
        self.store.store(name, source, StoreOptions::default()).await.unwrap().unwrap();
    }

    async fn tries(&self, ops: &str) -> Result<SkillOutcome, RunError> {
        let source = format!(
            "# Skill: s\n# Status: Approved\n# Requires: secret.KEY\n# Timeout: 5\ngo:\n{ops}\ndefault: go\n"
        );
        let host = self.host();
        let tree = Arc::new(SkillTree::parse(&source));
        assert_eq!(lint_errors(&host, &tree).await, Vec::<String>::new(), "{source}");
        let prepared = PreparedSkill::new(&host, tree, &SkillObject::default()).await?;
        let context =
            RunContext { policy: Arc::new(self.policy.clone()), is_traced: true, ..Default::default() };
        run_skill(&host, &prepared, &context).await
    }

    async fn runs(&self, ops: &str) -> SkillOutcome {
        self.tries(ops).await.unwrap()
    }

    /// The value of the variable R after a run without errors.
    async fn result(&self, ops: &str) -> SkillValue {
        let outcome = self.runs(ops).await;
        assert!(outcome.errors.is_empty(), "{:?}", outcome.errors);
        outcome.variables.get("R").cloned().unwrap()
    }

    /// Class and message of the error of a run.
    async fn error(&self, ops: &str) -> (String, String) {
        let outcome = self.runs(ops).await;
        let error = outcome.errors.first().unwrap_or_else(|| panic!("no error: {:?}", outcome.variables));
        (error.class.name().to_owned(), error.message.clone())
    }
}

fn http(server: &ToolServer, path: &str) -> Value {
    json!({ "svc": { "class": "HttpMcpConnector", "config": {
        "endpoint": format!("{}{path}", server.url()),
        "headers": { "Authorization": "Bearer connector-token" },
        "identityHeader": "X-Agent-Id",
    }, "allowed_tools": ["echo"] } })
}

#[tokio::test]
async fn a_tool_is_called_over_one_session_and_its_answer_is_read_from_json_and_from_a_stream() {
    for path in ["/json", "/stream"] {
        let server = ToolServer::start().await;
        let machine = Machine::new(&http(&server, path));
        let call = "    $ svc.echo text=\"hi\" n=2 -> R";
        let answer = machine.result(&format!("{call}\n    $ svc.echo text=\"hi\" n=2 -> R")).await;
        assert_eq!(answer.json(), r#"{"echo":{"n":2,"text":"hi"}}"#, "{path}");
        let methods: Vec<String> = server.methods();
        let expected = ["initialize", "notifications/initialized", "tools/call", "tools/call"];
        assert_eq!(methods, expected, "{path}: the connection is kept");
    }
}

#[tokio::test]
async fn a_tool_that_is_not_allowed_is_not_called() {
    let server = ToolServer::start().await;
    let machine = Machine::new(&http(&server, "/json"));
    let (class, message) = machine.error("    $ svc.drop_all approved=\"yes\" -> R").await;
    assert_eq!(class, "OpError");
    assert!(message.contains("not allowed"), "{message}");
    assert_eq!(server.methods(), Vec::<String>::new());
}

#[tokio::test]
async fn a_tool_that_fails_answers_nonsense_or_too_much_is_an_error_of_its_operation() {
    let server = ToolServer::start().await;
    for (path, class, words) in [
        ("/nonsense", "Error", "not an MCP message"),
        ("/refused", "Error", "status 401"),
        ("/error", "Error", "error -32000"),
        ("/is-error", "RemoteMcpDispatchError", "out of paper"),
        ("/huge", "OpError", "larger than"),
        ("/broken", "Error", "broke off"),
    ] {
        let machine = Machine::new(&http(&server, path));
        let (found, message) = machine.error("    $ svc.echo text=\"x\" -> R").await;
        assert_eq!(found, class, "{path}: {message}");
        assert!(message.contains(words), "{path}: {message}");
        assert!(!message.contains("connector-token"), "{path}: {message}");
        let kept = machine.result("    $ svc.echo text=\"x\" -> R (fallback: none)").await;
        assert_eq!(kept.as_text(), Some("none"), "{path}: a fallback takes its place");
    }
}

#[tokio::test]
async fn a_tool_that_hangs_is_cut_off_at_its_timeout() {
    let server = ToolServer::start().await;
    let machine = Machine::new(&http(&server, "/hang"));
    let failed = machine.error("    $ svc.echo text=\"x\" timeout=3 -> R");
    let (class, message) = machine.clock.wind_until(Duration::from_millis(500), failed).await;
    assert_eq!(class, "OpTimeoutError", "{message}");
}

#[tokio::test]
async fn a_secret_reaches_the_tool_and_no_trace_error_or_variable_of_the_run() {
    let server = ToolServer::start().await;
    let machine = Machine::new(&http(&server, "/error"));
    let outcome = machine.runs("    $ svc.echo key=\"Bearer {{secret.KEY}}\" -> R (fallback: \"x\")").await;
    assert!(server.bodies().iter().any(|body| body.contains("s3cret-value")), "the tool gets it");
    let shown = format!("{outcome:?}");
    assert!(!shown.contains("s3cret-value"), "{shown}");
    assert!(outcome.trace.iter().any(|op| op.body.contains("{{secret.KEY}}")));
}

/// A tool server in a shell: newline framing, one answer per line.
const CHILD: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}" ;;
    *'"hang"'*) ;;
    *'"leave"'*) exit 1 ;;
    *'"tools/call"'*) echo starting; echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"child $$ ${TOKEN:-none} ${HOME:-none}\"}]}}" ;;
  esac
done"#;

fn child(script: &str) -> Value {
    json!({ "kid": { "class": "RemoteMcpConnector", "config": {
        "command": "sh", "args": ["-c", script], "env": { "TOKEN": "t0ken" }, "framing": "newline",
    } } })
}

#[tokio::test]
async fn a_child_process_is_started_once_kept_and_started_again_after_it_has_ended() {
    let machine = Machine::new(&child(CHILD));
    let call = "    $ kid.who -> R";
    let first = machine.result(call).await.rendered().into_owned();
    assert!(first.ends_with("t0ken none"), "only its own environment: {first}");
    assert_eq!(machine.result(call).await.rendered(), first, "the same process");
    let (class, message) = machine.error("    $ kid.leave -> R").await;
    assert_eq!((class.as_str(), message.as_str()), ("Error", "the child process has ended"));
    let second = machine.result(call).await.rendered().into_owned();
    assert_ne!(first, second, "a new process");
}

#[tokio::test]
async fn a_child_process_that_hangs_or_cannot_be_used_is_an_error_and_is_not_started_in_a_loop() {
    let machine = Machine::new(&child(CHILD));
    let hang = machine.error("    $ kid.hang timeout=2 -> R");
    let (class, _) = machine.clock.wind_until(Duration::from_millis(500), hang).await;
    assert_eq!(class, "OpTimeoutError");
    let broken = Machine::new(&child("exit 0"));
    let (class, message) = broken.error("    $ kid.who -> R").await;
    assert_eq!((class.as_str(), message.as_str()), ("Error", "the child process has ended"));
    let (_, message) = broken.error("    $ kid.who -> R").await;
    assert!(message.contains("a moment ago"), "{message}");
}

#[tokio::test]
async fn a_model_answers_and_one_that_streams_for_ever_is_cut_off() {
    let server = ToolServer::start().await;
    for (kind, path) in [("ollama", "/ollama"), ("openai", "/openai")] {
        let config = json!({ "baseUrl": format!("{}{path}", server.url()), "defaultModelTag": "m1" });
        let machine =
            Machine::new(&json!({ "substrate": { "local_model": { "type": kind, "config": config } } }));
        let answer = machine.result("    $ llm prompt=\"why?\" -> R").await;
        assert_eq!(answer.as_text(), Some("because (m1)"), "{kind}");
    }
    let config = json!({ "baseUrl": format!("{}/endless", server.url()), "defaultModelTag": "m1" });
    let machine =
        Machine::new(&json!({ "substrate": { "local_model": { "type": "openai", "config": config } } }));
    let (class, message) = machine.error("    $ llm prompt=\"why?\" -> R").await;
    assert_eq!(class, "ModelError", "{message}");
    assert!(message.contains("limits of time and size"), "{message}");
}

#[tokio::test]
async fn a_skill_runs_skills_of_its_folder_that_are_approved_and_no_others() {
    let machine = Machine::new(&json!({}));
    let child = |status: &str| {
        format!("# Skill: c\n# Status: {status}\n# Returns: X\ngo:\n    $set X = 7\ndefault: go\n")
    };
    machine.stores("child", &child("Approved")).await;
    let call = "    $ execute_skill name=\"child\" -> R";
    assert_eq!(machine.result(call).await.field("X").unwrap().rendered(), "7");
    machine.stores("draft", &child("Draft")).await;
    let (class, message) = machine.error("    $ execute_skill name=\"draft\" -> R").await;
    assert_eq!(class, "OpError");
    assert!(message.contains("Draft"), "{message}");
}

#[tokio::test]
async fn commands_and_files_work_where_they_are_allowed() {
    let machine = Machine::new(&json!({}));
    assert_eq!(machine.result("    shell(command=\"echo hi\") -> R").await.as_text(), Some("hi"));
    let (class, _) = machine.error("    shell(command=\"ls /\") -> R").await;
    assert_eq!(class, "ShellBinaryNotAllowedError");
    let file = machine.folder.path().join("files/note").display().to_string();
    let write = format!(
        "    file_write(path=\"{file}\", content=\"x\", approved=\"yes\")\n    file_read(path=\"{file}\") -> R"
    );
    assert_eq!(machine.result(&write).await.as_text(), Some("x"));
    let (class, _) = machine.error("    file_read(path=\"/etc/passwd\") -> R").await;
    assert_eq!(class, "FilePathNotAllowedError");
}

#[tokio::test]
async fn without_a_server_there_are_no_agents_and_a_message_reaches_nobody() {
    let machine = Machine::new(&json!({}));
    let sent = machine.result("    notify(agent=\"heron\", message=\"hi\") -> R").await;
    assert_eq!(sent.json(), r#"{"agent":"heron","dispatched":[]}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_model_counts_in_the_memory_of_the_running_skills() {
    let tools = ToolServer::start().await;
    let config = json!({ "baseUrl": format!("{}/large", tools.url()), "defaultModelTag": "m1" });
    let connectors = json!({ "substrate": { "local_model": { "type": "openai", "config": config } } });
    let settings =
        RunSettings { connectors: connectors.as_object().unwrap().clone(), ..RunSettings::default() };
    for (limit, transcript) in [(1 << 20, json!([])), (64 << 20, json!(["because"]))] {
        let server =
            SkillServer::open_with(Config { tenant_run_memory_bytes: limit, ..Config::default() }).await;
        server.runner.resources().change_settings(&server.acme, &settings).await.unwrap().unwrap();
        server.writes("s", "Approved", "", "$ llm prompt=\"why\" -> R\n    emit(text=\"${R}\")").await;
        let envelope = server.executes("s").await;
        assert_eq!(envelope["transcript"], transcript, "{envelope}");
        if transcript == json!([]) {
            let message =
                "what all running skills of the tenant hold together is larger than the limit of 1 MiB";
            assert_eq!(envelope["errors"][0]["message"], message, "{envelope}");
        }
    }
}
