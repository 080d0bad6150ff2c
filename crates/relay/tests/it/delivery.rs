//! Delivery: store, deliver, delete on acknowledgement (section 16.3).

use ledger::Seq;
use serde_json::json;

use crate::test_server::{TestServer, bot, eventually};

#[tokio::test]
async fn a_message_for_a_sleeping_agent_is_kept_and_handed_over_once() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let entry = heron.hears_from("good morning").await;
    server.winds(std::time::Duration::from_secs(9 * 3600));
    let mut gateway = heron.sits_settled().await;
    let (text, id) = gateway.hears_inbound().await;
    assert_eq!((text.as_str(), id.as_str()), ("good morning", entry.as_str()));
    gateway.acknowledges(&id).await;
    heron.has_unread(0).await;
    gateway.says_goodbye().await;
    heron.sits_settled().await.hears_nothing().await;
}

#[tokio::test]
async fn a_stock_gateway_has_one_entry_outstanding_and_gets_the_next_after_the_commit() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for text in ["one", "two", "three"] {
        heron.hears_from(text).await;
    }
    let mut gateway = heron.sits_settled().await;
    for (text, left) in [("one", 2), ("two", 1), ("three", 0)] {
        let (heard, entry) = gateway.hears_inbound().await;
        assert_eq!(heard, text);
        gateway.hears_nothing().await;
        assert_eq!(heron.unread().await, left + 1);
        gateway.acknowledges(&entry).await;
        if left > 0 {
            // The next one leaves only after the acknowledgement is kept.
            continue;
        }
        heron.has_unread(0).await;
    }
}

#[tokio::test]
async fn when_the_next_entry_leaves_the_one_before_is_forgotten() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for number in 0..20 {
        heron.hears_from(&number.to_string()).await;
    }
    let mut gateway = heron.sits_settled().await;
    for number in 0..20_i64 {
        let (_, entry) = gateway.hears_inbound().await;
        assert_eq!(heron.unread().await, 20 - number);
        gateway.acknowledges(&entry).await;
    }
    heron.has_unread(0).await;
}

#[tokio::test]
async fn an_sdk_agent_has_its_window_outstanding_and_no_more() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for number in 0..8 {
        heron.hears_from(&number.to_string()).await;
    }
    let mut gateway = heron.sits_with_window(3).await;
    let mut outstanding = Vec::new();
    for number in 0..3 {
        let (text, entry) = gateway.hears_inbound().await;
        assert_eq!(text, number.to_string());
        outstanding.push(entry);
    }
    gateway.hears_nothing().await;
    gateway.acknowledges(&outstanding[1]).await;
    assert_eq!(gateway.hears_inbound().await.0, "3");
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn no_window_is_wider_than_64() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for number in 0..70 {
        heron.hears_from(&number.to_string()).await;
    }
    let mut gateway = heron.sits_with_window(60_000).await;
    for number in 0..64 {
        assert_eq!(gateway.hears_inbound().await.0, number.to_string());
    }
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn a_window_of_a_gateway_that_is_not_ours_counts_for_nothing() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for text in ["one", "two"] {
        heron.hears_from(text).await;
    }
    let mut gateway = heron.dials().await;
    gateway.say(json!({"type": "hello", "platform": "telegram", "botId": "7001", "window": 8})).await;
    assert_eq!(gateway.hears().await["type"], "descriptor");
    gateway.hears_nothing().await;
    server.winds(crate::test_server::seconds(4));
    assert_eq!(gateway.hears_inbound().await.0, "one");
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn exactly_the_unacknowledged_tail_is_sent_again() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    for number in 0..6 {
        heron.hears_from(&number.to_string()).await;
    }
    let mut gateway = heron.sits_with_window(4).await;
    for number in 0..4 {
        let (_, entry) = gateway.hears_inbound().await;
        if number < 2 {
            gateway.acknowledges(&entry).await;
        }
    }
    heron.has_unread(4).await;
    gateway.dies();
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    let mut again = heron.sits_with_window(4).await;
    for number in 2..6 {
        again.takes(&number.to_string()).await;
    }
    heron.has_unread(0).await;
    again.hears_nothing().await;
}

#[tokio::test]
async fn an_acknowledgement_of_another_agents_entry_is_harmless() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[bot("telegram", "7002")]).await;
    let entry = heron.hears_from("for heron").await;
    let mut gateway = crow.sits_settled().await;
    gateway.acknowledges(entry.as_str()).await;
    gateway.acknowledges("ent_nonsense").await;
    gateway.acknowledges("").await;
    gateway.hears_nothing().await;
    assert_eq!(heron.unread().await, 1);
    heron.sits_settled().await.takes("for heron").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn the_same_event_again_is_kept_once() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let on = &heron.bots[0];
    let event = crate::test_server::message(on, "c1", "once");
    let origin = identity::EventOrigin { source: &event.source, path: None };
    let admitted = server.admitted(on, origin, true).await.unwrap();
    let mut kept = Vec::new();
    for _ in 0..2 {
        let new_entry = relay::NewEntry {
            forward: None,
            event: event.clone().deliverable().unwrap(),
            dedup: "same".into(),
            references: Vec::new(),
            album: None,
            accepted: server.clock.now(),
            receipt: None,
            id: None,
            stop: relay::StopRule::Text,
            stale: None,
        };
        let admission = server.relay.inboxes().admit(&admitted, Box::new(new_entry)).await.unwrap();
        kept.push(admission.entry().cloned().expect("it is kept or known"));
    }
    assert_eq!(kept[0], kept[1]);
    let mut gateway = heron.sits_settled().await;
    gateway.takes("once").await;
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn a_repeat_does_not_mark_a_conversation_as_seen_without_writing_it() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let on = &heron.bots[0];
    let admit = async |user: &str, dedup: &str| {
        let mut event = crate::test_server::message(on, "g1", dedup);
        event.source.chat_type = "group".to_owned();
        event.source.user_id = Some(user.into());
        let origin = identity::EventOrigin { source: &event.source, path: None };
        let admitted = server.admitted(on, origin, true).await.unwrap();
        let new_entry = relay::NewEntry {
            forward: None,
            event: event.deliverable().unwrap(),
            dedup: dedup.into(),
            references: Vec::new(),
            album: None,
            accepted: server.clock.now(),
            receipt: None,
            id: None,
            stop: relay::StopRule::Text,
            stale: None,
        };
        server.relay.inboxes().admit(&admitted, Box::new(new_entry)).await.unwrap();
    };
    admit("u1", "first").await;
    // The same event again, read as somebody else's: nothing of it is written.
    admit("u2", "first").await;
    admit("u2", "second").await;
    let key = "agent:main:telegram:group:g1:u2".into();
    let found = server.ledger.roster().chat_of_session(&heron.instance, &key).await.unwrap();
    assert_eq!(found.map(|(_, chat)| chat), Some("g1".into()));
}

#[tokio::test]
async fn what_a_platform_calls_its_attachments_is_kept_and_handed_to_nobody() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let on = &heron.bots[0];
    let inbox = server.ledger.inbox();
    let mut seated = None;
    for text in ["to one who sleeps", "to one who listens"] {
        let event = crate::test_server::message(on, "c1", text);
        let origin = identity::EventOrigin { source: &event.source, path: None };
        let admitted = server.admitted(on, origin, true).await.unwrap();
        let new_entry = relay::NewEntry {
            forward: None,
            event: event.deliverable().unwrap(),
            dedup: text.into(),
            references: vec!["telegram:file:canary".to_owned()],
            album: None,
            accepted: server.clock.now(),
            receipt: None,
            id: None,
            stop: relay::StopRule::Text,
            stale: None,
        };
        server.relay.inboxes().admit(&admitted, Box::new(new_entry)).await.unwrap();
        let kept = inbox.unread(&heron.instance, Seq(0), 10).await.unwrap();
        assert_eq!(kept[0].references, ["telegram:file:canary"]);
        if seated.is_none() {
            seated = Some(heron.sits_settled().await);
        }
        let gateway = seated.as_mut().unwrap();
        let frame = gateway.hears().await;
        assert_eq!(frame["event"]["text"], text);
        assert!(!frame.to_string().contains("canary"), "{frame}");
        gateway.acknowledges(frame["bufferId"].as_str().unwrap()).await;
        heron.has_unread(0).await;
        assert!(inbox.unread(&heron.instance, Seq(0), 10).await.unwrap().is_empty());
    }
}
