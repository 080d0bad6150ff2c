//! Conformance tests of the connector contract. Run a custom connector through [`conforms`] and, with its receiver
//! taken away, through [`fails_honestly`].

// The example connector of the guide is tested too.
#[path = "../../examples/journal/connector.rs"]
mod journal;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use post::connector::{AgentConnector, AskOutcome, ConnectorError, ExpectedReply};
use posthouse_wire::delivery::{
    AgentStatus, Cause, DeliveryReceipt, Payload, PayloadKind, WakeOpts, WakeReceipt,
};
use serde_json::json;

use crate::bench::{Bench, context, emission, fault, payload};
use crate::receiver::Receiver;
use crate::test_server::TestServer;
use journal::Journal;

/// A connector that works: `known` is an agent that it reaches now, or nobody where it claims none. `traces` says
/// how much has happened on its receiver so far.
async fn conforms(connector: &dyn AgentConnector, known: Option<&str>, mut traces: impl FnMut() -> usize) {
    let features = connector.features();
    assert!(features.request_response || !connector.collects(), "answers to what cannot be asked");
    assert!(!connector.implementation().is_empty());
    assert!(features.deliver && features.wake && features.list_agents && features.health_check);
    assert!(connector.health_check().await);
    lists_whom_it_claims(connector, known).await;
    if known.is_some() {
        let before = traces();
        refuses_strangers(connector).await;
        assert_eq!(traces(), before, "a stranger is refused before anything is done");
    }
    let agent = known.unwrap_or("anybody");
    for (kind, dispatch) in
        [(PayloadKind::Augment, "c-1"), (PayloadKind::Template, "c-2"), (PayloadKind::Augment, "c-3")]
    {
        // Nothing at all, and what looks like a command, are texts too.
        let text = if dispatch == "c-3" { "" } else { "/status; -l" };
        is_well_formed(&connector.deliver(agent, &payload(kind, dispatch, text)).await.unwrap());
    }
    if connector.repeats_harmlessly() {
        // The post makes the same attempt again when it does not know how the first one ended.
        is_well_formed(
            &connector.deliver(agent, &payload(PayloadKind::Augment, "c-1", "/status; -l")).await.unwrap(),
        );
    }
    wakes_or_degrades(connector, agent, known.is_some()).await;
    asks_or_says_that_it_cannot(connector, agent).await;
    let status = connector.agent_status(agent).await;
    assert!(features.agent_status || status == AgentStatus::Unknown, "{status:?} is not declared");
}

/// The same connector without its receiver: it fails with the contract's causes and claims no success.
async fn fails_honestly(connector: &dyn AgentConnector, known: &str) {
    assert!(!connector.health_check().await);
    assert!(connector.lists(known).await.unwrap(), "an agent does not vanish with its receiver");
    let failed = fault(connector.deliver(known, &payload(PayloadKind::Augment, "f-1", "hello")).await);
    assert_eq!(failed.agent_id, known);
    assert_ne!(failed.cause_kind, Cause::ClientValidation, "a passing fault must not be final: {failed:?}");
    assert!(failed.may_pass() && !failed.message.is_empty(), "{failed:?}");
    match connector.wake(known, &context("come"), &emission("f-2")).await {
        Ok(woken) => assert!(!woken.woken && !woken.warnings.is_empty(), "{woken:?}"),
        Err(ConnectorError::Failed(failed)) => assert_eq!(failed.agent_id, known),
        Err(undone) => panic!("a wake lacks no channel, it degrades: {undone}"),
    }
    refuses_strangers(connector).await;
}

async fn lists_whom_it_claims(connector: &dyn AgentConnector, known: Option<&str>) {
    let agents = connector.list_agents().await.unwrap();
    let names: BTreeSet<&str> = agents.iter().map(|agent| agent.agent_id.as_str()).collect();
    assert_eq!(names.len(), agents.len(), "no name is listed twice");
    assert!(!names.contains(""));
    for name in names.iter().copied().chain(known) {
        assert!(names.contains(name) && connector.lists(name).await.unwrap(), "{name}");
        // A session is no agent.
        assert!(!connector.lists(&format!("{name}@session")).await.unwrap(), "{name}");
    }
    assert!(!connector.lists("nobody").await.unwrap());
}

/// An agent that is not configured is an error of the caller, with and without a session.
async fn refuses_strangers(connector: &dyn AgentConnector) {
    let outgoing = asked("s-1");
    let mut failures = vec![fault(connector.deliver("nobody", &outgoing).await)];
    for address in ["nobody", "nobody@session"] {
        let woken = connector.wake(address, &context("come"), &emission("s-2")).await;
        failures.push(fault(woken));
    }
    if connector.features().request_response {
        failures.push(fault(connector.request_response("nobody", &outgoing, &question()).await));
    }
    for failed in failures {
        assert_eq!(failed.cause_kind, Cause::ClientValidation, "{failed:?}");
        assert!(failed.agent_id.starts_with("nobody") && !failed.may_pass(), "{failed:?}");
        assert_eq!(failed.http_status, None, "nobody was asked");
    }
    assert_eq!(connector.agent_status("nobody").await, AgentStatus::Unknown);
}

/// A connector that cannot interrupt is never an error, and `session_id` overrides the session in the address.
/// A receipt with `woken: false` says why, except from a connector that lists no agents.
async fn wakes_or_degrades(connector: &dyn AgentConnector, agent: &str, claimed: bool) {
    let composite = format!("{agent}@suffix");
    let apart = WakeOpts { session_id: Some("apart".to_owned()), ..context("come") };
    for (address, opts, dispatch) in [
        (agent, context("come"), "w-1"),
        (agent, WakeOpts::default(), "w-2"),
        (&composite, context("come"), "w-3"),
        (&composite, apart, "w-4"),
    ] {
        let woken = connector.wake(address, &opts, &emission(dispatch)).await.unwrap();
        let WakeReceipt { woken_at, session_id, warnings, .. } = &woken;
        assert!(*woken_at > 0 && warnings.iter().all(|warning| !warning.is_empty()), "{woken:?}");
        let says_why = !warnings.is_empty() || woken.nothing_sent;
        assert!(woken.woken || says_why || !claimed, "not woken, and not a word why: {woken:?}");
        assert_ne!(session_id.as_deref(), Some(""), "no session is absent, not empty");
        if dispatch == "w-4" {
            assert_ne!(session_id.as_deref(), Some("suffix"), "{woken:?}");
        }
    }
}

async fn asks_or_says_that_it_cannot(connector: &dyn AgentConnector, agent: &str) {
    let replied = connector.request_response(agent, &asked("q-1"), &question()).await;
    match (connector.features().request_response, replied) {
        (true, Ok(replied)) => {
            let (AskOutcome::Awaited(receipt) | AskOutcome::Answer(receipt, _)) = replied;
            is_well_formed(&receipt);
            // No answer yet. `collect` is harmless even for connectors that do not need it.
            let found = connector.collect(agent, &"q-1".into(), &"corr-1".into()).await;
            assert_eq!(found.unwrap(), None);
        }
        (false, Err(ConnectorError::NotImplemented { implementation, what })) => {
            assert_eq!(implementation, connector.implementation());
            assert!(!what.is_empty());
        }
        (declared, replied) => panic!("declared {declared}, did {replied:?}"),
    }
}

fn is_well_formed(receipt: &DeliveryReceipt) {
    assert!(receipt.delivered_at > 0, "{receipt:?}");
    for text in [&receipt.delivery_id, &receipt.session_id].into_iter().flatten().chain(&receipt.warnings) {
        assert!(!text.is_empty(), "what is not known is absent: {receipt:?}");
    }
}

fn asked(dispatch: &str) -> Payload {
    let mut asked = payload(PayloadKind::Augment, dispatch, "how many?");
    asked.meta.correlation_id = Some("corr-1".into());
    asked
}

fn question() -> ExpectedReply {
    ExpectedReply { correlation_id: "corr-1".into(), timeout: Duration::from_secs(30), reply_to: None }
}

fn files_below(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn the_line_to_agents_that_dial_in_conforms() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await;
    let _seated = heron.sits().await;
    let relay = server.post.directory().connector(&heron.tenant, "relay").await.unwrap().unwrap();
    // A message to an unknown agent reaches no inbox.
    conforms(&*relay, Some("heron"), || 0).await;
    // A session has the status of its agent. Heron may still be busy; this agent got nothing.
    let egret = server.enrol("acme", "egret").await;
    assert_eq!(relay.agent_status("egret@kitchen").await, AgentStatus::Unknown);
    let _seated = egret.sits().await;
    for address in ["egret", "egret@kitchen"] {
        assert_eq!(relay.agent_status(address).await, AgentStatus::Idle, "{address}");
    }
}

#[tokio::test]
async fn the_noop_connector_conforms() {
    let bench = Bench::open().await;
    conforms(&*bench.connector("noop", json!({})), None, || 0).await;
}

#[tokio::test]
async fn the_webhook_connector_conforms() {
    let bench = Bench::open().await;
    let receiver = Receiver::open().await;
    let (url, wake_url) = (format!("{}/in", receiver.base), format!("{}/wake", receiver.base));
    let settings = json!({"agents": {"desk": {"url": url, "wake_url": wake_url}, "mute": {"url": url}}});
    let webhook = bench.connector("webhook", settings);
    for agent in ["desk", "mute"] {
        let mut seen = 0;
        let traces = || {
            seen += receiver.seen().len();
            seen
        };
        conforms(&*webhook, Some(agent), traces).await;
    }
    let nobody_there = json!({"agents": {"desk": {"url": "http://127.0.0.1:1/in"}}});
    fails_honestly(&*bench.connector("webhook", nobody_there), "desk").await;
}

#[tokio::test]
async fn the_file_drop_connector_conforms() {
    let mut bench = Bench::open().await;
    let root = tempfile::tempdir().unwrap();
    let desk = root.path().join("desk");
    std::fs::create_dir(&desk).unwrap();
    bench.config.drop_dirs = vec![root.path().to_owned()];
    for format in ["json", "txt"] {
        let drops = bench.connector("file-drop", json!({"dirs": {"desk": desk}, "format": format}));
        conforms(&*drops, Some("desk"), || files_below(&desk)).await;
    }
    let gone = bench.connector("file-drop", json!({"dirs": {"desk": root.path().join("gone")}}));
    fails_honestly(&*gone, "desk").await;
}

/// A tmux server on a socket of its own, ended with the test.
struct Terminal(tempfile::TempDir);

impl Terminal {
    fn socket(&self) -> PathBuf {
        self.0.path().join("socket")
    }

    fn tmux(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.socket()).args(["-f", "/dev/null"]).args(arguments);
        command.env_remove("TMUX").output().unwrap().stdout
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[tokio::test]
async fn the_tmux_connector_conforms() {
    let mut bench = Bench::open().await;
    bench.config.tmux = true;
    let terminal = Terminal(tempfile::tempdir().unwrap());
    bench.config.tmux_sockets = vec![terminal.socket()];
    let settings = json!({"sessions": {"desk": "desk"}, "socket": terminal.socket()});
    let panes = bench.connector("tmux", settings);
    fails_honestly(&*panes, "desk").await;
    terminal.tmux(&["new-session", "-d", "-s", "desk", "-x", "80", "-y", "20", "stty -echo; exec cat"]);
    let shown = || terminal.tmux(&["capture-pane", "-p", "-t", "desk"]).trim_ascii().len();
    conforms(&*panes, Some("desk"), shown).await;
}

#[tokio::test]
async fn the_connector_of_the_guide_conforms() {
    let bench = Bench::open().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("desk.log");
    let at = |log: &Path| Journal {
        logs: BTreeMap::from([("desk".to_owned(), log.to_owned())]),
        timepiece: bench.time.clone(),
    };
    let length = || usize::try_from(std::fs::metadata(&log).map_or(0, |file| file.len())).unwrap();
    conforms(&at(&log), Some("desk"), length).await;
    let lines = std::fs::read_to_string(&log).unwrap();
    assert_eq!(lines.lines().count(), 8, "three deliveries, one of them again, and four wakes");
    assert!(lines.starts_with(
        r#"{"agent_id":"desk","kind":"augment","content":"/status; -l","meta":{"dispatch_id":"c-1""#
    ));
    fails_honestly(&at(&folder.path().join("gone/desk.log")), "desk").await;
}

#[tokio::test]
async fn the_connector_of_the_guide_looks_after_its_health_without_a_trace() {
    let bench = Bench::open().await;
    let folder = tempfile::tempdir().unwrap();
    let of = |log: PathBuf| Journal {
        logs: BTreeMap::from([("desk".to_owned(), log)]),
        timepiece: bench.time.clone(),
    };
    assert!(of(folder.path().join("desk.log")).health_check().await);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a log that nobody wrote to is there");
    assert!(!of(folder.path().join("gone/desk.log")).health_check().await);
    assert!(!of(folder.path().to_owned()).health_check().await, "a folder is no log");
}

#[tokio::test]
async fn an_agent_on_the_line_is_active_while_it_has_something_to_take() {
    let server = TestServer::open().await;
    let heron = server.enrol("acme", "heron").await;
    let relay = server.post.directory().connector(&heron.tenant, "relay").await.unwrap().unwrap();
    let seated = heron.sits_frozen().await;
    assert_eq!(relay.agent_status("heron").await, AgentStatus::Idle);
    relay.deliver("heron", &payload(PayloadKind::Augment, "b-1", "hello")).await.unwrap();
    assert_eq!(relay.agent_status("heron").await, AgentStatus::Active);
    assert_eq!(relay.agent_status("heron@kitchen").await, AgentStatus::Active);
    seated.thaws();
    seated.hears().await;
    let is_idle = async || relay.agent_status("heron").await == AgentStatus::Idle;
    crate::test_server::eventually("it has taken it", is_idle).await;
}
