//! Discord stand-in: gateway.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use stand_ins::{
    discord::{DiscordInjection, DiscordPerson, DiscordStandIn, Settings, SocketOrder},
    harness::RowFilter,
};
use tokio::net::TcpStream;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

use crate::{
    actors::LONG,
    discord::{TOKEN, discord, settings},
};

/// Messages of servers and people, with their content.
const INTENTS: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 15;

struct Gateway(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Gateway {
    async fn open(discord: &DiscordStandIn) -> Gateway {
        let url = format!("ws://{}/?v=10&encoding=json", discord.address());
        let mut gateway = Gateway(connect_async(url).await.unwrap().0);
        assert_eq!(gateway.next().await["op"], 10);
        gateway
    }

    async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// The next frame, or the close code as a number.
    async fn next(&mut self) -> Value {
        match tokio::time::timeout(LONG, self.0.next()).await.unwrap() {
            Some(Ok(Message::Text(text))) => serde_json::from_str(&text).unwrap(),
            Some(Ok(Message::Close(Some(frame)))) => json!(u16::from(frame.code)),
            other => panic!("unexpected {other:?}"),
        }
    }

    async fn identify(&mut self, intents: u64) -> Value {
        let identify = json!({"token": TOKEN, "intents": intents, "properties": {}});
        self.send(json!({"op": 2, "d": identify})).await;
        self.next().await
    }
}

fn says(text: &str) -> DiscordInjection {
    DiscordInjection::direct(DiscordPerson::new("77", "ana"), text)
}

#[tokio::test]
async fn wrong_clients_are_closed_with_the_code_of_their_mistake() {
    let mut settings = settings();
    settings.bots[0].privileged_intents = false;
    let discord = DiscordStandIn::start(settings).await.unwrap();
    for (frame, code) in [
        (json!({"op": 2, "d": {"token": "wrong", "intents": 1, "properties": {}}}), 4004),
        (json!({"op": 2, "d": {"token": TOKEN, "intents": 1u64 << 40, "properties": {}}}), 4013),
        (json!({"op": 2, "d": {"token": TOKEN, "intents": INTENTS, "properties": {}}}), 4014),
        (json!({"op": 2, "d": {"token": TOKEN, "intents": 1, "properties": {}, "shard": [2, 2]}}), 4010),
        (json!({"op": 8, "d": {"guild_id": "1"}}), 4003),
        (json!({"op": 99}), 4001),
        (json!("x".repeat(5000)), 4002),
    ] {
        let mut gateway = Gateway::open(&discord).await;
        gateway.send(frame.clone()).await;
        assert_eq!(gateway.next().await, code, "{frame}");
    }
}

#[tokio::test]
async fn a_resumed_session_gets_what_it_missed_and_an_unknown_one_does_not() {
    let discord = discord().await;
    let mut gateway = Gateway::open(&discord).await;
    let ready = gateway.identify(INTENTS).await;
    let session = ready["d"]["session_id"].clone();
    discord.inject(says("one")).unwrap();
    let one = gateway.next().await;
    assert_eq!((&one["t"], &one["d"]["content"]), (&json!("MESSAGE_CREATE"), &json!("one")));
    assert_eq!(discord.order("42", &SocketOrder::Close { code: 4000 }), 1);
    assert_eq!(gateway.next().await, 4000);
    assert!(discord.until(LONG, |discord| !discord.sessions()[0].connected).await);
    discord.inject(says("two")).unwrap();

    let resume = |seq: Value| json!({"op": 6, "d": {"token": TOKEN, "session_id": session, "seq": seq}});
    let mut gateway = Gateway::open(&discord).await;
    gateway.send(resume(one["s"].clone())).await;
    assert_eq!(gateway.next().await["d"]["content"], "two");
    assert_eq!(gateway.next().await["t"], "RESUMED");
    assert_eq!(discord.transcript(&RowFilter::kind("resumed")).len(), 1);

    let mut ahead = Gateway::open(&discord).await;
    ahead.send(resume(json!(999))).await;
    assert_eq!(ahead.next().await, 4007);
    let mut stranger = Gateway::open(&discord).await;
    stranger.send(json!({"op": 6, "d": {"token": TOKEN, "session_id": "unknown", "seq": 1}})).await;
    assert_eq!(stranger.next().await, json!({"op": 9, "d": false, "s": null, "t": null}));
}

#[tokio::test]
async fn frames_that_are_no_longer_kept_end_a_session() {
    let discord = DiscordStandIn::start(Settings { replay_frames: 3, ..settings() }).await.unwrap();
    let mut gateway = Gateway::open(&discord).await;
    let session = gateway.identify(INTENTS).await["d"]["session_id"].clone();
    discord.order("42", &SocketOrder::Cut);
    assert!(discord.until(LONG, |discord| !discord.sessions()[0].connected).await);
    for number in 0..9 {
        discord.inject(says(&number.to_string())).unwrap();
    }
    let mut gateway = Gateway::open(&discord).await;
    gateway.send(json!({"op": 6, "d": {"token": TOKEN, "session_id": session, "seq": 1}})).await;
    assert_eq!(gateway.next().await["op"], 9);
}

#[tokio::test]
async fn a_bot_without_the_content_intent_sees_texts_only_in_direct_messages() {
    let discord = discord().await;
    let mut gateway = Gateway::open(&discord).await;
    gateway.identify(INTENTS & !(1 << 15)).await;
    let in_server =
        json!({"do": "message", "text": "hidden", "in": {"guild_id": "900", "channel_id": "901"}});
    discord.inject(serde_json::from_value(in_server).unwrap()).unwrap();
    discord.inject(says("open")).unwrap();
    let mut texts = Vec::new();
    while texts.len() < 2 {
        let event = gateway.next().await;
        if event["t"] == "MESSAGE_CREATE" {
            texts.push(event["d"]["content"].clone());
        }
    }
    assert_eq!(texts, ["", "open"]);
}

#[tokio::test]
async fn a_heartbeat_is_acknowledged_unless_the_gateway_is_muted() {
    let discord = discord().await;
    let mut gateway = Gateway::open(&discord).await;
    gateway.identify(INTENTS).await;
    gateway.send(json!({"op": 1, "d": 1})).await;
    assert_eq!(gateway.next().await["op"], 11);
    discord.order("42", &SocketOrder::Mute);
    discord.inject(says("after the order")).unwrap();
    assert_eq!(gateway.next().await["t"], "MESSAGE_CREATE");
    gateway.send(json!({"op": 1, "d": 2})).await;
    discord.inject(says("marker")).unwrap();
    assert_eq!(gateway.next().await["d"]["content"], "marker");
}
