//! Limits of an inbox (section 16.2).

use ledger::LimitReached;
use relay::{Admission, Config, NewEntry, StopRule};

use crate::test_server::{Agent, TestServer, message};

async fn brings(server: &TestServer, heron: &Agent, chat: &str, text: &str) -> Admission {
    let on = &heron.bots[0];
    let mut event = message(on, chat, text);
    // A person of its own in each chat.
    event.source.user_id = Some(chat.into());
    let origin = identity::EventOrigin { source: &event.source, path: None };
    let admitted = server.admitted(on, origin, true).await.unwrap();
    let new_entry = NewEntry {
        forward: None,
        event: event.deliverable().unwrap(),
        id: None,
        dedup: format!("{chat}/{text}").into(),
        references: Vec::new(),
        album: None,
        accepted: server.clock.now(),
        receipt: None,
        stop: StopRule::Text,
        stale: None,
    };
    server.relay.inboxes().admit(&admitted, Box::new(new_entry)).await.unwrap()
}

#[tokio::test]
async fn a_full_inbox_drops_no_accepted_mail() {
    let server = TestServer::open_with(Config { inbox_entries: 4, ..Config::default() }).await;
    let heron = server.heron().await;
    for number in 0..4 {
        let kept = brings(&server, &heron, &format!("c{number}"), "accepted").await;
        assert!(matches!(kept, Admission::Kept(_)), "{kept:?}");
    }
    for number in 0..100 {
        let refused = brings(&server, &heron, "flood", &number.to_string()).await;
        assert_eq!(refused, Admission::Full(LimitReached::Inbox));
    }
    assert_eq!(counted(&server, "posthouse_relay_entries_refused_total{why=\"inbox\"}"), 100);
    let mut gateway = heron.sits_settled().await;
    for _ in 0..4 {
        gateway.takes("accepted").await;
    }
    heron.has_unread(0).await;
    assert_eq!(counted(&server, "posthouse_relay_entries_kept_total"), 4);
}

#[tokio::test]
async fn one_chats_flood_leaves_room_for_another() {
    let server = TestServer::open_with(Config { inbox_entries: 8, ..Config::default() }).await;
    let heron = server.heron().await;
    let mut kept = 0;
    for number in 0..20 {
        let admission = brings(&server, &heron, "flood", &number.to_string()).await;
        kept += usize::from(admission.entry().is_some());
    }
    assert_eq!(kept, 2, "a quarter");
    assert_eq!(counted(&server, "posthouse_relay_entries_refused_total{why=\"share\"}"), 18);
    let other = brings(&server, &heron, "another", "hello").await;
    assert!(matches!(other, Admission::Kept(_)), "{other:?}");
}

#[tokio::test]
async fn what_was_acknowledged_makes_room() {
    let server = TestServer::open_with(Config { inbox_entries: 3, ..Config::default() }).await;
    let heron = server.heron().await;
    let mut gateway = heron.sits_with_window(1).await;
    for number in 0..20 {
        heron.hears_from(&number.to_string()).await;
        gateway.takes(&number.to_string()).await;
        heron.has_unread(0).await;
    }
}

/// What a counter says.
fn counted(server: &TestServer, name: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    server.relay.metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect(name);
    line.rsplit(' ').next().unwrap().parse().unwrap()
}
