//! Going idle at the agent's own request.

use posthouse_agent::wire::action::Metadata;
use posthouse_agent::wire::{Action, FromGateway, ToGateway};
use posthouse_agent::{ConnectionState, RelayTransport, Tag};

use crate::test_server::{TestServer, seconds, soon};

#[tokio::test]
async fn going_idle_waits_for_the_servers_word_and_for_what_came_before_it() {
    let server = TestServer::open().await;
    let (transport, mut seat, mut received) = server.connected().await;
    seat.brings("ent_1", "last one").await;
    assert_eq!(received.next().await, "last one");
    let sleeping = tokio::spawn({
        let transport = transport.clone();
        async move { transport.go_idle().await }
    });
    assert_eq!(seat.hears().await, FromGateway::GoingIdle);
    seat.says(ToGateway::GoingIdleAck).await;
    received.takes();
    seat.hears_ack("ent_1").await;
    assert_eq!(seat.next().await, None);
    soon(sleeping).await.unwrap();
    assert_eq!(transport.state(), ConnectionState::Dormant);
    server.hears_nobody().await;
}

#[tokio::test]
async fn asleep_it_refuses_work_and_awake_it_dials_again() {
    let server = TestServer::open().await;
    let (transport, mut seat, mut received) = server.connected().await;
    tokio::join!(transport.go_idle(), async {
        assert_eq!(seat.hears().await, FromGateway::GoingIdle);
        seat.says(ToGateway::GoingIdleAck).await;
        assert_eq!(seat.next().await, None);
    });
    let typing = Action::Typing { chat_id: "c1".into(), content: None, metadata: Metadata::default() };
    assert!(transport.send_outbound(typing, &Tag::default()).await.error.unwrap().starts_with("network"));
    let (woken, mut seat) = tokio::join!(transport.wake(), server.seats());
    woken.unwrap();
    received.takes();
    seat.brings("ent_1", "kept for you").await;
    assert_eq!(received.next().await, "kept for you");
    seat.hears_ack("ent_1").await;
}

#[tokio::test]
async fn a_server_that_does_not_confirm_is_left_after_ten_seconds() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    tokio::join!(transport.go_idle(), async {
        assert_eq!(seat.hears().await, FromGateway::GoingIdle);
        server.clock.wind(seconds(10));
        assert_eq!(seat.next().await, None);
    });
    assert_eq!(transport.state(), ConnectionState::Dormant);
}

#[tokio::test]
async fn going_idle_without_a_connection_simply_stops_dialing() {
    let server = TestServer::open().await;
    let (transport, seat, _received) = server.connected().await;
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    soon(transport.go_idle()).await;
    assert_eq!(transport.state(), ConnectionState::Dormant);
    server.hears_nobody().await;
}
