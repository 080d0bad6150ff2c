//! Wake calls (section 16.6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use identity::{Enrolment, GatewayChange, GatewayChanged};
use serde_json::json;

use crate::repeats::in_a_house_of_its_own;
use crate::test_server::{Agent, TestServer, bot, eventually, message, seconds};

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
pub async fn asleep() -> (TestServer, Agent, Alarm) {
    let (server, alarm) = (TestServer::open().await, Alarm::set().await);
    let telegram = bot("telegram", "7001");
    server.has_bot(&telegram, false).await;
    let heron = server
        .enrol_as(Enrolment {
            tenant: "acme".to_owned(),
            name: "heron".to_owned(),
            wake_url: Some(alarm.url.clone()),
            bots: vec![telegram],
            ..Enrolment::default()
        })
        .await;
    server.winds(seconds(5));
    (server, heron, alarm)
}

/// Another agent with a wake URL gets a message. Once its wake call was made, all earlier due calls were made too.
pub async fn time_passes(server: &TestServer, name: &str) {
    let (on, alarm) = (bot("discord", name), Alarm::set().await);
    server.has_bot(&on, false).await;
    server
        .enrol_as(Enrolment {
            tenant: "acme".to_owned(),
            name: name.to_owned(),
            wake_url: Some(alarm.url.clone()),
            bots: vec![on.clone()],
            ..Enrolment::default()
        })
        .await;
    server.says(&on, "c1", "wake up").await;
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn the_first_kept_message_wakes_a_sleeper_and_the_next_ones_do_not() {
    let (server, heron, alarm) = asleep().await;
    heron.hears_from("one").await;
    alarm.has_rung(1).await;
    for text in ["two", "three"] {
        heron.hears_from(text).await;
    }
    time_passes(&server, "other").await;
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn a_sleeper_that_does_not_come_is_poked_after_each_cooldown_with_back_off() {
    let (server, heron, alarm) = asleep().await;
    heron.hears_from("one").await;
    alarm.has_rung(1).await;
    for (times, pause) in [(2, 60), (3, 120), (4, 240), (5, 480), (6, 900), (7, 900)] {
        server.winds(seconds(pause - 1));
        time_passes(&server, &format!("other{times}")).await;
        alarm.has_rung(times - 1).await;
        server.winds(seconds(1));
        alarm.has_rung(times).await;
    }
}

#[tokio::test]
async fn who_is_connected_is_not_poked_nor_who_has_dialed_in_since() {
    let (server, heron, alarm) = asleep().await;
    let mut gateway = heron.sits_settled().await;
    heron.hears_from("one").await;
    gateway.hears_inbound().await;
    time_passes(&server, "other").await;
    assert_eq!(alarm.rung(), 0);
    gateway.dies();
    alarm.has_rung(1).await;
    let _back = heron.sits().await;
    server.winds(seconds(60));
    time_passes(&server, "another").await;
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn an_idle_agent_is_woken_even_while_its_socket_is_open() {
    let (_server, heron, alarm) = asleep().await;
    let mut gateway = heron.sits_settled().await;
    gateway.say(json!({"type": "going_idle"})).await;
    assert_eq!(gateway.hears().await["type"], "going_idle_ack");
    heron.hears_from("one").await;
    alarm.has_rung(1).await;
    gateway.hears_nothing().await;
}

#[tokio::test]
async fn what_is_not_let_in_wakes_nobody() {
    let (server, heron, alarm) = asleep().await;
    let mut event = message(&heron.bots[0], "g1", "among ourselves");
    event.source.chat_type = "group".to_owned();
    assert!(server.brings(&heron.bots[0], event, None).await.is_none());
    time_passes(&server, "other").await;
    assert_eq!(alarm.rung(), 0);
}

#[tokio::test]
async fn a_wake_url_given_later_is_called_after_the_cooldown() {
    let (server, alarm) = (TestServer::open().await, Alarm::set().await);
    let heron = server.heron().await;
    server.winds(seconds(5));
    heron.hears_from("one").await;
    time_passes(&server, "other").await;
    server.ledger.roster().set_wake_url(&heron.instance, Some(&alarm.url)).await.unwrap();
    server.winds(seconds(60));
    alarm.has_rung(1).await;
}

#[tokio::test]
async fn a_wake_url_that_may_not_be_called_is_refused_when_it_is_named() {
    let server = TestServer::open().await;
    server.identity.accounts.create_tenant("acme").await.unwrap().unwrap();
    for url in ["ftp://example.org/", "http://10.0.0.1/wake", "not a url"] {
        let enrolment = Enrolment {
            tenant: "acme".to_owned(),
            name: "heron".to_owned(),
            wake_url: Some(url.to_owned()),
            ..Enrolment::default()
        };
        assert!(server.identity.accounts.enrol(enrolment).await.unwrap().is_err(), "{url}");
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
    let server = TestServer::open().await;
    server.winds(seconds(5));
    // One tenant's agents hang, more of them than it has places.
    for number in 0..40 {
        let name = format!("slow{number}");
        let on = bot("discord", &name);
        server.has_bot(&on, false).await;
        server
            .enrol_as(Enrolment {
                tenant: "loud".to_owned(),
                name,
                wake_url: Some(url.clone()),
                bots: vec![on.clone()],
                ..Enrolment::default()
            })
            .await;
        server.says(&on, "c1", "wake up").await;
    }
    eventually(|| called.load(Ordering::SeqCst) >= 16).await;
    // Another's is called all the same.
    time_passes(&server, "quiet").await;
    assert_eq!(called.load(Ordering::SeqCst), 16);
}

#[tokio::test]
async fn after_a_restart_whoever_has_something_unread_and_stays_away_is_poked() {
    let folder = tempfile::tempdir().unwrap();
    let clock = posthouse_time::Timepiece::wound(posthouse_time::Moment::from_seconds(1_800_000_000));
    let alarm = Alarm::set().await;
    let server = TestServer::open_in(folder.path(), clock.clone()).await;
    let heron = server.heron().await;
    server.ledger.roster().set_wake_url(&heron.instance, Some(&alarm.url)).await.unwrap();
    heron.hears_from("one").await;
    // Nobody is poked in the first seconds: agents are on their way back by themselves.
    server.ledger_is_quiet().await;
    assert_eq!(alarm.rung(), 0);
    server.winds(seconds(5));
    alarm.has_rung(1).await;
}

#[test]
fn those_left_waiting_are_looked_for_again_when_the_inbox_could_not_be_read_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let clock = posthouse_time::Timepiece::wound(posthouse_time::Moment::from_seconds(1_800_000_000));
    let heron = in_a_house_of_its_own(async {
        let server = TestServer::open_in(folder.path(), clock.clone()).await;
        let heron = server.heron().await;
        heron.hears_from("one").await;
        heron.instance
    });
    in_a_house_of_its_own(async {
        let server = TestServer::open_in(folder.path(), clock.clone()).await;
        let alarm = Alarm::set().await;
        server.ledger.roster().set_wake_url(&heron, Some(&alarm.url)).await.unwrap();
        server.inbox.fails.store(true, Ordering::SeqCst);
        server.winds(seconds(5));
        for (reads, pause) in [(1, 1), (2, 2), (3, 4)] {
            eventually(|| server.inbox.reads.load(Ordering::SeqCst) >= reads).await;
            server.ledger_is_quiet().await;
            assert_eq!(server.inbox.reads.load(Ordering::SeqCst), reads, "it is left alone for a while");
            server.inbox.fails.store(reads < 3, Ordering::SeqCst);
            server.winds(seconds(pause));
        }
        alarm.has_rung(1).await;
    });
}

#[tokio::test]
async fn the_wake_url_of_a_gateway_is_called_instead_of_the_agents() {
    let (server, heron, agents) = asleep().await;
    let (laptop, desk) =
        (heron.with_another_gateway("gw_laptop").await, heron.with_another_gateway("gw_desk").await);
    let (first, second) = (Alarm::set().await, Alarm::set().await);
    let gateways = &server.identity.gateways;
    let at = |url: Option<&Alarm>| GatewayChange {
        wake_url: Some(url.map(|alarm| alarm.url.clone())),
        ..GatewayChange::default()
    };
    let wakes = async || assert!(server.relay.wake_calls().wake(&heron.instance).await);
    assert_eq!(
        gateways.change(&heron.instance, &laptop.gateway, at(Some(&first))).await.unwrap(),
        GatewayChanged::Done
    );
    wakes().await;
    first.has_rung(1).await;
    server.winds(seconds(1));
    assert_eq!(
        gateways.change(&heron.instance, &desk.gateway, at(Some(&second))).await.unwrap(),
        GatewayChanged::Done
    );
    wakes().await;
    second.has_rung(1).await;
    // The one that was set last ends with its credential, the other by command. Then the agent's is called again.
    let which = identity::WhichCredentials::Gateway(desk.gateway.clone());
    server.identity.accounts.revoke(&heron.instance, which).await.unwrap();
    assert_eq!(
        gateways.change(&heron.instance, &desk.gateway, at(Some(&second))).await.unwrap(),
        GatewayChanged::NoGateway
    );
    wakes().await;
    first.has_rung(2).await;
    assert_eq!(
        gateways.change(&heron.instance, &laptop.gateway, at(None)).await.unwrap(),
        GatewayChanged::Done
    );
    wakes().await;
    agents.has_rung(1).await;
    assert_eq!((first.rung(), second.rung()), (2, 1));
}
