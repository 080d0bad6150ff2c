//! Connecting, being refused, and reconnecting.

use posthouse_agent::wire::{Descriptor, FromGateway, Secret, ToGateway, token};
use posthouse_agent::{Fault, Identity, RelayTransport, Settings, Standing, WebSocketTransport};
use tokio::io::AsyncReadExt;

use crate::house::{GATEWAY, House, SECRET, listen, seconds, soon};

#[tokio::test]
async fn every_dial_presents_a_fresh_token_at_the_relay_path() {
    let house = House::open().await;
    let (line, seat, _heard) = house.connected().await;
    let secret = Secret::new(SECRET);
    let first = seat.bearer.clone();
    assert_eq!(seat.path, "/relay");
    assert_eq!(token::claimed_gateway(&first).unwrap(), GATEWAY);
    house.clock.wind(seconds(10));
    seat.closes(1012, "").await;
    soon(line.until(|standing| standing == Standing::Waiting)).await;
    house.clock.wind(seconds(1));
    let seat = house.seats().await;
    assert_ne!(seat.bearer, first);
    let now = house.clock.now().seconds();
    assert_eq!(seat.bearer, token::mint(&GATEWAY.into(), &secret, 300, now));
}

#[tokio::test]
async fn every_identity_says_hello_at_once_and_names_client_and_window() {
    let house = House::open().await;
    let settings =
        house.settings().fronting([Identity::new("alpha", "a1"), Identity::new("beta", "")]).window(8);
    let line = WebSocketTransport::with_timepiece(settings, house.clock.clone()).unwrap();
    let dialing = tokio::spawn({
        let line = line.clone();
        async move { line.connect().await }
    });
    let mut seat = house.answers().await;
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
    assert_eq!(line.handshake().await.unwrap().platform, "alpha");
    while line.descriptors().of(&"beta".into()).is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(line.descriptors().of(&"beta".into()).unwrap().max_message_length, 99);
}

#[tokio::test]
async fn a_server_of_another_contract_version_is_talked_to_in_ours() {
    let house = House::open().await;
    let line = house.line();
    let mut heard = listen(&line);
    let dialing = tokio::spawn({
        let line = line.clone();
        async move { line.connect().await }
    });
    let mut seat = house.answers().await;
    let FromGateway::Hello(hello) = seat.hears().await else { panic!("hello comes first") };
    let mut descriptor = Descriptor::new(hello.platform.clone(), "Later");
    descriptor.contract_version = 2;
    let later = ToGateway::Descriptor(Box::new(descriptor)).line();
    let later = later.replacen("{\"type\"", "{\"since\":{\"version\":2},\"type\"", 1);
    seat.says_raw(later).await;
    soon(dialing).await.unwrap().unwrap();
    assert_eq!(line.handshake().await.unwrap().contract_version, 2);
    // Unknown frames are ignored, and known ones work.
    seat.says_raw("{\"type\":\"presence\",\"contract_version\":2}\n").await;
    seat.brings("ent_1", "good morning").await;
    assert_eq!(heard.next().await, "good morning");
    heard.takes();
    seat.hears_ack("ent_1").await;
}

#[tokio::test]
async fn refused_before_any_handshake_it_keeps_trying() {
    let house = House::open().await;
    let line = house.line();
    let (opened, ()) =
        tokio::join!(line.connect(), async { house.answers().await.closes(4401, "unauthorized").await });
    assert_eq!(opened, Err(Fault::Refused));
    for pause in [1, 2, 4] {
        soon(line.until(|standing| standing == Standing::Waiting)).await;
        house.clock.wind(seconds(pause));
        house.answers().await.closes(4401, "unauthorized").await;
    }
    soon(line.until(|standing| standing == Standing::Waiting)).await;
    house.clock.wind(seconds(8));
    let _seat = house.seats().await;
    soon(line.until(|standing| standing == Standing::Live)).await;
}

#[tokio::test]
async fn refused_after_a_handshake_it_tries_one_fresh_token_and_then_stops() {
    let house = House::open().await;
    let (line, seat, _heard) = house.connected().await;
    seat.closes(4401, "unauthorized").await;
    soon(line.until(|standing| standing == Standing::Waiting)).await;
    house.clock.wind(seconds(1));
    house.answers().await.closes(4401, "unauthorized").await;
    assert_eq!(soon(line.ended()).await, Fault::Revoked);
    assert_eq!(line.standing(), Standing::Revoked);
    house.hears_nobody().await;
}

#[tokio::test]
async fn an_expired_token_is_never_final() {
    let house = House::open().await;
    let (line, seat, _heard) = house.connected().await;
    seat.closes(4401, "expired").await;
    for pause in [1, 2, 4] {
        soon(line.until(|standing| standing == Standing::Waiting)).await;
        house.clock.wind(seconds(pause));
        house.answers().await.closes(4401, "expired").await;
    }
    soon(line.until(|standing| standing == Standing::Waiting)).await;
}

#[tokio::test]
async fn superseded_it_leaves_the_other_holder_in_peace_for_a_while() {
    let house = House::open().await;
    let (line, seat, _heard) = house.connected().await;
    seat.closes(4409, "superseded").await;
    soon(line.until(|standing| standing == Standing::Waiting)).await;
    house.clock.wind(seconds(20));
    tokio::task::yield_now().await;
    assert_eq!(line.standing(), Standing::Waiting);
    house.clock.wind(seconds(10));
    let _seat = house.seats().await;
}

#[tokio::test]
async fn connecting_while_it_waits_dials_at_once() {
    let house = House::open().await;
    let (line, seat, _heard) = house.connected().await;
    seat.closes(4409, "superseded").await;
    soon(line.until(|standing| standing == Standing::Waiting)).await;
    let (opened, _seat) = tokio::join!(line.connect(), house.seats());
    opened.unwrap();
}

#[tokio::test]
async fn a_house_that_describes_nothing_is_left_after_thirty_seconds() {
    let house = House::open().await;
    let line = house.line();
    let (opened, seat) = tokio::join!(line.connect(), async {
        let mut seat = house.answers().await;
        seat.hears().await;
        house.clock.wind(seconds(30));
        assert_eq!(seat.next().await, None);
        seat
    });
    assert_eq!(opened, Err(Fault::NoIdentity));
    drop(seat);
}

#[tokio::test]
async fn a_silent_house_is_asked_and_then_given_up() {
    let house = House::open().await;
    let (line, mut seat, _heard) = house.connected().await;
    // Read below the WebSocket layer, which would answer the pings.
    for _ in 0..3 {
        house.clock.wind(seconds(30));
        let mut ping = [0; 6];
        soon(seat.socket.get_mut().read_exact(&mut ping)).await.unwrap();
        assert_eq!(ping[..2], [0x89, 0x80]);
    }
    assert_eq!(line.standing(), Standing::Live);
    house.clock.wind(seconds(30));
    soon(line.until(|standing| standing == Standing::Waiting)).await;
}

#[tokio::test]
async fn a_house_that_answers_pings_is_kept_and_its_own_are_answered() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;
    let house = House::open().await;
    let (line, mut seat, _heard) = house.connected().await;
    for _ in 0..6 {
        house.clock.wind(seconds(30));
        assert!(matches!(soon(seat.socket.next()).await, Some(Ok(Message::Ping(_)))));
        // The next write carries the pong along.
        soon(seat.socket.send(Message::Ping("tock".into()))).await.unwrap();
        let pong = soon(seat.socket.next()).await;
        assert!(matches!(pong, Some(Ok(Message::Pong(payload))) if payload == "tock"));
    }
    assert_eq!(line.standing(), Standing::Live);
}

#[tokio::test]
async fn disconnected_it_hangs_up_and_stays_away() {
    let house = House::open().await;
    let (line, mut seat, _heard) = house.connected().await;
    tokio::join!(line.disconnect(), async { assert_eq!(seat.next().await, None) });
    assert_eq!(line.standing(), Standing::Closed);
    assert_eq!(soon(line.ended()).await, Fault::Closed);
    house.hears_nobody().await;
}

#[tokio::test]
async fn the_line_closes_with_its_last_handle() {
    let house = House::open().await;
    let (line, mut seat, _heard) = house.connected().await;
    drop(line);
    assert_eq!(seat.next().await, None);
    house.hears_nobody().await;
}

#[tokio::test]
async fn an_unreachable_house_is_reported_and_tried_again() {
    let house = House::open().await;
    let settings = Settings::new("ws://127.0.0.1:1/relay", GATEWAY, Secret::new(SECRET));
    let line = WebSocketTransport::with_timepiece(settings, house.clock.clone()).unwrap();
    assert!(matches!(soon(line.connect()).await, Err(Fault::Unreachable(_))));
    assert_eq!(line.standing(), Standing::Waiting);
    for address in ["gopher://somewhere", "http://", ""] {
        let settings = Settings::new(address, GATEWAY, Secret::new(SECRET));
        assert!(matches!(WebSocketTransport::new(settings), Err(Fault::Address(..))), "{address}");
    }
}
