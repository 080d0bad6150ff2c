//! Repeated requests (section 11.1), and requests interrupted by a restart.

use posthouse_time::{Moment, Timepiece};
use tokio::runtime::Runtime;

use crate::recorder::Habit;
use crate::test_server::{Agent, TestServer, eventually, seconds};

#[tokio::test]
async fn a_repeat_while_the_first_is_under_way_is_answered_once() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut gateway = heron.sits().await;
    let later = server.clock.now() + seconds(3);
    server.egress.in_chat("c1", Habit::Until(later));
    for _ in 0..3 {
        gateway.sends("r1", "c1", "once").await;
    }
    server.egress.has_begun(1).await;
    gateway.hears_nothing().await;
    server.winds(seconds(3));
    assert_eq!(gateway.hears_result("r1").await["success"], true);
    gateway.hears_nothing().await;
    assert_eq!(server.egress.texts("c1"), ["once"]);
}

#[tokio::test]
async fn a_repeat_on_a_newer_socket_is_answered_there() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut old = heron.sits().await;
    let later = server.clock.now() + seconds(3);
    server.egress.in_chat("c1", Habit::Until(later));
    old.sends("r1", "c1", "once").await;
    server.egress.has_begun(1).await;
    let mut new = heron.sits().await;
    new.sends("r1", "c1", "once").await;
    new.hears_nothing().await;
    server.winds(seconds(3));
    assert_eq!(new.hears_result("r1").await["success"], true);
    old.hears_nothing().await;
}

#[tokio::test]
async fn a_repeat_of_a_finished_request_is_answered_from_memory() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut gateway = heron.sits().await;
    gateway.sends("r1", "c1", "once").await;
    let first = gateway.hears_result("r1").await;
    gateway.sends("r1", "c1", "once").await;
    assert_eq!(gateway.hears_result("r1").await, first);
    assert_eq!(server.egress.texts("c1"), ["once"]);
}

#[tokio::test]
async fn request_ids_of_two_gateways_are_apart() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let other = heron.with_another_gateway("gw-other").await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let (mut one, mut two) = (heron.sits().await, other.sits().await);
    one.sends("r1", "c1", "from one").await;
    assert_eq!(one.hears_result("r1").await["message_id"], "m1");
    two.sends("r1", "c1", "from two").await;
    assert_eq!(two.hears_result("r1").await["message_id"], "m2");
}

/// A server that lives and dies with its runtime, as a process does.
pub fn in_a_house_of_its_own<T>(story: impl Future<Output = T>) -> T {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(story)
}

#[test]
fn what_a_restart_cut_off_is_answered_as_timed_out_and_never_carried_twice() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let (gateway, secret, instance, bots) = in_a_house_of_its_own(async {
        let server = TestServer::open_in(folder.path(), clock.clone()).await;
        let heron = server.heron().await;
        server.says(&heron.bots[0], "c1", "hi").await;
        server.egress.in_chat("c1", Habit::Hangs);
        let mut socket = heron.sits().await;
        socket.sends("r1", "c1", "cut off").await;
        server.egress.has_begun(1).await;
        (heron.gateway, heron.secret, heron.instance, heron.bots)
    });
    in_a_house_of_its_own(async {
        let server = TestServer::open_in(folder.path(), clock.clone()).await;
        let heron = Agent { server: server.clone(), instance, gateway, secret, bots };
        let mut socket = heron.sits_settled().await;
        socket.takes("hi").await;
        socket.sends("r1", "c1", "cut off").await;
        let result = socket.hears_result("r1").await;
        assert_eq!(result["success"], false);
        assert!(result["error"].as_str().unwrap().starts_with("send timed out"), "{result}");
        assert!(server.egress.orders().is_empty());
        socket.says_goodbye().await;
        eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    });
}

#[test]
fn what_was_kept_and_not_acknowledged_survives_a_restart_and_what_was_does_not_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Timepiece::wound(Moment::from_seconds(1_800_000_000));
    let (gateway, secret, instance, bots) = in_a_house_of_its_own(async {
        let server = TestServer::open_in(folder.path(), clock.clone()).await;
        let heron = server.heron().await;
        for text in ["one", "two", "three"] {
            heron.hears_from(text).await;
        }
        let mut socket = heron.sits_settled().await;
        socket.takes("one").await;
        // The second leaves only after the first acknowledgement is on disk.
        assert_eq!(socket.hears_inbound().await.0, "two");
        (heron.gateway, heron.secret, heron.instance, heron.bots)
    });
    in_a_house_of_its_own(async {
        let server = TestServer::open_in(folder.path(), clock.clone()).await;
        let heron = Agent { server: server.clone(), instance, gateway, secret, bots };
        let mut socket = heron.sits_settled().await;
        socket.takes("two").await;
        socket.takes("three").await;
        heron.has_unread(0).await;
    });
}

#[tokio::test]
async fn a_result_whose_socket_is_gone_goes_to_the_socket_that_took_the_session() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut took = heron.sits_settled().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    took.takes("hi").await;
    heron.has_unread(0).await;
    let mut asked = heron.sits().await;
    let later = server.clock.now() + seconds(3);
    server.egress.in_chat("c1", Habit::Until(later));
    asked.sends("r1", "c1", "once").await;
    server.egress.has_begun(1).await;
    let mut newest = heron.sits().await;
    asked.dies();
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 2).await;
    server.winds(seconds(3));
    assert_eq!(took.hears_result("r1").await["success"], true);
    newest.hears_nothing().await;
}

#[tokio::test]
async fn a_result_never_goes_to_another_credential_and_waits_for_the_next_socket_of_its_own() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let other = heron.with_another_gateway("gw-other").await;
    let mut took = other.sits_settled().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    took.takes("hi").await;
    heron.has_unread(0).await;
    let mut asked = heron.sits().await;
    let later = server.clock.now() + seconds(3);
    server.egress.in_chat("c1", Habit::Until(later));
    asked.sends("r1", "c1", "once").await;
    server.egress.has_begun(1).await;
    asked.dies();
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 1).await;
    server.winds(seconds(3));
    server.ledger_is_quiet().await;
    took.hears_nothing().await;
    let mut next = heron.dials().await;
    next.says_hello(&heron.bots[0]).await;
    assert_eq!(next.hears_result("r1").await["success"], true);
}
