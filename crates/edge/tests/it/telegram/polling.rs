//! Long polling: updates are stored before they are confirmed.

use std::sync::Arc;
use std::time::Duration;

use edge::{EventFeed, keep_open};
use posthouse_time::{Moment, Timepiece};
use serde_json::json;
use stand_ins::telegram::{Fault, FaultKind, Filter, Injection, RowKind};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actors::{Fixture, LONG, open};
use super::test_server::TestServer;

struct Poller {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Poller {
    fn start(fixture: &Fixture, server: &TestServer) -> Poller {
        let mut bot = fixture.bot.clone();
        bot.settings.insert("mode".to_owned(), json!("poll"));
        let (telegram, intake, stop) = (fixture.telegram.clone(), server.intake(), CancellationToken::new());
        let task = tokio::spawn({
            let (stop, feeds, clock) = (stop.clone(), server.ledger.event_feeds(), fixture.clock.clone());
            async move {
                let feed = EventFeed::open(Arc::new(bot), intake, feeds, stop).await.unwrap();
                keep_open(&telegram, feed, &clock).await;
            }
        });
        Poller { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task).await.unwrap().unwrap();
    }
}

async fn all_confirmed(fixture: &Fixture) {
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.deliveries(None).pending == 0).await);
}

#[tokio::test]
async fn updates_are_kept_in_order_and_then_confirmed() {
    let fixture = open(Timepiece::wall()).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    let poller = Poller::start(&fixture, &server);
    for n in 0..250 {
        fixture.stand_in.inject(Injection::text(5, &format!("{n}"))).unwrap();
    }
    all_confirmed(&fixture).await;
    let mut expected = vec!["hello".to_owned(), "hello".to_owned()];
    expected.extend((0..250).map(|n| n.to_string()));
    assert_eq!(server.texts().await, expected);
    poller.stop().await;
}

#[tokio::test]
async fn a_second_poller_finds_nothing_twice() {
    // On a clock that stands still the first poller would wait for its answer forever: only its stop ends it.
    let fixture = open(Timepiece::wound(Moment::from_seconds(1_765_000_000))).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    // Everything is fetched, and its confirmation is lost with the first poller.
    fixture.stand_in.fault(Fault::new(FaultKind::Slow { delay_ms: 0 }).on("getUpdates"));
    fixture.stand_in.fault(Fault::new(FaultKind::Hang).on("getUpdates"));
    let poller = Poller::start(&fixture, &server);
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.hanging() == 1).await);
    assert_eq!((server.texts().await.len(), fixture.stand_in.deliveries(None).pending), (2, 2));
    poller.stop().await;

    let poller = Poller::start(&fixture, &server);
    all_confirmed(&fixture).await;
    assert_eq!(server.texts().await.len(), 2);
    poller.stop().await;
}

#[tokio::test]
async fn polling_outlives_conflicts_failures_and_silence() {
    let clock = Timepiece::wound(Moment::from_seconds(1_765_000_000));
    let fixture = open(clock.clone()).await;
    let server = TestServer::with(&fixture.bot, &clock).await;
    let troubles = [
        FaultKind::ServerError { status: 502 },
        FaultKind::DropAfterWrite,
        FaultKind::TooManyRequests { retry_after: 1 },
        FaultKind::Unauthorized,
    ];
    for trouble in troubles {
        fixture.stand_in.fault(Fault::new(trouble).on("getUpdates"));
    }
    let poller = Poller::start(&fixture, &server);
    clock.wind_until(Duration::from_secs(15), all_confirmed(&fixture)).await;
    assert_eq!(server.texts().await.len(), 2);
    poller.stop().await;
}

#[tokio::test]
async fn an_update_that_cannot_be_read_holds_up_nothing_behind_it() {
    let fixture = open(Timepiece::wall()).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    fixture.stand_in.inject(Injection::update(json!({"message": {"text": 5}}))).unwrap();
    fixture.stand_in.inject(Injection::text(5, "behind it")).unwrap();
    let poller = Poller::start(&fixture, &server);
    all_confirmed(&fixture).await;
    assert_eq!(server.texts().await.last().unwrap(), "behind it");
    poller.stop().await;
}

#[tokio::test]
async fn a_press_is_kept_and_answered_while_the_agent_sleeps() {
    let fixture = open(Timepiece::wall()).await;
    let server = TestServer::with(&fixture.bot, &fixture.clock).await;
    fixture
        .stand_in
        .inject(Injection::update(json!({"callback_query": {"id": "canary", "from": {"id": 5, "first_name": "Ana"},
            "data": "yes", "message": {"message_id": 1, "chat": {"id": 5, "type": "private", "first_name": "Ana"}}}})))
        .unwrap();
    let poller = Poller::start(&fixture, &server);
    let answers = Filter { kinds: vec![RowKind::CallbackAnswered], ..Filter::default() };
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.transcript(&answers).len() == 1).await);
    all_confirmed(&fixture).await;
    assert_eq!(server.texts().await.last().unwrap(), "yes");
    poller.stop().await;
}
