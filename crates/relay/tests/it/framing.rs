//! Framing: lines inside messages, and malformed input (sections 4, 5 and 22).

use serde_json::json;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::gateway::{End, Gateway};
use crate::test_server::{Agent, TestServer, bot, eventually, seconds};

const MEBIBYTE: usize = 1024 * 1024;

#[tokio::test]
async fn many_lines_in_one_message_and_one_line_over_many() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    let ask = |request: &str| {
        format!("{}\n", json!({"type": "outbound", "requestId": request, "action": {"op": "x"}}))
    };
    let many = format!("\n\r\n  \n{}{}\n{}", ask("r1"), ask("r2"), ask("r3"));
    gateway.say_raw(Message::text(many)).await;
    for request in ["r1", "r2", "r3"] {
        gateway.hears_result(request).await;
    }
    for piece in ask("r4é").as_bytes().chunks(3) {
        gateway.say_raw(Message::binary(piece.to_vec())).await;
    }
    gateway.hears_result("r4é").await;
}

#[tokio::test]
async fn noise_is_ignored_and_the_socket_stays() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    let noise: [&[u8]; 14] = [
        b"\xff\xfe\x00\x01\n",
        b"not json\n",
        b"{\n",
        b"[]\n",
        b"1\n",
        b"null\n",
        b"\"hello\"\n",
        b"{}\n",
        b"{\"type\":7}\n",
        b"{\"type\":\"levitate\"}\n",
        b"{\"type\":\"hello\"}\n",
        b"{\"type\":\"hello\",\"platform\":5,\"botId\":{}}\n",
        b"{\"type\":\"inbound_ack\",\"bufferId\":5}\n",
        b"{\"type\":\"interrupt\"}\n",
    ];
    for bytes in noise {
        gateway.say_raw(Message::binary(bytes.to_vec())).await;
    }
    gateway.say_raw(Message::text("[".repeat(100_000) + "\n")).await;
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn frames_of_the_wrong_direction_are_ignored() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    server.says(&heron.bots[0], "c1", "hi").await;
    let mut gateway = heron.sits().await;
    for frame in [
        json!({"type": "descriptor", "descriptor": {}}),
        json!({"type": "inbound", "event": {"text": "me"}, "bufferId": "x"}),
        json!({"type": "outbound_result", "requestId": "r1", "result": {"success": true}}),
        json!({"type": "interrupt_inbound", "session_key": "agent:main:telegram:dm:c1", "chat_id": "c1"}),
        json!({"type": "passthrough_forward", "forward": {}}),
        json!({"type": "going_idle_ack"}),
    ] {
        gateway.say(frame).await;
    }
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn a_line_of_four_mebibytes_is_taken_and_a_longer_one_closes_1009() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    let frame = |filler: usize| {
        let filler = "x".repeat(filler);
        format!(
            "{}\n",
            json!({"type": "outbound", "requestId": "r1", "action": {"op": "x"}, "filler": filler})
        )
    };
    let short = frame(0).len();
    gateway.say_raw(Message::text(frame(4 * MEBIBYTE + 1 - short))).await;
    gateway.hears_result("r1").await;
    gateway.say_raw(Message::text(frame(4 * MEBIBYTE + 2 - short))).await;
    assert_eq!(gateway.ends().await, End::Closed(1009, "line too long".to_owned()));
}

#[tokio::test]
async fn a_line_that_never_ends_closes_1009() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    for _ in 0..9 {
        gateway.say_raw(Message::text("x".repeat(MEBIBYTE / 2))).await;
    }
    assert_eq!(gateway.ends().await, End::Closed(1009, "line too long".to_owned()));
}

#[tokio::test]
async fn a_message_of_very_many_tiny_lines_is_worked_off() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    gateway.say_raw(Message::text("{}\n".repeat(900))).await;
    gateway.hears_nothing().await;
}

/// A line that sends a text to a chat.
fn send(request: &str, chat: &str) -> String {
    let action = json!({"op": "send", "chat_id": chat, "content": request});
    format!("{}\n", json!({"type": "outbound", "requestId": request, "action": action}))
}

/// Somebody says something to the agent, so that it may answer there.
async fn in_chat(agent: &Agent, gateway: &mut Gateway, chat: &str) {
    agent.server.says(&agent.bots[0], chat, "hello").await;
    agent.server.winds(seconds(4));
    gateway.takes("hello").await;
    agent.has_unread(0).await;
}

/// Many turns for whatever else may go on.
async fn is_served(gateway: &mut Gateway) {
    for _ in 0..10 {
        gateway.hears_nothing().await;
    }
}

#[tokio::test]
async fn junk_lines_of_one_agent_are_paced_and_another_is_served_meanwhile() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let otter = server.enrol("zen", "otter", &[bot("telegram", "7002")]).await;
    let (mut noisy, mut quiet) = (heron.sits().await, otter.sits().await);
    in_chat(&heron, &mut noisy, "c1").await;
    server.winds(seconds(2));
    let junk = |lines| "{}\n".repeat(lines);
    // A thousand lines in the first second, a thousand in the next: the clock stands, so the rest has to wait.
    noisy.say_raw(Message::text(junk(900) + &send("first", "c1") + &junk(600) + &send("behind", "c1"))).await;
    noisy.hears_result("first").await;
    is_served(&mut quiet).await;
    assert_eq!(server.egress.texts("c1"), ["first"]);
    server.winds(seconds(2));
    noisy.hears_result("behind").await;
}

#[tokio::test]
async fn control_frames_and_empty_messages_of_one_agent_are_paced() {
    // Pings cost the same; their answers would make this test long.
    for flood in [Message::Pong(Bytes::new()), Message::text("")] {
        let server = TestServer::open().await;
        let heron = server.heron().await;
        let otter = server.enrol("zen", "otter", &[bot("telegram", "7002")]).await;
        let (mut noisy, mut quiet) = (heron.sits().await, otter.sits().await);
        in_chat(&heron, &mut noisy, "c1").await;
        server.winds(seconds(10));
        for _ in 0..41_000 {
            noisy.feed_raw(flood.clone()).await;
        }
        noisy.say_raw(Message::text(send("behind", "c1"))).await;
        for _ in 0..6 {
            is_served(&mut quiet).await;
        }
        assert!(server.egress.texts("c1").is_empty());
        server.winds_until(noisy.hears_result("behind")).await;
    }
}

#[tokio::test]
async fn a_client_that_left_is_noticed_before_its_last_messages_are_worked_off() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut gateway = heron.sits().await;
    in_chat(&heron, &mut gateway, "c1").await;
    // The clock stands, so a thousand of these lines are read and the others wait.
    gateway.say_raw(Message::text("{}\n".repeat(2_000) + &send("last", "c1"))).await;
    for _ in 0..3 {
        gateway.say_raw(Message::text("{}\n".repeat(1_000))).await;
    }
    gateway.say_raw(Message::Close(None)).await;
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    assert!(server.egress.texts("c1").is_empty());
}

#[tokio::test]
async fn a_client_whose_lines_wait_for_their_pace_is_not_silent() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let otter = server.enrol("zen", "otter", &[bot("telegram", "7002")]).await;
    let (mut gateway, mut quiet) = (heron.sits().await, otter.sits().await);
    for _ in 0..2 {
        gateway.say_raw(Message::text("{}\n".repeat(400_000))).await;
    }
    is_served(&mut quiet).await;
    // It answers every ping behind what is not read yet, for longer than anybody may be silent.
    for _ in 0..5 {
        server.winds(seconds(30));
        gateway.answers_a_ping().await;
    }
}

#[tokio::test]
async fn an_event_of_three_mebibytes_arrives_whole_in_messages_of_at_most_512_kib() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let text = "é😀".repeat(MEBIBYTE / 2);
    heron.hears_from(&text).await;
    let mut gateway = heron.sits_settled().await;
    let (heard, entry) = gateway.hears_inbound().await;
    assert!(heard == text, "the text was changed on its way");
    assert!(gateway.longest <= 512 * 1024, "{}", gateway.longest);
    gateway.acknowledges(&entry).await;
    heron.has_unread(0).await;
}

#[tokio::test]
async fn texts_with_line_breaks_and_controls_are_one_line() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let text = "a\nb\r\n\u{0}\u{1}\u{2028}\"\\c";
    heron.hears_from(text).await;
    let mut gateway = heron.sits_settled().await;
    assert_eq!(gateway.hears_inbound().await.0, text);
}
