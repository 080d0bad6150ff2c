//! Wake calls (section 16.6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use identity::Enrolment;
use serde_json::json;

use crate::house::{Agent, House, bot, eventually, message, seconds};
use crate::repeats::in_a_house_of_its_own;

/// An agent's wake URL, and how often it was called.
pub struct Alarm {
    url: String,
    rung: Arc<AtomicUsize>,
}

impl Alarm {
    async fn set() -> Self {
        let rung = Arc::new(AtomicUsize::new(0));
        let door = Router::new().fallback(ring).with_state(Arc::clone(&rung));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/wake", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, door).await });
        Self { url, rung }
    }

    fn rung(&self) -> usize {
        self.rung.load(Ordering::SeqCst)
    }

    pub async fn has_rung(&self, times: usize) {
        eventually(|| self.rung() >= times).await;
        assert_eq!(self.rung(), times);
    }
}

async fn ring(
    State(rung): State<Arc<AtomicUsize>>,
    method: Method,
    headers: HeaderMap,
    body: String,
) -> &'static str {
    assert_eq!((method, body.as_str()), (Method::GET, ""));
    assert!(!headers.contains_key("authorization") && !headers.contains_key("cookie"));
    rung.fetch_add(1, Ordering::SeqCst);
    "ignored"
}

/// A server after its first seconds, in which no wake call is made, and an agent with a wake URL.
pub async fn asleep() -> (House, Agent, Alarm) {
    let (house, alarm) = (House::open().await, Alarm::set().await);
    let telegram = bot("telegram", "7001");
    house.has_bot(&telegram, false).await;
    let heron = house
        .enrol_as(Enrolment {
            tenant: "acme".to_owned(),
            name: "heron".to_owned(),
            wake_url: Some(alarm.url.clone()),
            bots: vec![telegram],
            ..Enrolment::default()
        })
        .await;
    house.winds(seconds(5));
    (house, heron, alarm)
}

/// Another agent with a wake URL gets a message. Once its wake call was made, all earlier due calls were made too.
pub async fn time_passes(house: &House, name: &str) {
    let (on, alarm) = (bot("discord", name), Alarm::set().await);
    house.has_bot(&on, false).await;
    house
        .enrol_as(Enrolment {
            tenant: "acme".to_owned(),
            name: name.to_owned(),
            wake_url: Some(alarm.url.clone()),
            bots: vec![on.clone()],
            ..Enrolment::default()
        })
        .await;
    house.says(&on, "c1", "wake up").await;
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn the_first_kept_message_wakes_a_sleeper_and_the_next_ones_do_not() {
    let (house, heron, alarm) = asleep().await;
    heron.hears_from("one").await;
    alarm.has_rung(1).await;
    for text in ["two", "three"] {
        heron.hears_from(text).await;
    }
    time_passes(&house, "other").await;
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn a_sleeper_that_does_not_come_is_poked_after_each_cooldown_with_back_off() {
    let (house, heron, alarm) = asleep().await;
    heron.hears_from("one").await;
    alarm.has_rung(1).await;
    for (times, pause) in [(2, 60), (3, 120), (4, 240), (5, 480), (6, 900), (7, 900)] {
        house.winds(seconds(pause - 1));
        time_passes(&house, &format!("other{times}")).await;
        alarm.has_rung(times - 1).await;
        house.winds(seconds(1));
        alarm.has_rung(times).await;
    }
}

#[tokio::test]
async fn who_is_connected_is_not_poked_nor_who_has_dialed_in_since() {
    let (house, heron, alarm) = asleep().await;
    let mut gateway = heron.sits_settled().await;
    heron.hears_from("one").await;
    gateway.hears_inbound().await;
    time_passes(&house, "other").await;
    assert_eq!(alarm.rung(), 0);
    gateway.dies();
    alarm.has_rung(1).await;
    let _back = heron.sits().await;
    house.winds(seconds(60));
    time_passes(&house, "another").await;
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn an_idle_agent_is_woken_even_while_its_socket_is_open() {
    let (_house, heron, alarm) = asleep().await;
    let mut gateway = heron.sits_settled().await;
    gateway.say(json!({"type": "going_idle"})).await;
    assert_eq!(gateway.hears().await["type"], "going_idle_ack");
    heron.hears_from("one").await;
    alarm.has_rung(1).await;
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn what_is_not_let_in_wakes_nobody() {
    let (house, heron, alarm) = asleep().await;
    let mut event = message(&heron.bots[0], "g1", "among ourselves");
    event.source.chat_type = "group".to_owned();
    assert!(house.brings(&heron.bots[0], event, None).await.is_none());
    time_passes(&house, "other").await;
    assert_eq!(alarm.rung(), 0);
}

#[tokio::test]
async fn a_wake_url_given_later_is_called_after_the_cooldown() {
    let (house, alarm) = (House::open().await, Alarm::set().await);
    let heron = house.heron().await;
    house.winds(seconds(5));
    heron.hears_from("one").await;
    time_passes(&house, "other").await;
    house.ledger.roster().set_wake_url(&heron.instance, Some(&alarm.url)).await.unwrap();
    house.winds(seconds(60));
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn a_wake_url_that_may_not_be_called_is_refused_when_it_is_named() {
    let house = House::open().await;
    house.identity.accounts.create_tenant("acme").await.unwrap().unwrap();
    for url in ["ftp://example.org/", "http://10.0.0.1/wake", "not a url"] {
        let enrolment = Enrolment {
            tenant: "acme".to_owned(),
            name: "heron".to_owned(),
            wake_url: Some(url.to_owned()),
            ..Enrolment::default()
        };
        assert!(house.identity.accounts.enrol(enrolment).await.unwrap().is_err(), "{url}");
    }
}

#[tokio::test]
async fn wake_calls_are_limited_and_one_tenant_leaves_another_its_share() {
    async fn hangs(State(called): State<Arc<AtomicUsize>>) -> &'static str {
        called.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
    let called = Arc::new(AtomicUsize::new(0));
    let door = Router::new().fallback(hangs).with_state(Arc::clone(&called));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/wake", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, door).await });
    let house = House::open().await;
    house.winds(seconds(5));
    // One tenant's agents hang, more of them than it has places.
    for number in 0..40 {
        let name = format!("slow{number}");
        let on = bot("discord", &name);
        house.has_bot(&on, false).await;
        house
            .enrol_as(Enrolment {
                tenant: "loud".to_owned(),
                name,
                wake_url: Some(url.clone()),
                bots: vec![on.clone()],
                ..Enrolment::default()
            })
            .await;
        house.says(&on, "c1", "wake up").await;
    }
    eventually(|| called.load(Ordering::SeqCst) >= 16).await;
    // Another's is called all the same.
    time_passes(&house, "quiet").await;
    assert_eq!(called.load(Ordering::SeqCst), 16);
}

#[tokio::test]
async fn after_a_restart_whoever_has_something_unread_and_stays_away_is_poked() {
    let folder = tempfile::tempdir().unwrap();
    let clock = posthouse_time::Timepiece::wound(posthouse_time::Moment::from_seconds(1_800_000_000));
    let alarm = Alarm::set().await;
    let house = House::open_in(folder.path(), clock.clone()).await;
    let heron = house.heron().await;
    house.ledger.roster().set_wake_url(&heron.instance, Some(&alarm.url)).await.unwrap();
    heron.hears_from("one").await;
    // Nobody is poked in the first seconds: agents are on their way back by themselves.
    house.ledger_is_quiet().await;
    assert_eq!(alarm.rung(), 0);
    house.winds(seconds(5));
    alarm.has_rung(1).await;
}

#[test]
fn those_left_waiting_are_looked_for_again_when_the_inbox_could_not_be_read_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let clock = posthouse_time::Timepiece::wound(posthouse_time::Moment::from_seconds(1_800_000_000));
    let heron = in_a_house_of_its_own(async {
        let house = House::open_in(folder.path(), clock.clone()).await;
        let heron = house.heron().await;
        heron.hears_from("one").await;
        heron.instance
    });
    in_a_house_of_its_own(async {
        let house = House::open_in(folder.path(), clock.clone()).await;
        let alarm = Alarm::set().await;
        house.ledger.roster().set_wake_url(&heron, Some(&alarm.url)).await.unwrap();
        house.inbox.fails.store(true, Ordering::SeqCst);
        house.winds(seconds(5));
        for (reads, pause) in [(1, 1), (2, 2), (3, 4)] {
            eventually(|| house.inbox.reads.load(Ordering::SeqCst) >= reads).await;
            house.ledger_is_quiet().await;
            assert_eq!(house.inbox.reads.load(Ordering::SeqCst), reads, "it is left alone for a while");
            house.inbox.fails.store(reads < 3, Ordering::SeqCst);
            house.winds(seconds(pause));
        }
        alarm.has_rung(1).await;
    });
}
