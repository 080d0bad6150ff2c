//! Connecting, being refused, and reconnecting.

use posthouse_agent::wire::{Descriptor, FromGateway, Secret, ToGateway, token};
use posthouse_agent::{BotIdentity, ConnectionState, Fault, RelayTransport, Settings, WebSocketTransport};
use tokio::io::AsyncReadExt;

use crate::test_server::{GATEWAY, SECRET, TestServer, listen, seconds, soon};

#[tokio::test]
async fn every_dial_presents_a_fresh_token_at_the_relay_path() {
    let server = TestServer::open().await;
    let (transport, seat, _received) = server.connected().await;
    let secret = Secret::new(SECRET);
    let first = seat.bearer.clone();
    assert_eq!(seat.path, "/relay");
    assert_eq!(token::claimed_gateway(&first).unwrap(), GATEWAY);
    server.clock.wind(seconds(10));
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(1));
    let seat = server.seats().await;
    assert_ne!(seat.bearer, first);
    let now = server.clock.now().seconds();
    assert_eq!(seat.bearer, token::mint(&GATEWAY.into(), &secret, 300, now));
}

#[tokio::test]
async fn every_identity_says_hello_at_once_and_names_client_and_window() {
    let server = TestServer::open().await;
    let settings = server
        .settings()
        .with_bots([BotIdentity::new("alpha", "a1"), BotIdentity::new("beta", "")])
        .window(8);
    let transport = WebSocketTransport::with_timepiece(settings, server.clock.clone()).unwrap();
    let dialing = tokio::spawn({
        let transport = transport.clone();
        async move { transport.connect().await }
    });
    let mut seat = server.answers().await;
    for (platform, bot) in [("alpha", "a1"), ("beta", "")] {
        let FromGateway::Hello(hello) = seat.hears().await else { panic!("hello comes first") };
        assert_eq!((hello.platform.as_str(), hello.bot_id.as_str()), (platform, bot));
        assert_eq!(hello.client.as_deref(), Some(concat!("posthouse-agent/", env!("CARGO_PKG_VERSION"))));
        assert_eq!(hello.window, Some(8));
    }
    assert_eq!(seat.sizes.len(), 1);
    assert!(!dialing.is_finished());
    let mut beta = Descriptor::new("beta", "Beta");
    beta.max_message_length = 99;
    seat.says(ToGateway::Descriptor(Box::new(Descriptor::new("alpha", "Alpha")))).await;
    seat.says(ToGateway::Descriptor(Box::new(beta))).await;
    soon(dialing).await.unwrap().unwrap();
    assert_eq!(transport.handshake().await.unwrap().platform, "alpha");
    while transport.descriptors().of(&"beta".into()).is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(transport.descriptors().of(&"beta".into()).unwrap().max_message_length, 99);
}

#[tokio::test]
async fn a_server_of_another_contract_version_is_talked_to_in_ours() {
    let server = TestServer::open().await;
    let transport = server.transport();
    let mut received = listen(&transport);
    let dialing = tokio::spawn({
        let transport = transport.clone();
        async move { transport.connect().await }
    });
    let mut seat = server.answers().await;
    let FromGateway::Hello(hello) = seat.hears().await else { panic!("hello comes first") };
    let mut descriptor = Descriptor::new(hello.platform.clone(), "Later");
    descriptor.contract_version = 2;
    let later = ToGateway::Descriptor(Box::new(descriptor)).line();
    let later = later.replacen("{\"type\"", "{\"since\":{\"version\":2},\"type\"", 1);
    seat.says_raw(later).await;
    soon(dialing).await.unwrap().unwrap();
    assert_eq!(transport.handshake().await.unwrap().contract_version, 2);
    // Unknown frames are ignored, and known ones work.
    seat.says_raw("{\"type\":\"presence\",\"contract_version\":2}\n").await;
    seat.brings("ent_1", "good morning").await;
    assert_eq!(received.next().await, "good morning");
    received.takes();
    seat.hears_ack("ent_1").await;
}

#[tokio::test]
async fn refused_before_any_handshake_it_keeps_trying() {
    let server = TestServer::open().await;
    let transport = server.transport();
    let (opened, ()) = tokio::join!(transport.connect(), async {
        server.answers().await.closes(4401, "unauthorized").await
    });
    assert_eq!(opened, Err(Fault::Refused));
    for pause in [1, 2, 4] {
        soon(transport.until(|state| state == ConnectionState::Waiting)).await;
        server.clock.wind(seconds(pause));
        server.answers().await.closes(4401, "unauthorized").await;
    }
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(8));
    let _seat = server.seats().await;
    soon(transport.until(|state| state == ConnectionState::Live)).await;
}

#[tokio::test]
async fn refused_after_a_handshake_it_tries_one_fresh_token_and_then_stops() {
    let server = TestServer::open().await;
    let (transport, seat, _received) = server.connected().await;
    seat.closes(4401, "unauthorized").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(1));
    server.answers().await.closes(4401, "unauthorized").await;
    assert_eq!(soon(transport.ended()).await, Fault::Revoked);
    assert_eq!(transport.state(), ConnectionState::Revoked);
    server.hears_nobody().await;
}

#[tokio::test]
async fn an_expired_token_is_never_final() {
    let server = TestServer::open().await;
    let (transport, seat, _received) = server.connected().await;
    seat.closes(4401, "expired").await;
    for pause in [1, 2, 4] {
        soon(transport.until(|state| state == ConnectionState::Waiting)).await;
        server.clock.wind(seconds(pause));
        server.answers().await.closes(4401, "expired").await;
    }
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
}

#[tokio::test]
async fn superseded_it_leaves_the_other_holder_in_peace_for_a_while() {
    let server = TestServer::open().await;
    let (transport, seat, _received) = server.connected().await;
    seat.closes(4409, "superseded").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(20));
    server.is_dialed_by_nobody().await;
    assert_eq!(transport.state(), ConnectionState::Waiting);
    server.clock.wind(seconds(10));
    let _seat = server.seats().await;
}

#[tokio::test]
async fn connecting_while_it_waits_dials_at_once() {
    let server = TestServer::open().await;
    let (transport, seat, _received) = server.connected().await;
    seat.closes(4409, "superseded").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    let (opened, _seat) = tokio::join!(transport.connect(), server.seats());
    opened.unwrap();
}

#[tokio::test]
async fn a_server_that_describes_nothing_is_left_after_thirty_seconds() {
    let server = TestServer::open().await;
    let transport = server.transport();
    let (opened, seat) = tokio::join!(transport.connect(), async {
        let mut seat = server.answers().await;
        seat.hears().await;
        server.clock.wind(seconds(30));
        assert_eq!(seat.next().await, None);
        seat
    });
    assert_eq!(opened, Err(Fault::NoIdentity));
    drop(seat);
}

#[tokio::test]
async fn a_silent_server_is_asked_and_then_given_up() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    // Read below the WebSocket layer, which would answer the pings.
    for _ in 0..3 {
        server.clock.wind(seconds(30));
        let mut ping = [0; 6];
        soon(seat.socket.get_mut().read_exact(&mut ping)).await.unwrap();
        assert_eq!(ping[..2], [0x89, 0x80]);
    }
    assert_eq!(transport.state(), ConnectionState::Live);
    server.clock.wind(seconds(30));
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
}

#[tokio::test]
async fn a_server_that_answers_pings_is_kept_and_its_own_are_answered() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    for _ in 0..6 {
        server.clock.wind(seconds(30));
        assert!(matches!(soon(seat.socket.next()).await, Some(Ok(Message::Ping(_)))));
        // The next write carries the pong along.
        soon(seat.socket.send(Message::Ping("tock".into()))).await.unwrap();
        let pong = soon(seat.socket.next()).await;
        assert!(matches!(pong, Some(Ok(Message::Pong(payload))) if payload == "tock"));
    }
    assert_eq!(transport.state(), ConnectionState::Live);
}

#[tokio::test]
async fn disconnected_it_hangs_up_and_stays_away() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    tokio::join!(transport.disconnect(), async { assert_eq!(seat.next().await, None) });
    assert_eq!(transport.state(), ConnectionState::Closed);
    assert_eq!(soon(transport.ended()).await, Fault::Closed);
    server.hears_nobody().await;
}

#[tokio::test]
async fn the_line_closes_with_its_last_handle() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    drop(transport);
    assert_eq!(seat.next().await, None);
    server.hears_nobody().await;
}

#[tokio::test]
async fn an_unreachable_server_is_reported_and_tried_again() {
    let server = TestServer::open().await;
    let settings = Settings::new("ws://127.0.0.1:1/relay", GATEWAY, Secret::new(SECRET));
    let transport = WebSocketTransport::with_timepiece(settings, server.clock.clone()).unwrap();
    assert!(matches!(soon(transport.connect()).await, Err(Fault::Unreachable(_))));
    assert_eq!(transport.state(), ConnectionState::Waiting);
    for address in ["gopher://somewhere", "http://", ""] {
        let settings = Settings::new(address, GATEWAY, Secret::new(SECRET));
        assert!(matches!(WebSocketTransport::new(settings), Err(Fault::Address(..))), "{address}");
    }
}
