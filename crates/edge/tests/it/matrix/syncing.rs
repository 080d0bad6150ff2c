//! Sync of an ordinary user: the saved position, gaps, invitations, and history that is not for the bot.

use std::sync::Arc;

use edge::OpenedBot;
use edge::platform::{BotTrouble, EventDelivery, Platform};
use serde_json::json;

use super::actors::{ANA, DIRECT, Fixture, POSTY, ROOM, bot, open_with};

/// The bot, in a direct room, after it has begun to poll.
async fn polling() -> Fixture {
    let fixture = open_with(None, false).await;
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
