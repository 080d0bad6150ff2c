//! The long connection of an AI bot: events, answers, reconnects, and its end when another one takes over.

use std::time::Duration;

use edge::platform::{BotTrouble, Platform};
use edge::wecom::WeComProduct;
use ledger::PrincipalPolicy;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Outcome, Secret};
use serde_json::json;
use stand_ins::harness::RowFilter;
use stand_ins::wecom::WeComSocketOrder;

use super::actors::{AI_BOT, Feed, Fixture, LONG, error, follow_up, open, send};

const START: Moment = Moment::from_seconds(1_765_000_000);

async fn open_connection(clock: Timepiece) -> (Fixture, Feed) {
    let fixture = open(WeComProduct::AiBot, true, clock).await;
    let feed = fixture.feed();
    connected(&fixture, 1).await;
    (fixture, feed)
}

async fn connected(fixture: &Fixture, times: usize) {
    let count = |_: &_| fixture.rows("connected").len() == times;
    assert!(fixture.stand_in.until(LONG, count).await);
}

/// Sends until the answer to the subscription has arrived here too.
async fn sends(fixture: &Fixture, content: &str) {
    let sending = async {
        while !fixture.outcome(send("ana", content)).await.success {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, sending).await.unwrap();
}

#[tokio::test]
async fn a_conversation_goes_over_the_connection() {
    let (fixture, feed) = open_connection(Timepiece::wall()).await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    assert!(fixture.outcome(send("ana", "**hi**")).await.success);
    assert!(fixture.outcome(send("ana", &"words 🦉\n".repeat(1000))).await.success);
    let sent = fixture.sent();
    assert_eq!(sent[0], "**hi**");
    assert_eq!(sent.iter().map(|text| text.matches('🦉').count()).sum::<usize>(), 1000);
    fixture.inject(json!({ "do": "press", "key": "yes" }));
    fixture.hears(&["hello", "yes"]).await;
    let order = || fixture.order(follow_up("agent:main:wecom:dm:ana", "wecom.response_url", "later"));
    assert!(fixture.follows_up(order()).await.success);
    assert_eq!(fixture.rows("sent").pop().unwrap().call, "response_url");
    assert!(error(&fixture.outcome(send("", "x")).await).contains("invalid chatid"));
    feed.stop().await;
    assert!(error(&fixture.outcome(send("ana", "x")).await).starts_with("network"));
}

#[tokio::test]
async fn a_cut_connection_is_opened_again() {
    let (fixture, feed) = open_connection(Timepiece::wall()).await;
    fixture.stand_in.order(AI_BOT, WeComSocketOrder::Cut);
    connected(&fixture, 2).await;
    fixture.says("after the cut");
    fixture.hears(&["after the cut"]).await;
    sends(&fixture, "and back").await;
    feed.stop().await;
}

#[tokio::test]
async fn a_displaced_connection_does_not_fight_back() {
    let (fixture, feed) = open_connection(Timepiece::wound(START)).await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    fixture.stand_in.order(AI_BOT, WeComSocketOrder::Displace);
    assert!(fixture.stand_in.until(LONG, |stand_in| !stand_in.is_connected(AI_BOT)).await);
    let again = async {
        while fixture.rows("connected").len() < 2 {
            fixture.clock.wind(Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, again).await.unwrap();
    assert!(fixture.clock.now() >= START + Duration::from_secs(3600), "not before an hour");
    feed.stop().await;
}

#[tokio::test]
async fn a_newer_connection_of_the_same_bot_displaces_the_older() {
    let (fixture, feed) = open_connection(Timepiece::wall()).await;
    fixture.says("before");
    fixture.hears(&["before"]).await;
    let other = open_other(&fixture);
    connected(&fixture, 2).await;
    fixture.says("for the newer");
    fixture.says("marker");
    fixture.hears(&["before", "for the newer", "marker"]).await;
    assert_eq!(fixture.rows("connected").len(), 2, "the older did not connect again");
    other.stop().await;
    feed.stop().await;
}

/// Another server of the same bot, which stores for the same agent.
fn open_other(fixture: &Fixture) -> Feed {
    fixture.feed()
}

#[tokio::test]
async fn a_silent_connection_is_given_up_after_two_unanswered_pings() {
    let (fixture, feed) = open_connection(Timepiece::wound(START)).await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    fixture.stand_in.order(AI_BOT, WeComSocketOrder::Mute);
    let given_up = async {
        while fixture.rows("disconnected").is_empty() {
            fixture.clock.wind(Duration::from_secs(31));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while fixture.rows("connected").len() < 2 {
            fixture.clock.wind(Duration::from_millis(200));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, given_up).await.unwrap();
    feed.stop().await;
}

#[tokio::test]
async fn the_secret_is_checked_without_ending_an_open_connection() {
    let (fixture, feed) = open_connection(Timepiece::wall()).await;
    sends(&fixture, "open").await;
    assert_eq!(fixture.wecom.check_credentials(&fixture.bot).await.unwrap().id, AI_BOT);
    assert_eq!(fixture.rows("connected").len(), 1);
    feed.stop().await;
    let mut wrong = fixture.bot.clone();
    wrong.credentials.insert("api_secret", Secret::new("canary-wrong"));
    let refused = fixture.wecom.check_credentials(&wrong).await.unwrap_err();
    assert!(matches!(refused, BotTrouble::CredentialRefused(_)), "{refused}");
    let order = fixture.order(follow_up("agent:main:wecom:dm:ana", "wecom.response_url", "x"));
    assert_eq!(fixture.follows_up(order).await, Outcome::no_capability());
}

#[tokio::test]
async fn a_stranger_reaches_nobody_and_gets_a_pairing_code() {
    let (fixture, feed) = open_connection(Timepiece::wall()).await;
    let (access, bot) = (fixture.server.access(), fixture.bot.bot_ref());
    access.set_policy(&bot, PrincipalPolicy::AllowList).await.unwrap();
    fixture.says("let me in");
    let sent = fixture.stand_in.wait(&RowFilter::sent("ana"), 1, LONG).await.expect("a pairing code");
    let pending = access.pairings(Some(&bot)).await.unwrap();
    assert!(sent[0].text.as_ref().unwrap().contains(&pending[0].code), "{sent:?}");
    access.set_policy(&bot, PrincipalPolicy::Any).await.unwrap();
    fixture.says("the door is open");
    fixture.hears(&["the door is open"]).await;
    feed.stop().await;
}
