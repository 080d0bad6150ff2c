//! Newest socket wins (section 16.5).

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::gateway::End;
use crate::test_server::{TestServer, eventually, seconds};

fn superseded() -> End {
    End::Closed(4409, "superseded".to_owned())
}

#[tokio::test]
async fn the_newest_socket_gets_what_comes_and_the_old_one_is_a_silent_standby() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_settled().await;
    heron.hears_from("one").await;
    old.takes("one").await;
    let mut new = heron.sits().await;
    heron.hears_from("two").await;
    server.winds(seconds(4));
    new.takes("two").await;
    // Its requests are still answered.
    old.sends("r1", "c1", "from the old one").await;
    assert_eq!(old.hears_result("r1").await["success"], true);
    old.hears_nothing().await;
    new.hears_nothing().await;
}

#[tokio::test]
async fn a_socket_supersedes_only_when_its_hello_is_accepted() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_settled().await;
    let mut silent = heron.dials().await;
    silent.hears_nothing().await;
    heron.hears_from("one").await;
    old.takes("one").await;
    silent.hears_nothing().await;
}

#[tokio::test]
async fn a_superseded_socket_stays_standby_while_it_answers_pings() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (mut old, mut new) = (heron.sits().await, heron.sits().await);
    for _ in 0..20 {
        server.winds(seconds(30));
        for socket in [&mut old, &mut new] {
            socket.answers_a_ping().await;
            socket.hears_nothing().await;
        }
    }
    old.sends("r1", "c1", "still here").await;
    assert_eq!(old.hears_result("r1").await["code"], "egress_declined");
    // One that stops answering is dropped like any other.
    server.winds(seconds(30));
    old.leaves_a_ping_unanswered().await;
    new.answers_a_ping().await;
    new.hears_nothing().await;
    server.winds(seconds(60));
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 1).await;
}

#[tokio::test]
async fn two_processes_with_one_credential_do_not_evict_each_other_in_a_loop() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (mut one, mut two) = (heron.sits_settled().await, heron.sits_settled().await);
    for round in 0..10 {
        server.winds(seconds(30));
        for socket in [&mut one, &mut two] {
            socket.answers_a_ping().await;
            socket.hears_nothing().await;
        }
        let text = round.to_string();
        heron.hears_from(&text).await;
        two.takes(&text).await;
        one.hears_nothing().await;
    }
    let roles: Vec<_> = server
        .relay
        .connections()
        .presence(&heron.instance)
        .connections
        .iter()
        .map(|socket| socket.role)
        .collect();
    assert_eq!(roles, ["standby", "live"]);
}

#[tokio::test]
async fn past_four_standbys_the_oldest_is_closed_4409() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut standbys = std::collections::VecDeque::new();
    for _ in 0..5 {
        standbys.push_back(heron.sits().await);
    }
    let _live = heron.sits().await;
    assert_eq!(standbys.pop_front().unwrap().ends().await, superseded());
    for standby in &mut standbys {
        standby.hears_nothing().await;
    }
}

#[tokio::test]
async fn what_the_old_socket_had_not_acknowledged_goes_to_the_new_one() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    heron.hears_from("two").await;
    let mut old = heron.sits_settled().await;
    assert_eq!(old.hears_inbound().await.0, "one");
    let mut new = heron.sits_settled().await;
    new.takes("one").await;
    new.takes("two").await;
    old.hears_nothing().await;
}

#[tokio::test]
async fn a_standby_that_answers_is_promoted_when_the_live_socket_dies() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_settled().await;
    let mut new = heron.sits_settled().await;
    heron.hears_from("one").await;
    new.hears_inbound().await;
    new.dies();
    old.answers_a_ping().await;
    old.takes("one").await;
    heron.hears_from("two").await;
    old.takes("two").await;
    heron.has_unread(0).await;
    old.hears_nothing().await;
    server.winds(seconds(60));
    old.hears_nothing().await;
}

#[tokio::test]
async fn a_busy_standby_that_is_promoted_starts_with_the_first_unread_entry() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_with_window(2).await;
    heron.hears_from("one").await;
    assert_eq!(old.hears_inbound().await.0, "one");
    let new = heron.sits().await;
    old.answers_a_ping().await;
    old.hears_nothing().await;
    heron.hears_from("two").await;
    // One message keeps the old one's task busy while the new one dies. Then it looks for entries.
    let hello = json!({"type": "hello", "platform": "telegram", "botId": "7001"});
    old.say_raw(Message::text(format!("{hello}\n").repeat(50))).await;
    new.dies();
    for _ in 0..50 {
        assert_eq!(old.hears().await["type"], "descriptor");
    }
    old.takes("one").await;
    old.takes("two").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_standby_that_does_not_answer_is_not_handed_anything() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut frozen = heron.sits_settled().await;
    let new = heron.sits_settled().await;
    heron.hears_from("one").await;
    frozen.hears_nothing().await;
    new.dies();
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 1).await;
    server.winds(seconds(5));
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    assert_eq!(frozen.ends().await, End::Closed(1011, "a ping was not answered".to_owned()));
    assert_eq!(heron.unread().await, 1);
}

#[tokio::test]
async fn of_several_gateways_the_most_recently_live_one_is_delivered_to() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let other = heron.with_another_gateway("gw-other").await;
    let mut first = heron.sits_settled().await;
    let mut second = other.sits_settled().await;
    heron.hears_from("one").await;
    second.takes("one").await;
    // Another credential's session is no standby: it stays.
    server.winds(seconds(29));
    first.hears_nothing().await;
    second.hears_nothing().await;
    server.winds(seconds(29));
    first.hears_nothing().await;
    second.hears_nothing().await;
    server.winds(seconds(29));
    first.hears_nothing().await;
    second.says_goodbye().await;
    eventually(|| server.relay.connections().presence(&heron.instance).sockets == 1).await;
    heron.hears_from("two").await;
    first.takes("two").await;
}

#[tokio::test]
async fn a_backlog_is_not_missed_by_a_socket_that_takes_over_while_the_old_one_is_busy() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut old = heron.sits_settled().await;
    for round in 0..30 {
        heron.hears_from(&format!("{round}a")).await;
        let (_, entry) = old.hears_inbound().await;
        heron.hears_from(&format!("{round}b")).await;
        // The acknowledgement makes the old socket look again at the very moment it is superseded.
        let (mut new, ()) = tokio::join!(heron.sits(), old.acknowledges(&entry));
        heron.has_unread_at_most(1).await;
        server.winds(seconds(4));
        let mut left = heron.unread().await;
        while left > 0 {
            let (_, entry) = new.hears_inbound().await;
            new.acknowledges(&entry).await;
            heron.has_unread_at_most(left - 1).await;
            left = heron.unread().await;
        }
        old.dies();
        old = new;
        eventually(|| server.relay.connections().presence(&heron.instance).sockets == 1).await;
    }
    assert!(heron.dead_letters().await.is_empty());
}

#[tokio::test]
async fn a_revocation_whose_word_was_missed_is_found_out() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let other = heron.with_another_gateway("gw-other").await;
    let (mut ended, mut good) = (heron.sits().await, other.sits().await);
    assert!(server.keyring.revoke(&heron.gateway).await.unwrap());
    // More than a listener can fall behind by.
    for _ in 0..2_000 {
        server.identity.roster.agent_changed(&heron.instance);
    }
    assert_eq!(ended.ends().await, End::Closed(4401, "unauthorized".to_owned()));
    good.hears_nothing().await;
}

#[tokio::test]
async fn a_credential_that_ended_between_dial_and_hello_gets_no_seat() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut late = heron.dials().await;
    late.hears_nothing().await;
    assert!(server.keyring.revoke(&heron.gateway).await.unwrap());
    heron.hears_from("not for it").await;
    late.says_hello(&heron.bots[0]).await;
    assert_eq!(late.ends().await, End::Closed(4401, "unauthorized".to_owned()));
    assert_eq!(heron.unread().await, 1);
}

#[tokio::test]
async fn at_the_socket_cap_the_oldest_goes_and_not_the_newcomer() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut live = heron.sits_settled().await;
    let mut held = std::collections::VecDeque::new();
    for _ in 0..15 {
        held.push_back(heron.dials().await);
    }
    let mut newcomer = heron.dials().await;
    let end = held.pop_front().unwrap().ends().await;
    assert_eq!(end, End::Closed(1013, "too many sockets".to_owned()));
    // The live one is the last to go, and the newcomer may take over.
    live.hears_nothing().await;
    newcomer.says_hello(&heron.bots[0]).await;
    newcomer.hears_nothing().await;
    server.winds(seconds(4));
    heron.hears_from("one").await;
    newcomer.takes("one").await;
}
