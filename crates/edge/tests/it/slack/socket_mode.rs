//! Tests of Socket Mode: events, reconnects, warnings and its end.

use std::time::Duration;

use posthouse_time::{Moment, Timepiece};
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind, RowFilter};
use stand_ins::slack::{Settings, SlackSocketOrder};

use super::actors::{APP, BOT_USER, CHANNEL, Feed, Fixture, LONG, open_with};

async fn open_socket() -> (Fixture, Feed) {
    let fixture = open_with(Timepiece::wall(), Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    (fixture, feed)
}

async fn connected(fixture: &Fixture, sockets: usize) {
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.sockets(APP) == sockets).await);
}

fn connections(fixture: &Fixture) -> usize {
    fixture.rows("connected").len()
}

#[tokio::test]
async fn events_are_acknowledged_after_they_are_stored() {
    let (fixture, feed) = open_socket().await;
    fixture.says("over the socket");
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 1, LONG).await.unwrap();
    assert_eq!(fixture.server.texts().await, ["over the socket"]);
    feed.stop().await;
    connected(&fixture, 0).await;
}

#[tokio::test]
async fn a_cut_connection_is_opened_again() {
    let (fixture, feed) = open_socket().await;
    fixture.stand_in.order(APP, &SlackSocketOrder::Cut);
    assert!(fixture.stand_in.until(LONG, |_| connections(&fixture) == 2).await);
    fixture.says("after the cut");
    fixture.hears(&["after the cut"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn a_socket_that_slack_is_about_to_end_is_replaced_before_it_ends() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open_with(clock, Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    fixture.clock.wind(Duration::from_secs(10));
    fixture.stand_in.order(APP, &SlackSocketOrder::Disconnect { reason: "warning".to_owned() });
    connected(&fixture, 2).await;
    fixture.stand_in.order(APP, &SlackSocketOrder::Send { frame: json!({"type": "strange"}) });
    for number in 0..4 {
        // They go to both sockets in turn.
        fixture.says(&format!("during {number}"));
    }
    let heard = async {
        while fixture.server.texts().await.len() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, heard).await.unwrap();
    feed.stop().await;
    connected(&fixture, 0).await;
}

#[tokio::test]
async fn a_socket_that_is_to_be_replaced_at_once_is_opened_again_after_a_pause() {
    let (fixture, feed) = open_socket().await;
    for _ in 0..2 {
        let before = connections(&fixture);
        let order = SlackSocketOrder::Disconnect { reason: "refresh_requested".to_owned() };
        fixture.stand_in.order(APP, &order);
        assert!(fixture.stand_in.until(LONG, |_| connections(&fixture) == before + 1).await);
        connected(&fixture, 1).await;
    }
    fixture.says("still here");
    fixture.hears(&["still here"]).await;
    feed.stop().await;
}

#[tokio::test]
async fn a_socket_that_is_switched_off_waits_for_the_operator() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open_with(clock, Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    fixture.stand_in.order(APP, &SlackSocketOrder::Disconnect { reason: "link_disabled".to_owned() });
    connected(&fixture, 0).await;
    let again = async {
        while connections(&fixture) < 2 {
            fixture.clock.wind(Duration::from_secs(30));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, again).await.unwrap();
    assert!(fixture.clock.now() >= Moment::from_seconds(1_765_000_000 + 300), "not before five minutes");
    feed.stop().await;
}

#[tokio::test]
async fn a_silent_socket_is_given_up() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open_with(clock, Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    // As if nothing came for two minutes, not even the answer to a ping.
    let replaced = async {
        while connections(&fixture) < 2 {
            fixture.clock.wind(Duration::from_secs(120));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, replaced).await.unwrap();
    feed.stop().await;
}

#[tokio::test]
async fn a_failed_lookup_of_names_holds_up_no_message() {
    let (fixture, feed) = open_socket().await;
    let hang = CallFault::new(CallFaultKind::Hang).on("users.info").until_cleared();
    let asked = fixture.stand_in.fault(hang);
    fixture.says("without a name");
    fixture.hears(&["without a name"]).await;
    fixture.says("nor this");
    fixture.hears(&["without a name", "nor this"]).await;
    assert_eq!(fixture.stand_in.struck(asked), 1, "the second message asks for nothing");
    fixture.stand_in.release();
    feed.stop().await;
}

#[tokio::test]
async fn a_message_that_waits_for_a_name_holds_up_its_own_channel_only() {
    // The clock stands still, so that the question never times out.
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open_with(clock, Settings::default()).await;
    let feed = Feed::start(&fixture);
    connected(&fixture, 1).await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::Hang).on("users.info"));
    let mentions = |user: &str, text: &str| {
        let text = format!("<@{BOT_USER}> {text}");
        fixture.inject(json!({"do": "message", "user": user, "text": text, "channel": CHANNEL}));
    };
    mentions("U80", "first in the channel");
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.hanging() == 1).await);
    mentions("U77", "second in the channel");
    fixture.says("directly");
    fixture.hears(&["before", "directly"]).await;
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 2, LONG).await.unwrap();
    assert_eq!(fixture.rows("acknowledged").len(), 2, "what waits is not acknowledged");
    fixture.stand_in.release();
    fixture.hears(&["before", "directly", "first in the channel", "second in the channel"]).await;
    // A mention comes in two events.
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 6, LONG).await.unwrap();
    feed.stop().await;
}
