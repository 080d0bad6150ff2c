//! Inbound entries are handled once and then acknowledged.

use posthouse_agent::wire::{EntryId, FromGateway, ToGateway};
use posthouse_agent::{ConnectionState, RelayTransport};

use crate::test_server::{TestServer, listen, said, seconds, soon};

#[tokio::test]
async fn an_entry_is_acknowledged_only_after_the_handler_took_it() {
    let server = TestServer::open().await;
    let (transport, mut seat, mut received) = server.connected().await;
    seat.brings("ent_1", "good morning").await;
    assert_eq!(received.next().await, "good morning");
    // Anything sent now arrives before the acknowledgement.
    assert!(transport.send_interrupt(&"agent:main:x".into(), None).await);
    assert!(matches!(seat.hears().await, FromGateway::Interrupt { .. }));
    received.takes();
    seat.hears_ack("ent_1").await;
}

#[tokio::test]
async fn entries_are_handled_one_at_a_time_in_the_order_they_came() {
    let server = TestServer::open().await;
    let (_line, mut seat, mut received) = server.connected().await;
    for number in 1..=32 {
        seat.brings(&format!("ent_{number}"), &number.to_string()).await;
    }
    // An interrupt passes the entries that wait, so all of them have arrived when it does.
    let interrupt = ToGateway::InterruptInbound { session_key: "agent:main:x".into(), chat_id: "c1".into() };
    seat.says(interrupt).await;
    soon(received.interrupts.recv()).await.unwrap();
    for number in 1..=32 {
        assert_eq!(received.next().await, number.to_string());
        received.takes();
    }
    for number in 1..=32 {
        seat.hears_ack(&format!("ent_{number}")).await;
    }
    assert_eq!(received.most_in_hand(), 1);
}

#[tokio::test]
async fn acknowledgements_that_are_ready_together_travel_together() {
    let server = TestServer::open().await;
    let (_line, mut seat, received) = server.connected().await;
    (0..32).for_each(|_| received.takes());
    let lines: String = (0..32)
        .map(|n| {
            ToGateway::Inbound { event: Box::new(said("x")), entry: Some(EntryId::from(format!("e{n}"))) }
                .line()
        })
        .collect();
    seat.sizes.clear();
    seat.says_raw(lines).await;
    for number in 0..32 {
        seat.hears_ack(&format!("e{number}")).await;
    }
    assert!(seat.sizes.len() <= 4, "{} messages for 32 acknowledgements", seat.sizes.len());
}

#[tokio::test]
async fn a_declined_entry_is_not_acknowledged_and_is_new_when_it_comes_again() {
    let server = TestServer::open().await;
    let (_line, mut seat, mut received) = server.connected().await;
    received.declines();
    seat.brings("ent_1", "first").await;
    assert_eq!(received.next().await, "first");
    received.takes();
    seat.brings("ent_2", "second").await;
    assert_eq!(received.next().await, "second");
    seat.hears_ack("ent_2").await;
    received.takes();
    seat.brings("ent_1", "first").await;
    assert_eq!(received.next().await, "first");
    seat.hears_ack("ent_1").await;
}

#[tokio::test]
async fn a_repeat_is_acknowledged_again_and_handled_no_more_even_on_another_socket() {
    let server = TestServer::open().await;
    let (transport, mut seat, mut received) = server.connected().await;
    received.takes();
    seat.brings("ent_1", "once").await;
    assert_eq!(received.next().await, "once");
    seat.hears_ack("ent_1").await;
    seat.brings("ent_1", "once").await;
    seat.hears_ack("ent_1").await;
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(1));
    let mut seat = server.seats().await;
    seat.brings("ent_1", "once").await;
    seat.hears_ack("ent_1").await;
    received.nothing_more(&mut seat).await;
}

#[tokio::test]
async fn an_entry_in_hand_while_the_socket_falls_is_acknowledged_on_the_next_one_and_handled_once() {
    let server = TestServer::open().await;
    let (transport, mut seat, mut received) = server.connected().await;
    seat.brings("ent_1", "slow").await;
    assert_eq!(received.next().await, "slow");
    seat.closes(1012, "").await;
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(1));
    let mut seat = server.seats().await;
    seat.brings("ent_1", "slow").await;
    seat.brings("ent_2", "next").await;
    received.takes();
    assert_eq!(received.next().await, "next");
    seat.hears_ack("ent_1").await;
    received.takes();
    // If the repeat came after the handler had finished, it was acknowledged a second time, which is
    // harmless.
    while seat.hears().await != (FromGateway::InboundAck { entry: EntryId::new("ent_2") }) {}
    received.nothing_more(&mut seat).await;
}

#[tokio::test]
async fn what_comes_before_anybody_serves_waits() {
    let server = TestServer::open().await;
    let transport = server.transport();
    let (opened, mut seat) = tokio::join!(transport.connect(), server.seats());
    opened.unwrap();
    seat.brings("ent_1", "early").await;
    let mut received = listen(&transport);
    assert_eq!(received.next().await, "early");
    received.takes();
    seat.hears_ack("ent_1").await;
}

#[tokio::test]
async fn an_interrupt_reaches_the_handler_while_it_is_busy() {
    let server = TestServer::open().await;
    let (_line, mut seat, mut received) = server.connected().await;
    seat.brings("ent_1", "long work").await;
    assert_eq!(received.next().await, "long work");
    seat.says(ToGateway::InterruptInbound { session_key: "agent:main:x".into(), chat_id: "c1".into() }).await;
    let (session, chat) = soon(received.interrupts.recv()).await.unwrap();
    assert_eq!((session.as_str(), chat.as_str()), ("agent:main:x", "c1"));
}

#[tokio::test]
async fn noise_is_ignored_and_the_connection_stays() {
    let server = TestServer::open().await;
    let (transport, mut seat, mut received) = server.connected().await;
    received.takes();
    seat.says_raw("\n\nnonsense\n[]\n{\"type\":\"unheard_of\"}\n{\"type\":\"inbound\"}\n").await;
    seat.says_raw(
        "{\"type\":\"outbound_result\",\"requestId\":\"nobody's\",\"result\":{\"success\":true}}\n",
    )
    .await;
    seat.brings("ent_1", "sense").await;
    assert_eq!(received.next().await, "sense");
    seat.hears_ack("ent_1").await;
    assert_eq!(transport.state(), ConnectionState::Live);
}

#[tokio::test]
async fn a_long_line_comes_in_over_many_messages_and_many_lines_in_one() {
    let server = TestServer::open().await;
    let (_line, mut seat, mut received) = server.connected().await;
    let text = "päckchen ".repeat(400_000);
    let event = Box::new(said(&text));
    let whole = ToGateway::Inbound { event, entry: Some(EntryId::new("ent_long")) }.line();
    received.takes();
    for part in posthouse_agent::wire::frame::in_messages(&whole, 500_000) {
        seat.says_raw(part).await;
    }
    assert!(received.next().await == text);
    seat.hears_ack("ent_long").await;
    received.takes();
    received.takes();
    let one = ToGateway::Inbound { event: Box::new(said("one")), entry: Some(EntryId::new("ent_1")) }.line();
    let two = ToGateway::Inbound { event: Box::new(said("two")), entry: Some(EntryId::new("ent_2")) }.line();
    seat.says_raw(one + &two).await;
    seat.hears_ack("ent_1").await;
    seat.hears_ack("ent_2").await;
}

#[tokio::test]
async fn a_line_without_end_costs_the_socket_and_not_the_agent() {
    let server = TestServer::open().await;
    let (transport, mut seat, _received) = server.connected().await;
    let endless = "x".repeat(512 << 10);
    for _ in 0..33 {
        seat.says_raw(endless.clone()).await;
    }
    soon(transport.until(|state| state == ConnectionState::Waiting)).await;
    server.clock.wind(seconds(1));
    let _seat = server.seats().await;
}
