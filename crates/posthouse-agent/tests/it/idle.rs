//! Going idle at the agent's own request.

use posthouse_agent::wire::action::Metadata;
use posthouse_agent::wire::{Action, FromGateway, ToGateway};
use posthouse_agent::{RelayTransport, Standing, Tag};

use crate::house::{House, seconds, soon};

#[tokio::test]
async fn going_idle_waits_for_the_houses_word_and_for_what_came_before_it() {
    let house = House::open().await;
    let (line, mut seat, mut heard) = house.connected().await;
    seat.brings("ent_1", "last one").await;
    assert_eq!(heard.next().await, "last one");
    let sleeping = tokio::spawn({
        let line = line.clone();
        async move { line.go_idle().await }
    });
    assert_eq!(seat.hears().await, FromGateway::GoingIdle);
    seat.says(ToGateway::GoingIdleAck).await;
    heard.takes();
    seat.hears_ack("ent_1").await;
    assert_eq!(seat.next().await, None);
    soon(sleeping).await.unwrap();
    assert_eq!(line.standing(), Standing::Dormant);
    house.hears_nobody().await;
}

#[tokio::test]
async fn asleep_it_refuses_work_and_awake_it_dials_again() {
    let house = House::open().await;
    let (line, mut seat, mut heard) = house.connected().await;
    tokio::join!(line.go_idle(), async {
        assert_eq!(seat.hears().await, FromGateway::GoingIdle);
        seat.says(ToGateway::GoingIdleAck).await;
        assert_eq!(seat.next().await, None);
    });
    let typing = Action::Typing { chat_id: "c1".into(), content: None, metadata: Metadata::default() };
    assert!(line.send_outbound(typing, &Tag::default()).await.error.unwrap().starts_with("network"));
    let (woken, mut seat) = tokio::join!(line.wake(), house.seats());
    woken.unwrap();
    heard.takes();
    seat.brings("ent_1", "kept for you").await;
    assert_eq!(heard.next().await, "kept for you");
    seat.hears_ack("ent_1").await;
}

#[tokio::test]
async fn a_house_that_does_not_confirm_is_left_after_ten_seconds() {
    let house = House::open().await;
    let (line, mut seat, _heard) = house.connected().await;
    tokio::join!(line.go_idle(), async {
        assert_eq!(seat.hears().await, FromGateway::GoingIdle);
        house.clock.wind(seconds(10));
        assert_eq!(seat.next().await, None);
    });
    assert_eq!(line.standing(), Standing::Dormant);
}

#[tokio::test]
async fn going_idle_without_a_line_simply_stops_dialing() {
    let house = House::open().await;
    let (line, seat, _heard) = house.connected().await;
    seat.closes(1012, "").await;
    soon(line.until(|standing| standing == Standing::Waiting)).await;
    soon(line.go_idle()).await;
    assert_eq!(line.standing(), Standing::Dormant);
    house.hears_nobody().await;
}
