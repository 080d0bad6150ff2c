//! Tests of connector settings.

use post::ConnectorNotCreated;
use post::connector::settings::{self, BadSettings};
use posthouse_wire::delivery::{Cause, PayloadKind};
use serde_json::{Value, json};

use crate::bench::{Bench, context, emission, fails, payload};

fn refused(bench: &Bench, kind: &str, settings: Value) -> BadSettings {
    match bench.build(kind, &settings) {
        Ok(_) => panic!("{kind} took {settings}"),
        Err(bad) => bad,
    }
}

#[tokio::test]
async fn a_wrong_setting_is_refused_by_its_name() {
    let mut bench = Bench::open().await;
    bench.config.tmux = true;
    bench.config.drop_dirs = vec!["/srv/drops".into()];
    let desk = |extra: Value| json!({"agents": {"desk": extra}});
    for (kind, settings, field) in [
        ("webhook", json!([]), "settings"),
        ("webhook", json!({}), "agents"),
        ("webhook", json!({"agents": []}), "agents"),
        ("webhook", json!({"agents": "desk"}), "agents"),
        ("webhook", json!({"agents": {"": {"url": "https://a.example"}}}), "agents"),
        ("webhook", desk(json!("https://a.example")), "agents.desk"),
        ("webhook", desk(json!({})), "agents.desk.url"),
        ("webhook", desk(json!({"url": ""})), "agents.desk.url"),
        ("webhook", desk(json!({"url": "a.example"})), "agents.desk.url"),
        ("webhook", desk(json!({"url": "https://me:you@a.example"})), "agents.desk.url"),
        (
            "webhook",
            desk(json!({"url": "https://a.example", "wake_url": "ftp://a.example"})),
            "agents.desk.wake_url",
        ),
        (
            "webhook",
            desk(json!({"url": "https://a.example", "wakeurl": "https://a.example"})),
            "agents.desk.wakeurl",
        ),
        ("webhook", json!({"agents": {}, "timeout_ms": 0}), "timeout_ms"),
        ("webhook", json!({"agents": {}, "timeout_ms": 1.5}), "timeout_ms"),
        ("webhook", json!({"agents": {}, "timeout_ms": "5000"}), "timeout_ms"),
        ("webhook", json!({"agents": {}, "standard_webhooks": 1}), "standard_webhooks"),
        ("webhook", json!({"agents": {}, "retries": 3}), "retries"),
        ("webhook", json!({"agents": {}, "hmac_secret": "s"}), "hmac_secret"),
        ("tmux", json!({}), "sessions"),
        ("tmux", json!({"sessions": {"desk": ""}}), "sessions.desk"),
        ("tmux", json!({"sessions": {"desk": "a:b"}}), "sessions.desk"),
        ("tmux", json!({"sessions": {"desk": "a.1"}}), "sessions.desk"),
        ("tmux", json!({"sessions": {"desk": "-t"}}), "sessions.desk"),
        ("tmux", json!({"sessions": {"desk": "=a"}}), "sessions.desk"),
        ("tmux", json!({"sessions": {"desk": "a*"}}), "sessions.desk"),
        ("tmux", json!({"sessions": {"desk": 1}}), "sessions.desk"),
        ("tmux", json!({"sessions": {}, "window": -1}), "window"),
        ("tmux", json!({"sessions": {}, "pane": "0"}), "pane"),
        ("tmux", json!({"sessions": {}, "tmux": "/usr/bin/env"}), "tmux"),
        ("tmux", json!({"sessions": {}, "socket": "s"}), "socket"),
        ("tmux", json!({"sessions": {}, "sessionMap": {}}), "sessionMap"),
        ("tmux", json!({"sessionMap": {"desk": "a:b"}}), "sessionMap.desk"),
        ("tmux", json!({"sessionMap": {}, "windowIndex": -1}), "windowIndex"),
        ("tmux", json!({"sessionMap": {}, "pane": 0, "paneIndex": 0}), "paneIndex"),
        ("file-drop", json!({}), "dirs"),
        ("file-drop", json!({"dirs": {"desk": "drops"}}), "dirs.desk"),
        ("file-drop", json!({"dirs": {"desk": "/srv/drops/../other"}}), "dirs.desk"),
        ("file-drop", json!({"dirs": {"desk": "/srv/drops/a\u{0}b"}}), "dirs.desk"),
        ("file-drop", json!({"dirs": {}, "format": "xml"}), "format"),
        ("noop", json!({"agents": {}}), "agents"),
        ("pigeon", json!({}), "kind"),
    ] {
        match refused(&bench, kind, settings.clone()) {
            BadSettings::Malformed { field: found, .. } => assert_eq!(found, field, "{kind} {settings}"),
            other => panic!("{kind} {settings}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_webhook_takes_the_bare_map_and_its_text_from_the_reference() {
    let bench = Bench::open().await;
    let map = json!({"desk": {"url": "http://127.0.0.1:1/in"}, "mute": {"url": "http://127.0.0.1:1/in"}});
    for settings in [map.clone(), json!({"agents": map}), json!({"agents": map.to_string()})] {
        let webhook = bench.connector("webhook", settings.clone());
        let agents: Vec<String> =
            webhook.list_agents().await.unwrap().into_iter().map(|agent| agent.agent_id).collect();
        assert_eq!(agents, ["desk", "mute"], "{settings}");
        assert!(webhook.lists("mute").await.unwrap() && !webhook.lists("nobody").await.unwrap());
    }
}

#[tokio::test]
async fn panes_directories_and_private_addresses_need_the_consent_of_the_server() {
    let mut bench = Bench::open().await;
    bench.config.drop_dirs = vec!["/srv/drops".into()];
    bench.errand = errand::Errand::new(errand::Config::default());
    for (kind, settings) in [
        ("tmux", json!({"sessions": {"desk": "desk"}})),
        ("file-drop", json!({"dirs": {"desk": "/srv/other"}})),
        ("file-drop", json!({"dirs": {"desk": "/srv/drops-of-others/desk"}})),
        ("webhook", json!({"agents": {"desk": {"url": "http://a.example"}}})),
        ("webhook", json!({"agents": {"desk": {"url": "https://10.0.0.1"}}})),
    ] {
        let bad = refused(&bench, kind, settings.clone());
        assert!(matches!(bad, BadSettings::NotAllowed(_)), "{kind} {settings}: {bad:?}");
        assert!(matches!(ConnectorNotCreated::from(bad), ConnectorNotCreated::NotAllowed(_)));
    }
}

#[tokio::test]
async fn a_pane_is_reached_by_no_other_socket_than_the_server_names() {
    let mut bench = Bench::open().await;
    bench.config.tmux = true;
    bench.config.tmux_sockets = vec!["/run/agents/tmux".into()];
    let at = |socket: Value| json!({"sessions": {"desk": "desk"}, "socket": socket});
    bench.connector("tmux", json!({"sessions": {"desk": "desk"}}));
    bench.connector("tmux", at(json!("/run/agents/tmux")));
    for socket in ["/run/agents/other", "/run/agents", "/run/agents/../agents/tmux", "/bin/sh -c reboot"] {
        let bad = refused(&bench, "tmux", at(json!(socket)));
        assert!(
            matches!(&bad, BadSettings::NotAllowed(why) if why.contains("post.tmux_sockets")),
            "{socket}: {bad:?}"
        );
    }
}

#[tokio::test]
async fn a_stored_connector_that_may_not_be_opened_keeps_its_names_and_says_why() {
    let bench = Bench::open().await;
    let settings = json!({"sessions": {"desk": "desk"}});
    let barred = settings::rebuild("tmux", &settings, bench.tools());
    assert_eq!(barred.implementation(), "tmux");
    assert!(barred.lists("desk").await.unwrap());
    assert!(!barred.health_check().await);
    let delivered = barred.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await;
    assert!(fails(delivered, Cause::ClientValidation).contains("post.tmux"));
    let woken = barred.wake("desk@home", &context("hello"), &emission("d-1")).await;
    fails(woken, Cause::ClientValidation);
}

#[tokio::test]
async fn panes_are_found_by_the_names_of_the_reference_too() {
    let mut bench = Bench::open().await;
    let settings = json!({"sessionMap": {"desk": "main", "mute": "main"}, "windowIndex": 3, "paneIndex": 1});
    let barred = settings::rebuild("tmux", &settings, bench.tools());
    assert!(barred.lists("mute").await.unwrap());
    bench.config.tmux = true;
    let tmux = bench.connector("tmux", settings);
    assert!(tmux.lists("desk").await.unwrap() && tmux.lists("mute").await.unwrap());
    // Nothing is typed for an empty text, and the receipt tells where it would have been.
    let receipt = tmux.deliver("desk", &payload(PayloadKind::Augment, "d-1", "")).await.unwrap();
    assert_eq!(receipt.delivery_id.as_deref(), Some("tmux:main:3.1:noop"));
}
