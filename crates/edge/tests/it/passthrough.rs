//! Interactions that a platform forwards whole, with a scripted platform and the vectors.

use std::path::PathBuf;

use edge::platform::{Arrival, Reading};
use ledger::Seq;
use posthouse_wire::Source;
use posthouse_wire::passthrough::Forward;
use serde_json::Value;

use crate::access::Fixture;

fn vectors() -> Vec<Value> {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    let path = folder.join("hermes-0.20.5/passthrough.json");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn source() -> Source {
    Source {
        platform: "pigeon".into(),
        chat_id: Some("c1".into()),
        chat_type: "dm".to_owned(),
        user_id: Some("u1".into()),
        ..Source::default()
    }
}

#[tokio::test]
async fn every_forward_of_the_vectors_is_stored_beside_its_event_with_the_profile_of_its_route() {
    let fixture = Fixture::owned().await;
    let on = fixture.on();
    fixture.server.ledger.shared_bots().set_profile(&fixture.server.agent, Some("day")).await.unwrap();
    let subject = ledger::Subject::User("u1".into());
    fixture.server.access().decide(&on, &subject, ledger::Decision::Allowed).await.unwrap();
    let mut sent = Vec::new();
    for case in vectors() {
        let forward: Forward = serde_json::from_str(&case["forward"].to_string()).unwrap();
        let arrival = Arrival { forward: Some(Box::new(forward.clone())), ..fixture.arrival(source()) };
        assert!(
            fixture.takes(Reading { arrivals: vec![arrival], ..Reading::default() }).await,
            "{}",
            case["id"]
        );
        sent.push(Forward { profile: Some("day".to_owned()), ..forward });
    }
    let inbox = fixture.server.ledger.inbox();
    let stored = inbox.unread(&fixture.server.agent, Seq(0), 1000).await.unwrap();
    let read: Vec<Forward> =
        stored.iter().map(|entry| serde_json::from_slice(entry.forward.as_ref().unwrap()).unwrap()).collect();
    assert_eq!(read, sent);
    let bytes: i64 = stored.iter().map(ledger::Entry::size).sum();
    assert_eq!(inbox.size(&fixture.server.agent).await.unwrap().bytes, bytes, "it counts against the inbox");
}

#[tokio::test]
async fn a_forward_that_is_too_long_is_left_out_and_its_event_stays() {
    let fixture = Fixture::owned().await;
    let subject = ledger::Subject::User("u1".into());
    fixture.server.access().decide(&fixture.on(), &subject, ledger::Decision::Allowed).await.unwrap();
    let forward = Forward {
        platform: "pigeon".into(),
        bot_id: "b1".into(),
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers: Vec::new(),
        body_b64: Forward::encoded(&vec![b'x'; 300_000]),
        profile: None,
    };
    let arrival = Arrival { forward: Some(Box::new(forward)), ..fixture.arrival(source()) };
    assert!(fixture.takes(Reading { arrivals: vec![arrival], ..Reading::default() }).await);
    let stored = fixture.server.ledger.inbox().unread(&fixture.server.agent, Seq(0), 10).await.unwrap();
    assert!(stored[0].forward.is_none());
}
