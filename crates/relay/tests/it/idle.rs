//! Going idle (section 16.1).

use serde_json::json;

use crate::test_server::{TestServer, eventually};

#[tokio::test]
async fn after_going_idle_nothing_follows_and_the_next_socket_drains() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits_settled().await;
    heron.hears_from("one").await;
    gateway.takes("one").await;
    gateway.say(json!({"type": "going_idle"})).await;
    assert_eq!(gateway.hears().await, json!({"type": "going_idle_ack"}));
    assert!(server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().idle);
    assert!(server.relay.connections().presence(&heron.instance).idle);
    heron.hears_from("two").await;
    heron.hears_from("three").await;
    gateway.hears_nothing().await;
    // It may still ask for something.
    gateway.sends("r1", "c1", "good night").await;
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    gateway.says_goodbye().await;
    let mut back = heron.sits_settled().await;
    assert!(!server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().idle);
    back.takes("two").await;
    back.takes("three").await;
}

#[tokio::test]
async fn an_entry_outstanding_when_it_goes_idle_may_still_be_acknowledged() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    heron.hears_from("two").await;
    let mut gateway = heron.sits_settled().await;
    let (_, entry) = gateway.hears_inbound().await;
    gateway.say(json!({"type": "going_idle"})).await;
    assert_eq!(gateway.hears().await["type"], "going_idle_ack");
    gateway.acknowledges(&entry).await;
    heron.has_unread(1).await;
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn a_superseded_process_that_goes_idle_does_not_silence_its_successor() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_settled().await;
    let mut new = heron.sits_settled().await;
    old.hears_nothing().await;
    old.say(json!({"type": "going_idle"})).await;
    assert_eq!(old.hears().await["type"], "going_idle_ack");
    assert!(!server.relay.connections().presence(&heron.instance).idle);
    heron.hears_from("one").await;
    new.takes("one").await;
    // Nor is it ever delivered to again.
    new.dies();
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 1).await;
    heron.hears_from("two").await;
    old.hears_nothing().await;
    assert_eq!(heron.unread().await, 1);
}

#[tokio::test]
async fn a_gateway_that_goes_idle_flips_only_itself() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let other = heron.with_another_gateway("gw-other").await;
    let mut first = heron.sits_settled().await;
    let mut second = other.sits_settled().await;
    second.say(json!({"type": "going_idle"})).await;
    assert_eq!(second.hears().await["type"], "going_idle_ack");
    heron.hears_from("one").await;
    first.answers_a_ping().await;
    first.takes("one").await;
    second.hears_nothing().await;
    assert!(!server.relay.connections().presence(&heron.instance).idle);
}

#[tokio::test]
async fn who_goes_idle_before_its_hello_changes_nothing() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut live = heron.sits_settled().await;
    let mut silent = heron.dials().await;
    silent.say(json!({"type": "going_idle"})).await;
    assert_eq!(silent.hears().await["type"], "going_idle_ack");
    heron.hears_from("one").await;
    live.takes("one").await;
    assert!(!server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().idle);
}

#[tokio::test]
async fn who_goes_idle_before_its_hello_takes_over_like_any_other() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.dials().await;
    old.say(json!({"type": "going_idle"})).await;
    assert_eq!(old.hears().await["type"], "going_idle_ack");
    old.says_hello(&heron.bots[0]).await;
    old.hears_nothing().await;
    let new = heron.sits_settled().await;
    new.dies();
    old.answers_a_ping().await;
    heron.hears_from("one").await;
    old.takes("one").await;
}
