//! Tests of stored connectors that cannot be opened, and of the reasons shown for unhealthy ones.

use std::time::Duration;

use ledger::ConnectorRecord;
use post::connector::memory::ConnectorMemory;
use post::connector::settings::{self, Tools};
use post::connector::{AgentConnector, Capabilities, ConnectorError, ExpectedReply, Features};
use post::{ConnectorNotCreated, ConnectorSecrets};
use posthouse_wire::ConnectorId;
use posthouse_wire::delivery::{Cause, PayloadKind};
use serde_json::{Value, json};

use crate::bench::{Bench, fails, payload};
use crate::log::Log;
use crate::receiver::Receiver;
use crate::test_server::TestServer;

impl TestServer {
    /// A connector that was created while the configuration still allowed it.
    async fn remembers(&self, name: &str, kind: &str, settings: Value) -> ConnectorRecord {
        let record = ConnectorRecord {
            id: ConnectorId::mint(self.time.now().millis()),
            tenant: self.tenant("acme").await,
            name: name.to_owned(),
            kind: kind.to_owned(),
            settings: settings.to_string(),
            created: self.time.now(),
        };
        self.ledger.connectors().create_connector(record.clone(), Vec::new()).await.unwrap();
        self.post.connectors().changed(&record.tenant);
        record
    }
}

fn panes() -> Value {
    json!({ "sessions": { "desk": "desk" } })
}

#[tokio::test]
async fn a_barred_connector_declares_what_its_kind_can_do_save_that_it_cannot_be_asked() {
    let bench = Bench::open().await;
    let none = Features { request_response: false, ..Features::ALL };
    let question =
        ExpectedReply { correlation_id: "c-1".into(), timeout: Duration::from_secs(5), reply_to: None };
    let asked = payload(PayloadKind::Augment, "d-1", "?");
    for (kind, settings, features) in [
        ("tmux", panes(), none),
        ("file-drop", json!({ "dirs": { "desk": "/srv/drops" } }), Features { agent_status: false, ..none }),
        (
            "webhook",
            json!({ "agents": { "desk": { "url": "ftp://a" } } }),
            Features { agent_status: false, ..none },
        ),
    ] {
        let barred = settings::rebuild(kind, &settings, bench.tools());
        assert!(barred.lists("desk").await.unwrap() && barred.barred().is_some(), "{kind}");
        assert_eq!(barred.features(), features, "{kind}");
        assert_eq!(barred.diagnose().await.unwrap_err(), barred.barred().unwrap());
        let replied = barred.request_response("desk", &asked, &question).await;
        // A kind that supports questions gives the reason.
        match kind {
            "tmux" => {
                assert!(matches!(replied, Err(ConnectorError::NotImplemented { implementation: "tmux", .. })))
            }
            _ => assert!(fails(replied, Cause::ClientValidation).contains(barred.barred().unwrap())),
        }
    }
}

#[tokio::test]
async fn a_question_passes_by_a_barred_connector_and_goes_to_one_that_answers() {
    let server = TestServer::open().await;
    let receiver = Receiver::open().await;
    receiver.says(200, r#"{"reply":{"content":"here"}}"#);
    server.remembers("panes", "tmux", panes()).await;
    server.remembers("shelves", "file-drop", json!({ "dirs": { "desk": "/srv/drops" } })).await;
    let program = server.program("acme").await;
    let alone = json!({ "agent": "desk", "message": "?", "connectors": ["panes"] });
    let (status, response) = program.posts("/v1/exchange", alone).await;
    assert_eq!((status.as_u16(), &response["code"]), (501, &json!("not_implemented")), "{response}");
    let url = format!("{}/in", receiver.base);
    server.wires("acme", "hooks", "webhook", json!({ "agents": { "desk": { "url": url } } })).await;
    let (status, response) = program.posts("/v1/exchange", json!({ "agent": "desk", "message": "?" })).await;
    assert_eq!((status.as_u16(), &response["content"]), (200, &json!("here")), "{response}");
}

#[tokio::test]
async fn a_barred_connector_is_logged_once_however_often_it_is_opened() {
    let bench = Bench::open().await;
    let log = Log::listen();
    let memory = ConnectorMemory::default();
    let opens = |kind: &str, settings: Value| {
        settings::rebuild(kind, &settings, Tools { memory: memory.clone(), ..bench.tools() });
        log.warnings()
    };
    let warnings = opens("tmux", panes());
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("con_1") && warnings[0].contains("post.tmux"), "{warnings:?}");
    assert!(opens("tmux", panes()).is_empty());
    // Another reason is logged again.
    assert_eq!(opens("tmux", json!({ "sessions": { "desk": "a:b" } })).len(), 1);
    assert!(opens("noop", json!({})).is_empty());
}

#[tokio::test]
async fn a_server_remembers_what_it_logged_about_its_connectors_and_another_server_does_not() {
    let server = TestServer::open().await;
    server.remembers("panes", "tmux", panes()).await;
    let program = server.program("acme").await;
    let log = Log::listen();
    let logged = async |server: &TestServer| {
        server.post.connectors().changed(&server.tenant("acme").await);
        let warnings = log.warnings();
        warnings.into_iter().filter(|line| line.contains("cannot be opened")).count()
    };
    for _ in 0..3 {
        program.notifies("desk", "hello").await;
        server.post.connectors().changed(&server.tenant("acme").await);
    }
    assert_eq!(logged(&server).await, 1);
    let other = TestServer::open().await;
    other.remembers("panes", "tmux", panes()).await;
    other.program("acme").await.notifies("desk", "hello").await;
    assert_eq!(logged(&other).await, 1);
}

#[tokio::test]
async fn what_cannot_be_opened_shows_without_a_look_and_what_leads_nowhere_with_one() {
    let server = TestServer::open().await;
    let tenant = server.tenant("acme").await;
    let panes = server.remembers("panes", "tmux", panes()).await;
    let url = "http://127.0.0.1:1/in/path-canary?key=query-canary";
    let hooks = server.remembers("hooks", "webhook", json!({ "agents": { "desk": { "url": url } } })).await;

    let glance = server.post.connectors().describe(&panes);
    assert_eq!(glance.healthy, Some(false));
    assert!(glance.why.unwrap().contains("post.tmux"));
    let glance = server.post.connectors().describe(&hooks);
    assert_eq!((glance.healthy, glance.why), (None, None));

    for (name, parts) in
        [("panes", ["post.tmux", "tmux connectors"]), ("hooks", ["http://127.0.0.1:1", "'desk'"])]
    {
        let health = server.post.connectors().check(&tenant, name).await.unwrap();
        assert_eq!(health.healthy, Some(false), "{name}");
        let why = health.why.unwrap();
        assert!(parts.iter().all(|part| why.contains(part)) && !why.contains("canary"), "{name}: {why}");
    }
    // The built-in relay connector is healthy.
    let relay = server.post.connectors().check(&tenant, "relay").await.unwrap();
    assert_eq!((relay.healthy, relay.why), (Some(true), None));
}

#[tokio::test]
async fn a_connector_that_is_not_made_is_named_with_what_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let drop_dirs = vec![folder.path().to_owned()];
    let config = post::Config { tmux: true, drop_dirs, ..post::Config::default() };
    let tmux_program = folder.path().join("no-such-tmux");
    let server = TestServer::open_with(post::Config { tmux_program, ..config }).await;
    let tenant = server.tenant("acme").await;
    let gone = folder.path().join("gone");
    let receiver = Receiver::open().await;
    receiver.says(503, "secret-canary");
    let status =
        json!({ "url": "http://127.0.0.1:1/in", "status_url": format!("{}/up-canary", receiver.base) });
    let well = json!({ "url": "http://127.0.0.1:1/in" });
    for (kind, settings, parts) in [
        (
            "webhook",
            json!({ "agents": { "desk": { "url": "http://127.0.0.1:1/canary" } } }),
            ["'desk'", "http://127.0.0.1:1"],
        ),
        ("webhook", json!({ "agents": { "desk": status, "a": well } }), [receiver.base.as_str(), "503"]),
        ("file-drop", json!({ "dirs": { "desk": gone } }), ["'desk'", gone.to_str().unwrap()]),
        ("tmux", json!({ "sessions": { "desk": "main" }, "window": 2 }), ["'desk'", "main:2.0"]),
    ] {
        let secrets = ConnectorSecrets::default();
        let made = server.post.connectors().create(&tenant, "path", kind, settings, secrets, false).await;
        let Err(ConnectorNotCreated::Unhealthy(why)) = made else { panic!("{kind}: {made:?}") };
        assert!(why.contains(kind) && why.contains("`path`"), "{why}");
        assert!(parts.iter().all(|part| why.contains(part)) && !why.contains("canary"), "{why}");
    }
}

#[tokio::test]
async fn of_many_that_do_not_answer_some_are_named_and_the_rest_counted() {
    let bench = Bench::open().await;
    let agents: Value =
        (0..5).map(|n| (format!("agent-{n}"), json!({ "url": format!("http://127.0.0.1:1/{n}") }))).collect();
    let why = bench.connector("webhook", json!({ "agents": agents })).diagnose().await.unwrap_err();
    assert!(why.contains("'agent-0'") && why.contains("'agent-2'") && why.ends_with("and 2 more"), "{why}");
    assert!(!why.contains("agent-3"), "{why}");
}

#[tokio::test]
async fn a_connector_is_listed_as_its_contract_says_and_misses_no_manifest() {
    let bench = Bench::open().await;
    let shown = |connector: &dyn AgentConnector| serde_json::to_value(Capabilities::of(connector)).unwrap();
    let noop = shown(&*bench.connector("noop", json!({})));
    let features = json!({ "deliver": true, "wake": true, "list_agents": true, "agent_status": true, "health_check": true, "request_response": false });
    let expected = json!({
        "connector_type": "agent_connector",
        "implementation": "noop",
        "contract_version": "1.0.0",
        "features": features,
        "manifest": null,
        "manifest_unsupported": true,
    });
    assert_eq!(noop, expected);
}
