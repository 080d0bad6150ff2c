//! Lease: entries that were delivered and not acknowledged (sections 16.3 and 16.4).

use std::time::Duration;

use crate::gateway::{End, Gateway};
use crate::test_server::{Agent, TestServer, eventually, seconds};

fn not_acknowledged() -> End {
    End::Closed(1011, "an entry was not acknowledged".to_owned())
}

/// The lease of an entry, and the time at which the agent is pinged.
fn lease() -> Duration {
    relay::Config::default().ack_lease.0
}

fn asked_after() -> Duration {
    lease() - lease() / 6
}

/// Is handed an entry, answers the server's ping and sits on it until the lease is over.
async fn sits_on_it(agent: &Agent, mut gateway: Gateway) {
    gateway.hears_inbound().await;
    agent.server.winds(asked_after());
    gateway.answers_a_ping().await;
    gateway.hears_nothing().await;
    agent.server.winds(lease() - asked_after());
    assert_eq!(gateway.ends().await, not_acknowledged());
    eventually(|| !agent.server.relay.connections().presence(&agent.instance).connected).await;
}

/// Is handed an entry and is frozen from then on.
async fn freezes(agent: &Agent) {
    let mut gateway = agent.sits_settled().await;
    gateway.hears_inbound().await;
    agent.server.winds(asked_after());
    gateway.leaves_a_ping_unanswered().await;
    agent.server.winds(lease() - asked_after());
    eventually(|| !agent.server.relay.connections().presence(&agent.instance).connected).await;
    agent.server.winds(seconds(2));
    gateway.dies();
}

#[tokio::test]
async fn a_socket_silent_for_the_lease_is_closed_1011_and_the_entry_is_handed_over_again() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let entry = heron.hears_from("one").await;
    let mut gateway = heron.sits_settled().await;
    gateway.hears_inbound().await;
    server.winds(lease() - seconds(1));
    gateway.hears_nothing().await;
    server.winds(seconds(1));
    assert_eq!(gateway.ends().await, not_acknowledged());
    let mut again = heron.sits_settled().await;
    assert_eq!(again.hears_inbound().await, ("one".to_owned(), entry.as_str().to_owned()));
}

#[tokio::test]
async fn the_third_sign_of_poison_makes_a_dead_letter_and_the_next_entry_flows() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let poison = heron.hears_from("poison").await;
    heron.hears_from("innocent").await;
    for signs in 0..3 {
        assert!(heron.dead_letters().await.is_empty(), "after {signs}");
        sits_on_it(&heron, heron.sits_settled().await).await;
    }
    assert_eq!(heron.dead_letters().await, [poison]);
    let mut gateway = heron.sits_settled().await;
    gateway.takes("innocent").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_stalled_stock_reader_is_not_poison() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("innocent").await;
    for stall in 0..12 {
        let mut gateway = heron.sits_settled().await;
        gateway.hears_inbound().await;
        // Its handler sends something and waits for a result that its own reader would have to read.
        gateway.sends(&format!("r{stall}"), "c1", "one moment").await;
        gateway.hears_result(&format!("r{stall}")).await;
        server.winds(asked_after());
        gateway.answers_a_ping().await;
        gateway.hears_nothing().await;
        server.winds(lease() - asked_after());
        assert_eq!(gateway.ends().await, not_acknowledged());
        eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    }
    assert!(heron.dead_letters().await.is_empty());
    // Most of the time it is deaf for half a minute, acknowledges, and goes on.
    heron.hears_from("next").await;
    let mut gateway = heron.sits_settled().await;
    let (_, entry) = gateway.hears_inbound().await;
    gateway.sends("last", "c1", "one moment").await;
    server.winds(seconds(30));
    gateway.hears_result("last").await;
    gateway.acknowledges(&entry).await;
    gateway.takes("next").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_frozen_agent_never_counts_however_often() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("innocent").await;
    for _ in 0..12 {
        freezes(&heron).await;
    }
    assert!(heron.dead_letters().await.is_empty());
    heron.sits_settled().await.takes("innocent").await;
}

#[tokio::test]
async fn an_agent_that_said_something_and_then_froze_does_not_count_either() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("innocent").await;
    for _ in 0..4 {
        let mut gateway = heron.sits_settled().await;
        gateway.hears_inbound().await;
        server.winds(seconds(10));
        gateway.hears_nothing().await;
        server.winds(asked_after() - seconds(10));
        gateway.leaves_a_ping_unanswered().await;
        server.winds(lease() - asked_after());
        eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
        gateway.dies();
    }
    assert!(heron.dead_letters().await.is_empty());
    heron.sits_settled().await.takes("innocent").await;
}

#[tokio::test]
async fn a_socket_that_merely_dies_counts_from_the_tenth_time() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let entry = heron.hears_from("one").await;
    for death in 1..=12 {
        assert!(heron.dead_letters().await.is_empty(), "before death {death}");
        let mut gateway = heron.sits_settled().await;
        gateway.hears_inbound().await;
        gateway.dies();
        eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    }
    assert_eq!(heron.dead_letters().await, [entry]);
}

#[tokio::test]
async fn a_reader_that_died_of_an_entry_and_redialed_is_a_sign_of_poison() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let poison = heron.hears_from("poison").await;
    heron.hears_from("innocent").await;
    let mut old = heron.sits_settled().await;
    old.hears_inbound().await;
    for signs in 1..=3 {
        let mut new = heron.sits().await;
        // The old socket's reader is dead, but its pings are answered.
        old.answers_a_ping().await;
        old.hears_nothing().await;
        assert_eq!(heron.dead_letters().await.len(), usize::from(signs == 3), "{signs}");
        server.winds(seconds(4));
        if signs == 3 {
            new.takes("innocent").await;
        } else {
            assert_eq!(new.hears_inbound().await.0, "poison");
        }
        old = new;
    }
    assert_eq!(heron.dead_letters().await, [poison]);
}

#[tokio::test]
async fn a_superseded_socket_that_acknowledges_late_clears_its_entry() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let mut old = heron.sits_settled().await;
    let (_, entry) = old.hears_inbound().await;
    let mut new = heron.sits().await;
    old.acknowledges(&entry).await;
    old.answers_a_ping().await;
    heron.has_unread(0).await;
    server.winds(seconds(4));
    new.hears_nothing().await;
    assert!(heron.dead_letters().await.is_empty());
}

#[tokio::test]
async fn with_a_window_the_lease_counts_from_when_an_entry_became_the_oldest() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits_with_window(64).await;
    let mut handed = Vec::new();
    for number in 0..40 {
        heron.hears_from(&number.to_string()).await;
        handed.push(gateway.hears_inbound().await.1);
    }
    // A slow agent, but never silent for the lease: eighty seconds for what it was handed at once.
    for entry in handed {
        server.winds(seconds(2));
        gateway.acknowledges(&entry).await;
        gateway.hears_nothing().await;
    }
    heron.has_unread(0).await;
    // From then on it counts as before.
    heron.hears_from("last").await;
    gateway.hears_inbound().await;
    server.winds(lease());
    assert_eq!(gateway.ends().await, not_acknowledged());
}

#[tokio::test]
async fn our_own_shutdown_never_counts() {
    let folder = tempfile::tempdir().unwrap();
    let clock = posthouse_time::Timepiece::wound(posthouse_time::Moment::from_seconds(1_800_000_000));
    let server = TestServer::open_in(folder.path(), clock.clone()).await;
    let heron = server.heron().await;
    let entry = heron.hears_from("one").await;
    let mut gateway = heron.sits_settled().await;
    gateway.hears_inbound().await;
    let closing = tokio::spawn({
        let relay = server.relay.clone();
        async move { relay.close().await }
    });
    gateway.dies();
    closing.await.unwrap();
    // Two real signs of poison do not suffice, so the shutdown was none.
    let inbox = server.ledger.inbox();
    for _ in 0..2 {
        assert!(
            !inbox
                .record_failed_delivery(&heron.instance, &entry, ledger::FailedDelivery::Poison)
                .await
                .unwrap()
        );
    }
    for _ in 0..9 {
        assert!(
            !inbox
                .record_failed_delivery(&heron.instance, &entry, ledger::FailedDelivery::ConnectionLost)
                .await
                .unwrap()
        );
    }
}

#[tokio::test]
async fn a_dead_letter_sent_again_comes_at_its_old_place() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let first = heron.hears_from("first").await;
    let inbox = server.ledger.inbox();
    for _ in 0..3 {
        inbox.record_failed_delivery(&heron.instance, &first, ledger::FailedDelivery::Poison).await.unwrap();
    }
    assert_eq!(heron.dead_letters().await, std::slice::from_ref(&first));
    heron.hears_from("second").await;
    heron.hears_from("third").await;
    let mut gateway = heron.sits_settled().await;
    let (text, second) = gateway.hears_inbound().await;
    assert_eq!(text, "second");
    // Given back while its agent is at another: it comes next, and nothing is heard twice.
    assert_eq!(server.relay.inboxes().redrive(&first).await.unwrap(), Some(heron.instance.clone()));
    gateway.acknowledges(&second).await;
    gateway.takes("first").await;
    gateway.takes("third").await;
    heron.has_unread(0).await;
    gateway.hears_nothing().await;
    assert_eq!(server.relay.inboxes().redrive(&first).await.unwrap(), None);
}

#[tokio::test]
async fn a_dead_letter_sent_again_reaches_an_agent_with_a_window_in_order() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let dead = heron.hears_from("dead").await;
    for _ in 0..3 {
        server
            .ledger
            .inbox()
            .record_failed_delivery(&heron.instance, &dead, ledger::FailedDelivery::Poison)
            .await
            .unwrap();
    }
    let mut gateway = heron.sits_with_window(8).await;
    for text in ["one", "two"] {
        heron.hears_from(text).await;
    }
    let (_, one) = gateway.hears_inbound().await;
    let (_, two) = gateway.hears_inbound().await;
    server.relay.inboxes().redrive(&dead).await.unwrap();
    heron.hears_from("three").await;
    gateway.hears_nothing().await;
    gateway.acknowledges(&one).await;
    gateway.acknowledges(&two).await;
    gateway.takes("dead").await;
    gateway.takes("three").await;
}
