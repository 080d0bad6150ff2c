//! Sync of an ordinary user: the saved position, gaps, invitations, and history that is not for the bot.

use std::sync::Arc;
use std::time::Duration;

use edge::OpenedBot;
use edge::platform::{BotTrouble, EventDelivery, Platform};
use posthouse_time::{Moment, Timepiece};
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind};

use super::actors::{ANA, DIRECT, Fixture, LONG, POSTY, ROOM, bot, open_at, open_with};

/// The bot, in a direct room, after it has begun to poll.
async fn polling() -> Fixture {
    polling_at(Timepiece::wall()).await
}

async fn polling_at(clock: Timepiece) -> Fixture {
    let fixture = open_at(clock, None, false).await;
    fixture.inject(json!({"do": "room", "room": DIRECT, "members": [ANA, POSTY]}));
    fixture.says(DIRECT, "before the bot was created");
    fixture.server.start_edge();
    // The invitation is answered only by a poll after the first.
    fixture.inject(json!({"do": "room", "room": ROOM, "name": "Ops", "members": [ANA, "@bo:hs.test"]}));
    fixture.says(ROOM, "before the bot joined");
    fixture.inject(json!({"do": "invite", "room": ROOM, "user": POSTY}));
    assert_eq!(fixture.row("joined").await.chat.as_deref(), Some(ROOM));
    fixture
}

#[tokio::test]
async fn an_ordinary_user_gets_what_is_written_after_it_came() {
    let fixture = polling().await;
    fixture.says(DIRECT, "hello");
    fixture.hears(&["hello"]).await;
    fixture.inject(json!({"do": "message", "room": ROOM, "text": "posty: status", "mentions": [POSTY]}));
    fixture.hears(&["hello", "status"]).await;
    let event = fixture.events().await.remove(1);
    assert_eq!((&*event.source.chat_type, event.source.chat_name.as_deref()), ("group", Some("Ops")));
}

#[tokio::test]
async fn after_a_restart_the_position_continues_and_a_long_gap_is_read_in_pages() {
    let fixture = polling().await;
    fixture.says(DIRECT, "hello");
    fixture.hears(&["hello"]).await;
    fixture.server.edge().close();
    let mut expected = vec!["hello".to_owned()];
    for number in 0..250 {
        fixture.says(DIRECT, &format!("number {number}"));
        expected.push(format!("number {number}"));
    }
    let again = fixture.server.new_edge(&fixture.clock, vec![Arc::new(fixture.matrix.clone())]);
    tokio::spawn(async move { again.run().await });
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    fixture.hears(&expected).await;
}

impl Fixture {
    /// Starts the edge again after it was closed, as a restart of the server does.
    fn polls_again(&self) {
        let again = self.server.new_edge(&self.clock, vec![Arc::new(self.matrix.clone())]);
        tokio::spawn(async move { again.run().await });
    }

    /// Adds events to a room that are not for the bot.
    fn fills(&self, room: &str, events: usize, padding: &str) {
        for _ in 0..events {
            let content = json!({ "padding": padding });
            self.inject(
                json!({"do": "event", "room": room, "kind": "org.example.noise", "content": content}),
            );
        }
    }
}

#[tokio::test]
async fn no_gap_is_too_long_to_be_read_to_its_beginning() {
    let fixture = polling().await;
    fixture.says(DIRECT, "hello");
    fixture.hears(&["hello"]).await;
    fixture.server.edge().close();
    fixture.says(DIRECT, "the oldest");
    fixture.fills(DIRECT, 700, "");
    fixture.says(DIRECT, "in between");
    fixture.fills(DIRECT, 700, "");
    fixture.says(DIRECT, "the newest");
    fixture.polls_again();
    fixture.hears(&["hello", "the oldest", "in between", "the newest"]).await;
}

#[tokio::test]
async fn a_response_that_is_too_large_is_requested_again_with_fewer_events() {
    let fixture = polling().await;
    fixture.says(DIRECT, "hello");
    fixture.hears(&["hello"]).await;
    fixture.server.edge().close();
    let padding = "x".repeat(60_000);
    let mut heard = vec!["hello".to_owned()];
    // The gap of the first room is larger than what is held in memory.
    for (room, events) in [("!b1", 300), ("!b2", 80), ("!b3", 80), ("!b4", 80)] {
        fixture.inject(json!({"do": "room", "room": room, "members": [ANA, POSTY]}));
        for text in [format!("first in {room}"), format!("last in {room}")] {
            fixture.says(room, &text);
            fixture.fills(room, events / 2, &padding);
            heard.push(text);
        }
    }
    fixture.polls_again();
    fixture.hears(&heard.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn a_bot_whose_smallest_response_is_too_large_stands_still_and_loses_nothing() {
    let fixture = polling_at(Timepiece::wound(Moment::from_seconds(1_765_000_000))).await;
    fixture.says(DIRECT, "hello");
    fixture.hears(&["hello"]).await;
    let body = json!({ "next_batch": "s999999", "padding": "x".repeat(17 << 20) });
    let huge = CallFault::new(CallFaultKind::Answer { status: 200, body }).on("GET sync").until_cleared();
    let huge = fixture.stand_in.fault(huge);
    // It ends the poll that is under way.
    fixture.says(DIRECT, "before");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.struck(huge) == 3).await);
    fixture.says(DIRECT, "meanwhile");
    fixture.stand_in.clear_faults();
    let heard = fixture.hears(&["hello", "before", "meanwhile"]);
    fixture.clock.wind_until(Duration::from_secs(60), heard).await;
}

#[tokio::test]
async fn the_position_stays_before_a_message_whose_room_is_not_known_yet() {
    let fixture = polling_at(Timepiece::wound(Moment::from_seconds(1_765_000_000))).await;
    let failing = CallFault::new(CallFaultKind::ServerError { status: 502 }).in_chat(DIRECT);
    let failing = fixture.stand_in.fault(failing.until_cleared());
    fixture.says(DIRECT, "hello");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.struck(failing) > 0).await);
    fixture.stand_in.clear_faults();
    fixture.clock.wind_until(Duration::from_secs(1), fixture.hears(&["hello"])).await;
}

#[tokio::test]
async fn a_new_name_of_the_bot_hides_no_message_before_it() {
    let fixture = polling().await;
    fixture.says(DIRECT, "hello");
    fixture.hears(&["hello"]).await;
    fixture.server.edge().close();
    fixture.says(DIRECT, "before the new name");
    let renamed = json!({ "membership": "join", "displayname": "Posty the second" });
    fixture.inject(
        json!({"do": "event", "room": DIRECT, "kind": "m.room.member", "state_key": POSTY, "from": POSTY,
        "content": renamed}),
    );
    let again = fixture.server.new_edge(&fixture.clock, vec![Arc::new(fixture.matrix.clone())]);
    tokio::spawn(async move { again.run().await });
    fixture.hears(&["hello", "before the new name"]).await;
}

#[tokio::test]
async fn a_token_that_dies_marks_the_bot_as_dead() {
    let fixture = polling().await;
    fixture.stand_in.revoke(POSTY);
    fixture.says(DIRECT, "anybody?");
    let dead = async {
        while !fixture.server.edge().health().is_dead(&fixture.bot.bot_ref()) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(super::actors::LONG, dead).await.expect("the bot is dead");
}

#[tokio::test]
async fn a_bot_is_named_after_its_user_and_its_token_is_checked() {
    let fixture = open_with(None, false).await;
    let check = async |change: &dyn Fn(&mut OpenedBot)| {
        let mut draft = bot(false);
        draft.settings.clear();
        change(&mut draft);
        fixture.matrix.check_credentials(&draft).await
    };
    let found = check(&|_| {}).await.unwrap();
    assert_eq!(found.id, "posty.hs.test");
    assert_eq!(
        (&found.settings["user_id"], &found.settings["display_name"]),
        (&json!(POSTY), &json!("posty"))
    );
    let other = check(&|draft| drop(draft.settings.insert("user_id".into(), json!("@other:hs.test")))).await;
    assert!(matches!(other, Err(BotTrouble::Other(why)) if why.contains("belongs to another user")));
    let refused =
        check(&|draft| draft.credentials.insert("token", posthouse_wire::Secret::new("nobody's"))).await;
    assert!(matches!(refused, Err(BotTrouble::CredentialRefused(_))));
    let service = bot(true);
    assert_eq!(fixture.matrix.delivery(&service, None), EventDelivery::Webhook);
    assert_eq!(fixture.matrix.delivery(&bot(false), None), EventDelivery::Polling);
    let named = check(&|draft| {
        draft.credentials.insert("hs_token", posthouse_wire::Secret::new("x"));
        draft.settings.insert("username".into(), json!("elsewhere"));
    });
    assert!(
        matches!(named.await, Err(BotTrouble::Other(why)) if why.contains("namespaces.users") || why.contains("masquerade"))
    );
}
