//! Hold-back of entries for a chat with a running turn (section 13.1).

use ledger::HoldBack;
use serde_json::json;

use crate::gateway::Gateway;
use crate::test_server::{Agent, TestServer, seconds};

async fn types(gateway: &mut Gateway, chat: &str) {
    gateway.asks("typing", json!({"op": "typing", "chat_id": chat})).await;
    gateway.hears_result("typing").await;
}

/// Ends a turn as a stock gateway does.
async fn answers(gateway: &mut Gateway, request: &str, chat: &str) {
    let action = json!({"op": "send", "chat_id": chat, "content": "done", "metadata": {"notify": true}});
    gateway.asks(request, action).await;
    // What it frees may overtake the result.
    assert_eq!(gateway.hears_result_among(request).await["success"], true);
}

/// A stock gateway that has shown that it types, with this waiting for it: chats and texts.
async fn with_backlog(server: &TestServer, backlog: &[(&str, &str)]) -> (Agent, Gateway) {
    let heron = server.heron().await;
    for (chat, text) in backlog {
        server.says(&heron.bots[0], chat, text).await;
    }
    let mut gateway = heron.sits().await;
    types(&mut gateway, "c0").await;
    server.winds(seconds(4));
    (heron, gateway)
}

#[tokio::test]
async fn what_waited_for_a_busy_chat_is_held_until_its_turn_ended_and_other_chats_pass() {
    let server = TestServer::open().await;
    let backlog = [("c1", "one"), ("c1", "two"), ("c1", "three"), ("c2", "other"), ("c2", "another")];
    let (heron, mut gateway) = with_backlog(&server, &backlog).await;
    gateway.takes("one").await;
    gateway.takes("other").await;
    types(&mut gateway, "c1").await;
    gateway.hears_nothing().await;
    answers(&mut gateway, "r1", "c2").await;
    gateway.takes("another").await;
    gateway.hears_nothing().await;
    answers(&mut gateway, "r2", "c1").await;
    gateway.takes("two").await;
    gateway.hears_nothing().await;
    // Without an answer a turn has ended when typing has: five seconds after the last.
    server.winds(seconds(2));
    types(&mut gateway, "c1").await;
    server.winds(seconds(4));
    gateway.hears_nothing().await;
    server.winds(seconds(1));
    gateway.takes("three").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn nothing_is_held_for_more_than_two_minutes() {
    let server = TestServer::open().await;
    let (_, mut gateway) = with_backlog(&server, &[("c1", "one"), ("c1", "two")]).await;
    gateway.takes("one").await;
    gateway.hears_nothing().await;
    for _ in 0..59 {
        types(&mut gateway, "c1").await;
        server.winds(seconds(2));
    }
    types(&mut gateway, "c1").await;
    gateway.hears_nothing().await;
    server.winds(seconds(2));
    gateway.takes("two").await;
}

#[tokio::test]
async fn by_default_only_what_was_accepted_before_the_hello_is_held() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = with_backlog(&server, &[("c1", "one"), ("c1", "two")]).await;
    gateway.takes("one").await;
    gateway.hears_nothing().await;
    answers(&mut gateway, "r1", "c1").await;
    gateway.takes("two").await;
    types(&mut gateway, "c1").await;
    heron.hears_from("live").await;
    gateway.takes("live").await;
}

#[tokio::test]
async fn the_operator_may_hold_everything_or_nothing() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = with_backlog(&server, &[("c1", "one"), ("c1", "two"), ("c1", "three")]).await;
    gateway.takes("one").await;
    gateway.hears_nothing().await;
    server.relay.seats().set_hold_back(&heron.instance, HoldBack::Off).await.unwrap();
    gateway.takes("two").await;
    gateway.takes("three").await;
    server.relay.seats().set_hold_back(&heron.instance, HoldBack::On).await.unwrap();
    types(&mut gateway, "c1").await;
    heron.hears_from("live").await;
    gateway.hears_nothing().await;
    answers(&mut gateway, "r1", "c1").await;
    gateway.takes("live").await;
}

#[tokio::test]
async fn nothing_is_held_on_a_socket_that_never_typed_nor_for_agents_of_our_sdk() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.relay.seats().set_hold_back(&heron.instance, HoldBack::On).await.unwrap();
    let texts = ["one", "two", "three"];
    for text in texts {
        heron.hears_from(text).await;
    }
    let mut stock = heron.sits_settled().await;
    for text in texts {
        stock.takes(text).await;
    }
    heron.has_unread(0).await;
    stock.says_goodbye().await;
    let mut ours = heron.sits_with_window(1).await;
    for text in texts {
        types(&mut ours, "c1").await;
        heron.hears_from(text).await;
        ours.takes(text).await;
    }
}

#[tokio::test]
async fn what_a_lost_socket_had_held_goes_to_the_next_in_order() {
    let server = TestServer::open().await;
    let backlog = [("c1", "one"), ("c1", "two"), ("c2", "other"), ("c1", "three")];
    let (heron, mut gateway) = with_backlog(&server, &backlog).await;
    gateway.takes("one").await;
    gateway.takes("other").await;
    gateway.hears_nothing().await;
    gateway.says_goodbye().await;
    let mut next = heron.sits_settled().await;
    next.takes("two").await;
    next.takes("three").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_stop_is_never_held_back() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = with_backlog(&server, &[("c1", "one")]).await;
    server.relay.seats().set_hold_back(&heron.instance, HoldBack::On).await.unwrap();
    gateway.takes("one").await;
    types(&mut gateway, "c1").await;
    heron.hears_from("more").await;
    heron.hears_from("/stop").await;
    assert_eq!(gateway.hears().await["type"], "interrupt_inbound");
    for _ in 0..2 {
        server.winds(seconds(2));
        types(&mut gateway, "c1").await;
    }
    // It goes on, so the text is delivered now, ahead of what is held.
    server.winds(seconds(1));
    gateway.takes("/stop").await;
    gateway.hears_nothing().await;
    answers(&mut gateway, "r1", "c1").await;
    gateway.takes("more").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_chat_with_a_long_backlog_releases_nothing_into_a_busy_chat() {
    let server = TestServer::open().await;
    let numbers: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let mut backlog = vec![("c2", "other"), ("c2", "another")];
    backlog.extend(numbers.iter().map(|number| ("c1", number.as_str())));
    backlog.push(("c3", "a third chat"));
    let (heron, mut gateway) = with_backlog(&server, &backlog).await;
    gateway.takes("other").await;
    gateway.takes("0").await;
    gateway.takes("a third chat").await;
    for chat in ["c1", "c2"] {
        types(&mut gateway, chat).await;
    }
    gateway.hears_nothing().await;
    answers(&mut gateway, "r0", "c2").await;
    gateway.takes("another").await;
    heron.hears_from("live").await;
    for number in 1..300 {
        gateway.hears_nothing().await;
        answers(&mut gateway, &format!("r{number}"), "c1").await;
        gateway.takes(&number.to_string()).await;
    }
    answers(&mut gateway, "last", "c1").await;
    gateway.takes("live").await;
    heron.has_unread(0).await;
}
