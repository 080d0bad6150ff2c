//! Connecting: authentication, and refusal of bad credentials (sections 3 and 7).

use identity::WhichCredentials;
use posthouse_wire::{GatewayId, Secret, token};
use serde_json::json;

use crate::gateway::{End, Gateway};
use crate::test_server::{TestServer, eventually, seconds};

fn unauthorized() -> End {
    End::Closed(4401, "unauthorized".to_owned())
}

#[tokio::test]
async fn a_refused_dial_is_upgraded_and_closed_4401_before_its_first_frame() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let now = server.clock.now().seconds();
    let foreign = token::mint(&heron.gateway, &Secret::new("another"), 300, now);
    let unknown = token::mint(&GatewayId::new("gw-nobody"), &heron.secret, 300, now);
    for refused in [None, Some("garbage"), Some(&*foreign), Some(&*unknown), Some("")] {
        let mut gateway = Gateway::dial(&server, refused).await;
        assert_eq!(gateway.ends().await, unauthorized(), "{refused:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_seen_by_a_gateway_that_has_already_said_hello() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for _ in 0..8 {
        let mut gateway = Gateway::dial(&server, None).await;
        gateway.say(json!({"type": "hello", "platform": "telegram", "botId": "7001"})).await;
        assert_eq!(gateway.ends().await, unauthorized());
    }
    heron.sits().await.hears_nothing().await;
}

#[tokio::test]
async fn a_token_past_its_time_is_good_for_another_minute_and_then_expired() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let token = heron.token();
    server.winds(seconds(300 + 60));
    Gateway::dial(&server, Some(&token)).await.says_hello(&heron.bots[0]).await;
    server.winds(seconds(1));
    let mut late = Gateway::dial(&server, Some(&token)).await;
    assert_eq!(late.ends().await, End::Closed(4401, "expired".to_owned()));
}

#[tokio::test]
async fn a_token_that_never_expires_is_good() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let token = token::mint(&heron.gateway, &heron.secret, 0, 0);
    server.winds(seconds(1_000_000));
    Gateway::dial(&server, Some(&token)).await.says_hello(&heron.bots[0]).await;
}

#[tokio::test]
async fn a_rotated_secret_is_good_for_another_day() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.identity.accounts.rotate(&heron.gateway, &heron.instance).await.unwrap().unwrap();
    heron.sits().await.hears_nothing().await;
    server.winds(seconds(24 * 3600));
    assert_eq!(heron.dials().await.ends().await, unauthorized());
}

#[tokio::test]
async fn past_ten_refusals_in_a_minute_the_answer_is_delayed() {
    let server = TestServer::open().await;
    for _ in 0..10 {
        assert_eq!(Gateway::dial(&server, None).await.ends().await, unauthorized());
    }
    let slowed = tokio::spawn({
        let server = server.clone();
        async move { Gateway::dial(&server, None).await }
    });
    server.ledger_is_quiet().await;
    tokio::task::yield_now().await;
    // Not even the answer is there: after it, a stock agent would say hello before it sees the close.
    assert!(!slowed.is_finished());
    assert_eq!(server.winds_until(slowed).await.unwrap().ends().await, unauthorized());
    server.winds(seconds(60));
    assert_eq!(Gateway::dial(&server, None).await.ends().await, unauthorized());
}

#[tokio::test]
async fn past_a_hundred_refusals_there_is_no_upgrade_until_the_minute_is_over() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let dials = (0..101).map(|_| {
        let server = server.clone();
        tokio::spawn(async move { Gateway::try_dial(&server, None).await.is_ok() })
    });
    let dials: Vec<_> = dials.collect();
    // Ten are answered at once, and the last is barred; by then all were counted.
    eventually(|| dials.iter().filter(|dial| dial.is_finished()).count() == 11).await;
    let upgraded = server.winds_until(futures_util::future::join_all(dials)).await;
    assert_eq!(upgraded.iter().filter(|upgraded| *upgraded.as_ref().unwrap()).count(), 100);
    assert!(Gateway::try_dial(&server, None).await.is_err());
    // Somebody else behind the same address is let in all the while.
    heron.sits().await.hears_nothing().await;
    server.winds(seconds(60));
    assert_eq!(Gateway::dial(&server, None).await.ends().await, unauthorized());
}

#[tokio::test]
async fn whoever_knows_a_gateways_name_cannot_lock_it_out() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let forged = token::mint(&heron.gateway, &Secret::new("guess"), 300, server.clock.now().seconds());
    let dials = (0..30).map(|_| Gateway::try_dial(&server, Some(&forged)));
    drop(server.winds_until(futures_util::future::join_all(dials)).await);
    heron.sits().await.hears_nothing().await;
}

#[tokio::test]
async fn a_revocation_or_removal_ends_connections_before_its_command_answers() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let egret = server.enrol("globex", "egret", &[crate::test_server::bot("telegram", "7002")]).await;
    let (_heron_socket, _egret_socket) = (heron.sits().await, egret.sits().await);
    let is_connected = |instance| server.relay.connections().presence(instance).connected;
    let which = WhichCredentials::Gateway(heron.gateway.clone());
    server.identity.accounts.revoke(&heron.instance, which).await.unwrap();
    assert!(!is_connected(&heron.instance));
    assert!(is_connected(&egret.instance));
    server.identity.accounts.remove_agent(&egret.instance).await.unwrap();
    assert!(!is_connected(&egret.instance));
}

#[tokio::test]
async fn revoked_while_connected_is_closed_4401_at_once_and_refused_later() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let second = heron.with_another_gateway("gw-second").await;
    let (mut live, mut other, mut silent) = (heron.sits().await, second.sits().await, heron.dials().await);
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 3).await;
    let which = WhichCredentials::Gateway(heron.gateway.clone());
    let ended = server.identity.accounts.revoke(&heron.instance, which).await.unwrap();
    assert!(ended.gateways.len() == 1 && ended.gateways[0] == heron.gateway);
    assert_eq!(live.ends().await, unauthorized());
    assert_eq!(silent.ends().await, unauthorized());
    assert_eq!(heron.dials().await.ends().await, unauthorized());
    other.hears_nothing().await;
}

#[tokio::test]
async fn an_agent_that_is_deprovisioned_is_closed_4401_on_every_socket_and_refused_later() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let second = heron.with_another_gateway("gw-second").await;
    let (mut live, mut other) = (heron.sits().await, second.sits().await);
    for _ in 0..2 {
        let claims = server.identity.gate.claims();
        server.identity.accounts.deprovision(claims, &heron.instance).await.unwrap();
    }
    assert_eq!(live.ends().await, unauthorized());
    assert_eq!(other.ends().await, unauthorized());
    for gateway in [&heron, &second] {
        assert_eq!(gateway.dials().await.ends().await, unauthorized());
    }
}

#[tokio::test]
async fn an_agent_that_is_removed_is_closed_4401_and_refused_later() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut live = heron.sits().await;
    server.identity.accounts.remove_agent(&heron.instance).await.unwrap();
    assert_eq!(live.ends().await, unauthorized());
    assert_eq!(heron.dials().await.ends().await, unauthorized());
    assert!(
        server
            .brings(&heron.bots[0], crate::test_server::message(&heron.bots[0], "c1", "hi"), None)
            .await
            .is_none()
    );
}

#[tokio::test]
async fn a_socket_without_an_accepted_hello_is_closed_1008_after_25_seconds() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut silent = heron.dials().await;
    silent.say(json!({"type": "hello", "platform": "discord", "botId": "nobody"})).await;
    silent.hears_nothing().await;
    server.winds(seconds(25));
    assert_eq!(silent.ends().await, End::Closed(1008, "no usable identity".to_owned()));
}

#[tokio::test]
async fn a_peer_is_pinged_when_silent_for_30_seconds_and_dropped_after_90() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    server.winds(seconds(30));
    gateway.answers_a_ping().await;
    gateway.hears_nothing().await;
    server.winds(seconds(90));
    assert_eq!(gateway.ends().await, End::Closed(1001, "silent".to_owned()));
}
