//! A person's `/stop` (section 13): an interrupt where the agent honours it, else text.

use identity::Enrolment;
use ledger::BotRef;
use relay::Config;
use serde_json::{Value, json};

use crate::gateway::{End, Gateway};
use crate::test_server::{Agent, TestServer, bot, eventually, millis, seconds};

async fn types(gateway: &mut Gateway, chat: &str) {
    gateway.asks("typing", json!({"op": "typing", "chat_id": chat})).await;
    gateway.hears_result("typing").await;
}

/// What a socket was told so far. The ping that follows a stop is answered by then.
async fn told(gateway: &mut Gateway) -> Vec<Value> {
    gateway.asks("marker", json!({"op": "marker"})).await;
    let mut told = Vec::new();
    loop {
        let frame = gateway.hears().await;
        if frame["requestId"] == "marker" {
            gateway.hears_nothing().await;
            return told;
        }
        told.push(frame);
    }
}

/// Exactly the interrupt of a direct conversation.
fn interrupt(chat: &str) -> Value {
    let session_key = format!("agent:main:telegram:dm:{chat}");
    json!({"type": "interrupt_inbound", "session_key": session_key, "chat_id": chat})
}

/// A stock gateway with a running turn in each of these chats.
async fn at_work(server: &TestServer, chats: &[&str]) -> (Agent, Gateway) {
    let heron = server.heron().await;
    let mut gateway = heron.sits_settled().await;
    for chat in chats {
        server.says(&heron.bots[0], chat, "work").await;
        gateway.takes("work").await;
        types(&mut gateway, chat).await;
    }
    heron.has_unread(0).await;
    (heron, gateway)
}

#[tokio::test]
async fn a_stop_to_a_chat_that_types_becomes_an_interrupt_and_is_confirmed_once_typing_ended() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    let stop = server.says(&heron.bots[0], "c1", "/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    server.winds(seconds(4));
    gateway.hears_nothing().await;
    assert!(server.egress.texts("c1").is_empty(), "nothing is claimed before typing ended");
    server.winds(seconds(1));
    eventually(|| server.egress.texts("c1") == ["Stopped."]).await;
    heron.has_unread(0).await;
    gateway.hears_nothing().await;
    // It is done with: nobody finds it later.
    let story = server.ledger.traces().entry(&stop).await.unwrap().unwrap();
    assert!(story.steps.iter().any(|step| step.what == "acknowledged"), "{story:?}");
    let mut again = heron.sits_settled().await;
    again.hears_nothing().await;
}

#[tokio::test]
async fn if_typing_goes_on_five_seconds_later_the_text_is_delivered() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    server.says(&heron.bots[0], "c1", "/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    for _ in 0..2 {
        server.winds(seconds(2));
        types(&mut gateway, "c1").await;
    }
    server.winds(seconds(1));
    gateway.takes("/stop").await;
    heron.has_unread(0).await;
    gateway.hears_nothing().await;
    assert!(server.egress.texts("c1").is_empty(), "it has not stopped, so nobody says so");
}

#[tokio::test]
async fn a_stop_is_delivered_as_text_where_no_interrupt_is_known_to_work() {
    let server = TestServer::open().await;
    let (telegram, slack) = (bot("telegram", "7001"), bot("slack", "s1"));
    let heron = server.enrol("acme", "heron", &[telegram.clone(), slack.clone()]).await;
    let mut gateway = heron.sits_settled().await;
    gateway.says_hello(&slack).await;
    let mut turn = async |on: &BotRef, chat: &str, typing: u64, text: &str| {
        server.says(on, chat, "work").await;
        gateway.takes("work").await;
        if typing > 0 {
            types(&mut gateway, chat).await;
        }
        server.winds(seconds(typing));
        server.says(on, chat, text).await;
        gateway.takes(text).await;
        heron.has_unread(0).await;
    };
    // A gateway that never types, as 0.19.0.
    turn(&telegram, "c1", 0, "/stop").await;
    // Typing that ended, so no turn runs.
    turn(&telegram, "c2", 5, "/stop").await;
    // A platform whose interrupts would stall the gateway.
    turn(&slack, "c3", 1, "/stop").await;
    // Not exactly a stop.
    for text in ["/stop now", "/Stop", " /stop", "stop"] {
        turn(&telegram, "c4", 1, text).await;
    }
    assert!(server.egress.orders().iter().all(|order| order.action.op() == "typing"));
}

/// An agent that talks in the web chat.
async fn in_the_web_chat(server: &TestServer) -> Agent {
    let wanted = Enrolment {
        tenant: "acme".to_owned(),
        name: "heron".to_owned(),
        built_in: vec!["web".into()],
        ..Enrolment::default()
    };
    let mut heron = server.enrol_as(wanted).await;
    heron.bots = vec![bot("web", heron.instance.as_str())];
    heron
}

#[tokio::test]
async fn in_the_web_chat_a_stop_is_an_interrupt_for_every_agent() {
    let server = TestServer::open().await;
    let heron = in_the_web_chat(&server).await;
    let web = heron.bots[0].clone();
    let mut gateway = heron.sits_settled().await;
    server.says(&web, "web-1", "work").await;
    gateway.takes("work").await;
    server.says(&web, "web-1", "/stop").await;
    let frames = told(&mut gateway).await;
    assert!(!frames.is_empty() && frames.iter().all(|frame| frame["type"] == "interrupt_inbound"));
    server.winds(seconds(5));
    heron.has_unread(0).await;
    // It never typed, so there is nothing to confirm; and no turn runs once it was stopped or has answered.
    assert!(server.egress.orders().is_empty());
    server.says(&web, "web-1", "/stop").await;
    gateway.takes("/stop").await;
    server.says(&web, "web-1", "more").await;
    gateway.takes("more").await;
    gateway
        .asks(
            "r1",
            json!({"op": "send", "chat_id": "web-1", "content": "done", "metadata": {"notify": true}}),
        )
        .await;
    gateway.hears_result("r1").await;
    server.says(&web, "web-1", "/stop").await;
    gateway.takes("/stop").await;
}

#[tokio::test]
async fn an_agent_of_our_sdk_gets_the_interrupt_while_its_turn_is_open() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut agent = heron.sits_with_window(8).await;
    heron.hears_from("work").await;
    agent.takes("work").await;
    heron.hears_from("/stop").await;
    assert_eq!(told(&mut agent).await, [interrupt("c1")]);
    server.winds(seconds(5));
    heron.has_unread(0).await;
    heron.hears_from("more").await;
    agent.takes("more").await;
    agent.sends("r1", "c1", "done").await;
    agent.hears_result("r1").await;
    heron.hears_from("/stop").await;
    agent.takes("/stop").await;
}

#[tokio::test]
async fn a_stop_to_a_chat_whose_turn_ended_without_a_marked_answer_is_delivered() {
    let server = TestServer::open().await;
    let heron = in_the_web_chat(&server).await;
    let web = heron.bots[0].clone();
    let mut gateway = heron.sits_settled().await;
    server.says(&web, "web-1", "work").await;
    gateway.takes("work").await;
    types(&mut gateway, "web-1").await;
    // A streamed answer ends with an edit, which nothing marks.
    gateway.sends("r1", "web-1", "do").await;
    gateway.hears_result("r1").await;
    gateway
        .asks("r2", json!({"op": "edit", "chat_id": "web-1", "message_id": "m2", "content": "done"}))
        .await;
    gateway.hears_result("r2").await;
    server.winds(seconds(5));
    server.says(&web, "web-1", "/stop").await;
    gateway.takes("/stop").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_stop_to_a_chat_whose_turn_was_interrupted_before_is_delivered() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut agent = heron.sits_with_window(8).await;
    heron.hears_from("work").await;
    agent.takes("work").await;
    server
        .relay
        .interrupts()
        .interrupt(&heron.instance, &crate::test_server::message(&heron.bots[0], "c1", "").source);
    assert_eq!(agent.hears().await, interrupt("c1"));
    heron.hears_from("/stop").await;
    agent.takes("/stop").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_stop_is_not_confirmed_when_its_socket_died_and_the_text_goes_to_the_next() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    heron.hears_from("/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    gateway.dies();
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    server.winds(seconds(5));
    let mut next = heron.sits_settled().await;
    next.takes("/stop").await;
    heron.has_unread(0).await;
    assert!(server.egress.texts("c1").is_empty(), "it may well go on");
}

#[tokio::test]
async fn a_stop_that_never_reached_the_agent_is_not_confirmed() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    heron.hears_from("/stop").await;
    // Nothing is heard from it any more: the connection may be dead.
    server.winds(seconds(5));
    assert_eq!(gateway.hears().await, interrupt("c1"));
    gateway.takes("/stop").await;
    heron.has_unread(0).await;
    assert!(server.egress.texts("c1").is_empty());
}

#[tokio::test]
async fn typing_that_comes_late_because_the_platform_is_slow_still_shows_that_a_turn_goes_on() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    heron.hears_from("/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    // A stock gateway types 2 s after the platform has taken the last sign, for which it waits up to 1.5 s.
    server.winds(millis(1_500));
    types(&mut gateway, "c1").await;
    server.winds(millis(3_500));
    gateway.takes("/stop").await;
    heron.has_unread(0).await;
    assert!(server.egress.texts("c1").is_empty());
}

#[tokio::test]
async fn a_stop_said_again_waits_for_the_first_and_takes_no_other_chats_place() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1", "c2"]).await;
    for _ in 0..65 {
        heron.hears_from("/stop").await;
    }
    server.says(&heron.bots[0], "c2", "/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1"), interrupt("c2")]);
    server.winds(seconds(5));
    for _ in 1..65 {
        gateway.takes("/stop").await;
    }
    heron.has_unread(0).await;
    eventually(|| server.egress.texts("c2") == ["Stopped."]).await;
    assert_eq!(server.egress.texts("c1"), ["Stopped."]);
}

#[tokio::test]
async fn a_stop_interrupts_even_when_the_inbox_is_full() {
    let server = TestServer::open_with(Config { inbox_entries: 4, ..Config::default() }).await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    let on = &heron.bots[0];
    heron.hears_from("flood").await;
    let (text, flood) = gateway.hears_inbound().await;
    assert_eq!(text, "flood");
    let stop = server.brings(on, crate::test_server::message(on, "c1", "/stop"), None).await;
    assert_eq!(stop, None, "one person has a quarter of the inbox");
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    server.winds(seconds(5));
    eventually(|| server.egress.texts("c1") == ["Stopped."]).await;
    gateway.acknowledges(&flood).await;
    heron.has_unread(0).await;
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn the_platform_is_told_which_message_ends_a_turn() {
    let server = TestServer::open().await;
    let (heron, mut stock) = at_work(&server, &["c1"]).await;
    let send =
        |metadata: Value| json!({"op": "send", "chat_id": "c1", "content": "so", "metadata": metadata});
    stock.asks("r1", send(json!({}))).await;
    stock.hears_result("r1").await;
    stock.asks("r2", send(json!({"notify": true}))).await;
    stock.hears_result("r2").await;
    stock.says_goodbye().await;
    let mut ours = heron.sits_with_window(8).await;
    ours.asks("r3", send(json!({"expect_edits": true}))).await;
    ours.hears_result("r3").await;
    ours.asks("r4", send(json!({}))).await;
    ours.hears_result("r4").await;
    // And so does our own word that it was stopped.
    server.winds(seconds(1));
    heron.hears_from("work").await;
    ours.takes("work").await;
    types(&mut ours, "c1").await;
    heron.hears_from("/stop").await;
    assert_eq!(told(&mut ours).await, [interrupt("c1")]);
    server.winds(seconds(5));
    eventually(|| server.egress.texts("c1").len() == 5).await;
    let orders = server.egress.orders().into_iter().filter(|order| order.action.op() == "send");
    assert_eq!(orders.map(|order| order.ends_turn).collect::<Vec<_>>(), [false, true, false, true, true]);
}

#[tokio::test]
async fn while_a_stop_has_its_chance_other_chats_pass_and_its_own_waits_in_order() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    let on = &heron.bots[0];
    server.says(on, "c1", "/stop").await;
    server.says(on, "c1", "something else").await;
    server.says(on, "c2", "another chat").await;
    assert_eq!(gateway.hears().await, interrupt("c1"));
    gateway.takes("another chat").await;
    gateway.hears_nothing().await;
    for _ in 0..2 {
        server.winds(seconds(2));
        types(&mut gateway, "c1").await;
    }
    server.winds(seconds(1));
    gateway.takes("/stop").await;
    gateway.takes("something else").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_turn_that_answered_meanwhile_is_not_said_to_be_stopped() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    heron.hears_from("/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    server.winds(seconds(1));
    let answer = json!({"op": "send", "chat_id": "c1", "content": "done", "metadata": {"notify": true}});
    gateway.asks("r1", answer).await;
    gateway.hears_result("r1").await;
    server.winds(seconds(4));
    heron.has_unread(0).await;
    heron.hears_from("next").await;
    gateway.takes("next").await;
    assert_eq!(server.egress.texts("c1"), ["done"]);
}

#[tokio::test]
async fn what_was_said_after_an_honoured_stop_follows_it() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    heron.hears_from("/stop").await;
    heron.hears_from("something else").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    server.winds(seconds(5));
    gateway.takes("something else").await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn a_stop_goes_to_the_socket_that_took_the_sessions_last_entry_whatever_its_role() {
    let server = TestServer::open().await;
    let (heron, mut old) = at_work(&server, &["c1"]).await;
    let other = heron.with_another_gateway("gw-other").await;
    let mut reserve = other.sits_settled().await;
    server.says(&heron.bots[0], "c2", "for the second").await;
    reserve.takes("for the second").await;
    types(&mut reserve, "c2").await;
    let mut live = heron.sits_settled().await;
    server.says(&heron.bots[0], "c3", "for the third").await;
    live.takes("for the third").await;
    types(&mut old, "c1").await;
    types(&mut reserve, "c2").await;
    // One of them was superseded by its own credential, the other by another one.
    server.says(&heron.bots[0], "c1", "/stop").await;
    assert_eq!(told(&mut old).await, [interrupt("c1")]);
    server.says(&heron.bots[0], "c2", "/stop").await;
    assert_eq!(told(&mut reserve).await, [interrupt("c2")]);
    live.hears_nothing().await;
    // So does one that an agent or the page asks for.
    server
        .relay
        .interrupts()
        .interrupt(&heron.instance, &crate::test_server::message(&heron.bots[0], "c1", "").source);
    assert_eq!(old.hears().await, interrupt("c1"));
    live.hears_nothing().await;
}

#[tokio::test]
async fn a_stop_leaves_a_sibling_turn_that_goes_on_alone() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1", "c2"]).await;
    heron.hears_from("/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    for _ in 0..5 {
        server.winds(seconds(1));
        types(&mut gateway, "c2").await;
    }
    eventually(|| server.egress.texts("c1") == ["Stopped."]).await;
    assert!(server.egress.texts("c2").is_empty());
    gateway.sends("r1", "c2", "the sibling's answer").await;
    assert_eq!(gateway.hears_result("r1").await["success"], true);
}

#[tokio::test]
async fn a_stop_that_a_closing_server_cut_off_stays_as_text() {
    let server = TestServer::open().await;
    let (heron, mut gateway) = at_work(&server, &["c1"]).await;
    heron.hears_from("/stop").await;
    assert_eq!(told(&mut gateway).await, [interrupt("c1")]);
    let (_, end) = tokio::join!(server.relay.close(), gateway.ends());
    assert_eq!(end, End::Closed(1012, "the server is shutting down".to_owned()));
    assert_eq!(heron.unread().await, 1);
}
