//! Tests of the tmux connector, with the real tmux and a server for each test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use post::connector::{AgentConnector, ConnectorError, ExpectedReply};
use posthouse_wire::delivery::{AgentStatus, Cause, PayloadKind, WakeOpts};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bench::{Bench, NOW, context, emission, fails, payload};

/// How long a test waits for what must come. Never waited out by one that passes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A tmux server on a socket of its own, whose panes write down what is typed.
struct Terminal {
    folder: TempDir,
}

impl Terminal {
    fn open() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.socket()).args(["-f", "/dev/null"]).args(arguments);
        let output = command.env_remove("TMUX").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A session whose one pane writes down everything, one line end for each Enter. `brackets`: it asks to be
    /// told where a paste begins and ends, as editors and agents do.
    async fn session(&self, name: &str, brackets: bool) {
        let file = self.file(name);
        let asks = if brackets { r"printf '\033[?2004h';" } else { "" };
        // Neither lines nor echoes: a terminal in its usual manner cuts long lines.
        let script = format!("stty -icanon -echo; {asks} : > {0}; exec cat >> {0}", file.display());
        self.tmux(&["new-session", "-d", "-s", name, "-x", "100", "-y", "20", &script]);
        assert!(until(|| file.exists()).await, "the pane of {name} does not begin");
        if brackets {
            // The server has read the request once the pane knows of it; older ones cannot be asked, so a
            // later line on the screen tells.
            self.tmux(&["send-keys", "-t", name, "x"]);
            let is_typed = || std::fs::read_to_string(&file).unwrap() == "x";
            assert!(until(is_typed).await, "the pane of {name} does not hear");
            std::fs::write(&file, "").unwrap();
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.typed"))
    }

    /// Waits until this, and nothing else, was typed.
    async fn hears(&self, name: &str, expected: &str) {
        let file = self.file(name);
        let heard = || std::fs::read_to_string(&file).unwrap_or_default();
        let came = until(|| heard().len() >= expected.len()).await;
        let heard = heard();
        assert!(came && heard == expected, "heard {:?}", heard.chars().take(300).collect::<String>());
        std::fs::write(&file, "").unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(self.socket()).arg("kill-server").output();
    }
}

/// Waits until something is there; false when it never came.
async fn until(there: impl Fn() -> bool) -> bool {
    let waiting = async {
        while !there() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.is_ok()
}

async fn connector(terminal: &Terminal, more: Value) -> Arc<dyn AgentConnector> {
    connector_with(terminal, "tmux", more).await
}

/// With this tmux program in the configuration.
async fn connector_with(terminal: &Terminal, program: &str, more: Value) -> Arc<dyn AgentConnector> {
    let mut bench = Bench::open().await;
    bench.config.tmux = true;
    bench.config.tmux_program = program.into();
    bench.config.tmux_sockets = vec![terminal.socket()];
    let mut settings = json!({"sessions": {"desk": "desk", "gone": "gone"}, "socket": terminal.socket()});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    bench.connector("tmux", settings)
}

#[tokio::test]
async fn every_text_arrives_as_it_was_written_and_nothing_is_run() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let tmux = connector(&terminal, json!({"header": false})).await;
    let long = "0123456789abcde\n".repeat(200 * 64);
    for text in [
        "-l looks like a flag",
        "--",
        "-",
        "ends in a semicolon;",
        ";",
        "\\;",
        "one\ntwo\n\nfour",
        "tab\tstays",
        "hé 漢字 🦅 e\u{301}",
        "$(reboot) `reboot` ${HOME} && reboot | reboot > /dev/null 'x\" \\n #{pane_id} %1",
        "Enter",
        "C-c",
        &long,
    ] {
        let receipt = tmux.deliver("desk", &payload(PayloadKind::Augment, "d-1", text)).await.unwrap();
        assert_eq!(receipt.delivery_id, Some(format!("tmux:desk:0.0:{NOW}")));
        assert_eq!((receipt.delivered_at, receipt.session_id.as_deref()), (NOW, Some("desk")));
        terminal.hears("desk", &format!("{text}\n")).await;
    }
    assert_eq!(terminal.tmux(&["list-buffers"]), "", "no text is left in a buffer");
}

#[tokio::test]
async fn control_characters_are_not_typed() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let tmux = connector(&terminal, json!({"header": false})).await;
    let text = "a\u{3}b\u{4}c\u{1b}[201~d\u{7}e\r\nf\u{7f}g\u{9b}h\u{0}\u{1a}i\u{13}j";
    tmux.deliver("desk", &payload(PayloadKind::Augment, "d-1", text)).await.unwrap();
    terminal.hears("desk", "abc[201~de\nfghij\n").await;
    let silence = tmux.deliver("desk", &payload(PayloadKind::Augment, "d-1", "\u{3}\u{1b}\r")).await.unwrap();
    assert_eq!(silence.delivery_id.as_deref(), Some("tmux:desk:0.0:noop"));
}

#[tokio::test]
async fn many_lines_are_one_paste_under_one_header() {
    let terminal = Terminal::open();
    terminal.session("desk", true).await;
    let tmux = connector(&terminal, json!({})).await;
    tmux.deliver("desk", &payload(PayloadKind::Template, "d-1", "one\ntwo")).await.unwrap();
    let header = "[posthouse dispatch=d-1 from=probe kind=template]";
    terminal.hears("desk", &format!("\u{1b}[200~{header}\none\ntwo\u{1b}[201~\n")).await;
}

#[tokio::test]
async fn texts_that_come_at_once_do_not_share_a_line() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let tmux = connector(&terminal, json!({"header": false})).await;
    let texts: Vec<_> = (10..26).map(|n| payload(PayloadKind::Augment, "d-1", &n.to_string())).collect();
    let deliveries = texts.iter().map(|outgoing| tmux.deliver("desk", outgoing));
    for delivered in futures_util::future::join_all(deliveries).await {
        delivered.unwrap();
    }
    let heard = || std::fs::read_to_string(terminal.file("desk")).unwrap();
    assert!(until(|| heard().len() >= 16 * 3).await, "{:?}", heard());
    let heard = heard();
    let mut lines: Vec<u32> = heard.lines().map(|line| line.parse().unwrap()).collect();
    lines.sort_unstable();
    assert_eq!(lines, (10..26).collect::<Vec<u32>>());
}

#[tokio::test]
async fn somebody_scrolling_in_the_pane_does_not_swallow_the_enter() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let tmux = connector(&terminal, json!({"header": false})).await;
    terminal.tmux(&["copy-mode", "-t", "desk"]);
    tmux.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await.unwrap();
    terminal.hears("desk", "hello\n").await;
}

#[tokio::test]
async fn an_empty_text_is_not_sent() {
    let terminal = Terminal::open();
    let tmux = connector(&terminal, json!({})).await;
    // This does not even need a tmux server.
    let receipt = tmux.deliver("desk", &payload(PayloadKind::Augment, "d-1", "")).await.unwrap();
    assert_eq!(receipt.delivery_id.as_deref(), Some("tmux:desk:0.0:noop"));
}

#[tokio::test]
async fn live_interrupt_channel_tmux_pane_wakes() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let tmux = connector(&terminal, json!({})).await;
    let woken = tmux.wake("desk@desk", &context("come"), &emission("w-1")).await.unwrap();
    assert!(woken.woken && woken.warnings.is_empty() && !woken.nothing_sent);
    assert_eq!((woken.woken_at, woken.session_id.as_deref()), (NOW, Some("desk")));
    terminal.hears("desk", "[posthouse dispatch=w-1 from=probe kind=wake]\ncome\n").await;
    let elsewhere = tmux.wake("desk@attic", &context("come"), &emission("w-2")).await.unwrap();
    assert_eq!((elsewhere.session_id.as_deref(), elsewhere.warnings.len()), (Some("desk"), 1));
}

#[tokio::test]
async fn a_wake_without_context_interrupts_a_live_pane_and_is_woken() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    for (settings, heard) in
        [(json!({}), "[posthouse dispatch=w-1 from=probe kind=wake]\n"), (json!({"header": false}), "\n")]
    {
        let tmux = connector(&terminal, settings).await;
        let woken = tmux.wake("desk", &WakeOpts::default(), &emission("w-1")).await.unwrap();
        assert!(woken.woken && woken.warnings.is_empty() && !woken.nothing_sent, "{woken:?}");
        terminal.hears("desk", heard).await;
    }
    // Also while somebody scrolls in it.
    terminal.tmux(&["copy-mode", "-t", "desk"]);
    let tmux = connector(&terminal, json!({"header": false})).await;
    assert!(tmux.wake("desk", &WakeOpts::default(), &emission("w-2")).await.unwrap().woken);
    terminal.hears("desk", "\n").await;
    let offline = tmux.wake("gone", &WakeOpts::default(), &emission("w-3")).await.unwrap();
    assert!(!offline.woken && offline.nothing_sent);
}

#[tokio::test]
async fn channel_exists_agent_offline_tmux_session_gone_is_not_woken() {
    let terminal = Terminal::open();
    let tmux = connector(&terminal, json!({})).await;
    let is_not_woken = || async {
        let woken = tmux.wake("gone", &context("come"), &emission("w-1")).await.unwrap();
        assert!(!woken.woken && woken.nothing_sent);
        assert!(woken.warnings[0].contains("'gone'"), "{:?}", woken.warnings);
        assert_eq!(tmux.agent_status("gone").await, AgentStatus::Asleep);
    };
    // There is no server at all.
    is_not_woken().await;
    // A session with a longer name does not match, although tmux itself would accept the prefix.
    terminal.session("gone-fishing", false).await;
    terminal.tmux(&["has-session", "-t", "gone"]);
    is_not_woken().await;
}

#[tokio::test]
async fn unknown_agent_tmux_fails_before_anything_is_run() {
    let terminal = Terminal::open();
    let tmux = connector_with(&terminal, "/nowhere/tmux", json!({})).await;
    let message = fails(
        tmux.deliver("nobody", &payload(PayloadKind::Augment, "d-1", "x")).await,
        Cause::ClientValidation,
    );
    assert_eq!(message, "Agent 'nobody' is not configured. Wired agents: desk, gone.");
    fails(tmux.wake("nobody@desk", &context("come"), &emission("w-1")).await, Cause::ClientValidation);
}

#[tokio::test]
async fn network_or_auth_fault_tmux_that_cannot_be_reached_fails() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let tmux = connector(&terminal, json!({})).await;
    let outgoing = payload(PayloadKind::Augment, "d-1", "hello");
    let message = fails(tmux.deliver("gone", &outgoing).await, Cause::Network);
    assert!(
        message.contains("'gone'") && !message.contains(terminal.socket().to_str().unwrap()),
        "{message}"
    );
    let nowhere = connector_with(&terminal, "/nowhere/tmux", json!({})).await;
    fails(nowhere.deliver("desk", &outgoing).await, Cause::Network);
    fails(nowhere.wake("desk", &context("come"), &emission("w-1")).await, Cause::Network);
    assert!(!nowhere.health_check().await);
    assert_eq!(nowhere.agent_status("desk").await, AgentStatus::Unknown);
}

#[tokio::test]
async fn a_pane_that_is_not_there_or_dead_gets_nothing() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let outgoing = payload(PayloadKind::Augment, "d-1", "hello");
    for place in [json!({"pane": 3}), json!({"window": 7})] {
        let tmux = connector(&terminal, place).await;
        fails(tmux.deliver("desk", &outgoing).await, Cause::Network);
    }
    terminal.tmux(&["set-option", "-t", "desk", "remain-on-exit", "on"]);
    terminal.tmux(&["respawn-pane", "-k", "-t", "desk", "true"]);
    let dead = || terminal.tmux(&["list-panes", "-t", "desk", "-F", "#{pane_dead}"]) == "1\n";
    assert!(until(dead).await, "the pane does not die");
    fails(connector(&terminal, json!({})).await.deliver("desk", &outgoing).await, Cause::Network);
}

#[tokio::test]
async fn panes_are_healthy_when_every_session_is_there() {
    let terminal = Terminal::open();
    terminal.session("desk", false).await;
    let tmux = connector(&terminal, json!({})).await;
    assert!(!tmux.health_check().await);
    terminal.session("gone", false).await;
    assert!(tmux.health_check().await);
    assert_eq!(tmux.agent_status("desk").await, AgentStatus::Active);
    assert_eq!(tmux.agent_status("nobody").await, AgentStatus::Unknown);
}

#[tokio::test]
async fn nothing_comes_back_from_a_pane() {
    let terminal = Terminal::open();
    let tmux = connector(&terminal, json!({})).await;
    let question = ExpectedReply { correlation_id: "c-1".into(), timeout: PATIENCE, reply_to: None };
    let asked = tmux.request_response("desk", &payload(PayloadKind::Augment, "d-1", "?"), &question).await;
    assert!(matches!(asked, Err(ConnectorError::NotImplemented { implementation: "tmux", .. })));
    assert!(!tmux.features().request_response && !tmux.repeats_harmlessly());
}
