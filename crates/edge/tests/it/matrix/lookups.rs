//! Lookups of rooms: no message is taken before the homeserver has described its room.

use std::time::Duration;

use edge::DeliveryResult;
use posthouse_time::{Moment, Timepiece};
use serde_json::{Map, Value, json};
use stand_ins::harness::{CallFault, CallFaultKind};

use super::actors::{ANA, DIRECT, Fixture, POSTY, ROOM, open_at, open_with};

const MEMBERS: &str = "GET joined_members";

fn message(room: &str, id: &str, text: &str) -> Value {
    json!({ "type": "m.room.message", "event_id": id, "room_id": room, "sender": ANA,
        "content": { "msgtype": "m.text", "body": text } })
}

/// A bot in these direct rooms, about which it knows nothing yet. The clock stands still.
async fn in_rooms(rooms: &[&str]) -> Fixture {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open_at(clock, None, true).await;
    for room in rooms {
        fixture.inject(json!({"do": "room", "room": room, "members": [ANA, POSTY]}));
    }
    fixture
}

fn is_taken(result: &Result<DeliveryResult, edge::Fault>) -> bool {
    matches!(result, Ok(DeliveryResult::Taken { .. }))
}

#[tokio::test]
async fn every_room_of_a_transaction_is_looked_up() {
    let rooms: Vec<String> = (0..20).map(|number| format!("!r{number}")).collect();
    let fixture = in_rooms(&rooms.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let events = rooms.iter().map(|room| message(room, &room.replace('!', "$"), room));
    fixture.receives("1", &events.collect::<Vec<_>>()).await;
    fixture.hears(&rooms.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_transaction_is_not_taken_before_its_rooms_are_known_however_long_the_homeserver_fails() {
    let fixture = in_rooms(&[DIRECT]).await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::ServerError { status: 502 }).until_cleared());
    let first = [message(DIRECT, "$a", "during the outage")];
    for _ in 0..20 {
        assert!(!is_taken(&fixture.tries("1", &first).await));
        fixture.clock.wind(Duration::from_secs(60));
    }
    fixture.stand_in.clear_faults();
    fixture.receives("1", &first).await;
    fixture.receives("2", &[message(DIRECT, "$b", "after it")]).await;
    fixture.hears(&["during the outage", "after it"]).await;
    assert!(fixture.events().await.iter().all(|event| event.source.chat_type == "dm"));
}

#[tokio::test]
async fn a_single_room_that_is_never_described_holds_up_the_others_for_minutes_only() {
    let fixture = in_rooms(&["!bad", DIRECT]).await;
    let failing = CallFault::new(CallFaultKind::ServerError { status: 500 }).on(MEMBERS).in_chat("!bad");
    let failing = fixture.stand_in.fault(failing.until_cleared());
    let events = [message("!bad", "$a", "from nowhere"), message(DIRECT, "$b", "hello")];
    assert!(!is_taken(&fixture.tries("1", &events).await));
    fixture.clock.wind(Duration::from_secs(120));
    assert!(!is_taken(&fixture.tries("1", &events).await));
    fixture.clock.wind(Duration::from_secs(200));
    fixture.receives("1", &events).await;
    fixture.hears(&["hello"]).await;
    // A room that was given up is not looked up for each of its messages.
    let asked = fixture.stand_in.struck(failing);
    fixture.receives("2", &[message("!bad", "$c", "again"), message(DIRECT, "$d", "still here")]).await;
    fixture.hears(&["hello", "still here"]).await;
    assert_eq!(fixture.stand_in.struck(failing), asked);
    fixture.stand_in.clear_faults();
    fixture.clock.wind(Duration::from_secs(601));
    fixture.receives("3", &[message("!bad", "$e", "described at last")]).await;
    fixture.hears(&["hello", "still here", "described at last"]).await;
}

#[tokio::test]
async fn a_room_in_which_the_bot_is_not_holds_up_nothing() {
    let fixture = in_rooms(&[DIRECT]).await;
    fixture.inject(json!({"do": "room", "room": "!other", "members": [ANA]}));
    fixture.receives("1", &[message("!other", "$a", "x"), message(DIRECT, "$b", "hello")]).await;
    fixture.hears(&["hello"]).await;
}

#[tokio::test]
async fn a_room_whose_list_of_members_is_too_long_to_read_is_no_direct_conversation() {
    let fixture = open_with(None, true).await;
    fixture.inject(json!({"do": "room", "room": ROOM, "name": "Everybody", "members": [ANA, POSTY]}));
    let name = "x".repeat(1 << 20);
    let members = (0..17).map(|number| (format!("@p{number}:hs.test"), json!({ "display_name": name })));
    let body = json!({ "joined": members.collect::<Map<_, _>>() });
    let long = CallFaultKind::Answer { status: 200, body };
    fixture.stand_in.fault(CallFault::new(long).on(MEMBERS).in_chat(ROOM).until_cleared());
    let mut asks = message(ROOM, "$b", "status");
    asks["content"]["m.mentions"] = json!({ "user_ids": [POSTY] });
    fixture.receives("1", &[message(ROOM, "$a", "among people"), asks]).await;
    fixture.hears(&["status"]).await;
    let source = fixture.events().await.remove(0).source;
    assert_eq!((&*source.chat_type, source.chat_name.as_deref()), ("group", Some("Everybody")));
}
