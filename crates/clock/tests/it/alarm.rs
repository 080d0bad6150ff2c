//! Alarms of other planes fire like jobs and are not visible to agents.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clock::{Alarm, Config, FireOutcome, FireTarget, JobFilter};
use ledger::{Arm, Location};
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::TenantId;
use posthouse_wire::cron::Fired;

use crate::callback_server::CallbackServer;
use crate::fixtures::{Agent, TestServer, eventually, seconds, start};

/// A target that records its calls and gives scripted answers. After the last one it accepts everything.
#[derive(Clone)]
struct RecordingTarget(Arc<Inner>);

struct Inner {
    time: Timepiece,
    outcome: Mutex<Vec<(TenantId, String, Moment)>>,
    answers: Mutex<VecDeque<FireOutcome>>,
}

impl RecordingTarget {
    fn registered_in(server: &TestServer) -> Self {
        let target = Self::new(&server.time);
        server.clock.alarms().register("recorder", Arc::new(target.clone()));
        target
    }

    fn new(time: &Timepiece) -> Self {
        Self(Arc::new(Inner { time: time.clone(), outcome: Mutex::default(), answers: Mutex::default() }))
    }

    fn refuses(&self, times: usize) {
        let refused = FireOutcome::Refused { status: 503, retry_after: None };
        self.0.answers.lock().extend(std::iter::repeat_n(refused, times));
    }

    fn jobs(&self) -> Vec<String> {
        self.0.outcome.lock().iter().map(|(_, job, _)| job.clone()).collect()
    }

    fn times(&self) -> usize {
        self.0.outcome.lock().len()
    }

    async fn fired_times(&self, times: usize) {
        eventually(async || self.times() >= times).await;
    }
}

#[async_trait]
impl FireTarget for RecordingTarget {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        self.0.outcome.lock().push((arm.tenant.clone(), arm.job.to_string(), self.0.time.now()));
        let written = self.0.answers.lock().pop_front();
        written.unwrap_or(FireOutcome::Accepted { status: 200, fired: Fired::Accepted })
    }

    fn host(&self, _arm: &Arm) -> String {
        "recorder".to_owned()
    }
}

impl TestServer {
    async fn set_alarm(&self, tenant: &TenantId, job: &str, after: Duration) {
        let alarm =
            Alarm { target: "recorder", tenant: tenant.clone(), job: job.into(), at: start() + after };
        assert!(self.clock.alarms().set(alarm).await.unwrap());
    }

    /// Number of pending arms, including alarms.
    async fn pending(&self) -> u64 {
        self.ledger.arms().count_by_state().await.unwrap().0
    }

    async fn nothing_pending(&self) {
        eventually(async || self.pending().await == 0).await;
    }
}

#[tokio::test]
async fn an_alarm_rings_at_its_time_once_and_says_whose_and_which() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let acme = server.tenant("acme").await;
    server.set_alarm(&acme, "r1", seconds(10)).await;
    server.set_alarm(&acme, "r1", seconds(10)).await;
    server.advance(Duration::from_millis(10_099));
    server.catch_up().await;
    assert_eq!(target.times(), 0, "early");
    server.advance(Duration::from_millis(1));
    target.fired_times(1).await;
    assert_eq!(*target.0.outcome.lock(), [(acme, "r1".to_owned(), start() + Duration::from_millis(10_100))]);
    server.nothing_pending().await;
    server.advance(seconds(3600));
    server.catch_up().await;
    assert_eq!(target.times(), 1);
}

#[tokio::test]
async fn an_alarm_in_the_past_rings_at_once() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let acme = server.tenant("acme").await;
    server.advance(seconds(900));
    server.set_alarm(&acme, "r1", seconds(10)).await;
    target.fired_times(1).await;
    server.nothing_pending().await;
}

#[tokio::test]
async fn another_time_replaces_an_alarm_and_one_that_was_unset_never_rings() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let (acme, bolt) = (server.tenant("acme").await, server.tenant("bolt").await);
    server.set_alarm(&acme, "moved", seconds(10)).await;
    server.set_alarm(&acme, "moved", seconds(30)).await;
    server.set_alarm(&acme, "unset", seconds(20)).await;
    server.set_alarm(&bolt, "unset", seconds(25)).await;
    server.clock.alarms().unset("recorder", &acme, &"unset".into()).await.unwrap();
    server.clock.alarms().unset("recorder", &acme, &"unset".into()).await.unwrap();
    server.clock.alarms().unset("other", &bolt, &"unset".into()).await.unwrap();
    server.advance(seconds(29));
    server.catch_up().await;
    assert_eq!(target.jobs(), ["unset"], "another tenant's of the same name");
    server.advance(seconds(2));
    target.fired_times(2).await;
    assert_eq!(target.jobs(), ["unset", "moved"]);
    server.nothing_pending().await;
}

#[tokio::test]
async fn what_is_unset_while_it_is_held_for_its_instant_does_not_ring() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let acme = server.tenant("acme").await;
    server.set_alarm(&acme, "r1", seconds(10)).await;
    server.advance(Duration::from_millis(10_000));
    server.catch_up().await;
    server.clock.alarms().unset("recorder", &acme, &"r1".into()).await.unwrap();
    server.advance(seconds(60));
    server.catch_up().await;
    assert_eq!(target.times(), 0);
}

#[tokio::test]
async fn a_target_that_did_not_accept_is_fired_again_and_an_alarm_is_never_given_up() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let acme = server.tenant("acme").await;
    target.refuses(12);
    server.set_alarm(&acme, "r1", seconds(0)).await;
    server.advance(Duration::from_millis(100));
    target.fired_times(1).await;
    server.catch_up().await;
    // Beyond every pause of the retry table, and beyond the day after which a job would be given up.
    for times in 2..=13 {
        server.advance(seconds(4 * 3600));
        target.fired_times(times).await;
        server.catch_up().await;
    }
    server.nothing_pending().await;
    assert_eq!(server.ledger.arms().count_by_state().await.unwrap(), (0, 0), "and it is not among the dead");
}

#[tokio::test]
async fn the_pauses_between_two_rings_are_those_of_jobs() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let acme = server.tenant("acme").await;
    target.refuses(3);
    server.set_alarm(&acme, "r1", seconds(0)).await;
    server.advance(Duration::from_millis(100));
    target.fired_times(1).await;
    for (times, pause_ms) in [(2, 1_000), (3, 2_000), (4, 4_000)] {
        // The pause varies by a tenth, and the guard is added.
        server.catch_up().await;
        server.advance(Duration::from_millis(pause_ms * 9 / 10 + 99));
        server.catch_up().await;
        assert_eq!(target.times(), times - 1, "early");
        server.advance(Duration::from_millis(pause_ms / 5 + 2));
        target.fired_times(times).await;
    }
    server.nothing_pending().await;
}

#[tokio::test]
async fn an_alarm_waits_for_its_target_to_be_registered() {
    let server = TestServer::open().await;
    let acme = server.tenant("acme").await;
    server.set_alarm(&acme, "r1", seconds(10)).await;
    for _ in 0..10 {
        server.advance(seconds(7));
        server.catch_up().await;
    }
    assert_eq!(server.pending().await, 1, "nothing is lost");
    let target = RecordingTarget::registered_in(&server);
    server.advance_until(|| target.times() >= 1).await;
    assert_eq!(target.jobs(), ["r1"]);
    server.nothing_pending().await;
}

#[tokio::test]
async fn alarms_outlive_the_server_and_ring_however_late_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let time = Timepiece::wound(start());
    let ahead = {
        let server = TestServer::open_in(folder.path(), time.clone()).await;
        let acme = server.tenant("acme").await;
        for number in 0..300 {
            server.set_alarm(&acme, &format!("r{number:03}"), seconds(10)).await;
        }
        server.set_alarm(&acme, "ahead", seconds(3 * 24 * 3600)).await;
        server.clock.close().await;
        server.relay.close().await;
        seconds(3 * 24 * 3600)
    };
    time.wind(seconds(2 * 24 * 3600));
    let place = Location::Folder(folder.path().to_owned());
    let callback = CallbackServer::open(time.clone()).await;
    let server = crate::firing::reopened(place, time.clone(), callback).await;
    let target = RecordingTarget::registered_in(&server);
    server.advance_until(|| target.times() >= 1).await;
    // An agent's three hundred would be spread over three seconds, and a tenant's whole quota over minutes.
    for _ in 0..10 {
        time.wind(Duration::from_millis(50));
        server.catch_up().await;
    }
    target.fired_times(300).await;
    server.catch_up().await;
    let mut jobs = target.jobs();
    jobs.sort();
    jobs.dedup();
    assert_eq!((jobs.len(), target.times()), (300, 300));
    time.set(start() + ahead);
    server.advance_until(|| target.times() >= 301).await;
    server.nothing_pending().await;
}

async fn armed(server: &TestServer) -> (Agent, TenantId) {
    let heron = server.create_agent("acme", "heron").await;
    let tenant = server.tenant("acme").await;
    (heron, tenant)
}

#[tokio::test]
async fn no_agent_sees_an_alarm_and_none_counts_against_its_jobs() {
    let server = TestServer::open_with(Config { arms_per_agent: 2, ..Config::default() }).await;
    let target = RecordingTarget::registered_in(&server);
    let (heron, acme) = armed(&server).await;
    for number in 0..5 {
        server.set_alarm(&acme, &format!("r{number}"), seconds(60)).await;
    }
    server.set_alarm(&acme, "job", seconds(60)).await;
    heron.arm("job", &server.at(seconds(3600))).await;
    heron.arm("other", &server.at(seconds(3600))).await;
    let (status, _) = heron.post("provision", heron.arm_request("third", &server.at(seconds(3600)))).await;
    assert_eq!(status, 429, "its own quota is what it was");
    assert_eq!(heron.list().await.len(), 2);
    heron.cancel("job").await;
    heron.cancel("r1").await;
    let jobs = server.clock.jobs().list(JobFilter::default(), 100).await.unwrap();
    assert_eq!(jobs.iter().map(|arm| arm.job.as_str()).collect::<Vec<_>>(), ["other"]);
    assert!(!server.clock.jobs().redrive(&heron.instance, &"r2".into()).await.unwrap());
    assert!(server.clock.jobs().show(&heron.instance, &"r2".into()).await.unwrap().is_none());
    target.refuses(1);
    server.advance(Duration::from_millis(60_100));
    target.fired_times(6).await;
    server.catch_up().await;
    server.advance(seconds(10));
    target.fired_times(7).await;
    eventually(async || server.pending().await == 1).await;
    assert_eq!(heron.history().await, ["cancelled"], "of its own job, and nothing else");
    assert!(server.callback.fires().is_empty());
}

#[tokio::test]
async fn jobs_are_as_exact_beside_alarms_as_without_them() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let (heron, acme) = armed(&server).await;
    for number in 0..500 {
        server.set_alarm(&acme, &format!("r{number}"), seconds(10)).await;
    }
    heron.arm("job", &server.at(seconds(10))).await;
    server.advance(Duration::from_millis(10_099));
    server.catch_up().await;
    assert!(target.times() == 0 && server.callback.fires().is_empty(), "early");
    server.advance(Duration::from_millis(1));
    let fire = server.callback.called(1).await.remove(0);
    assert_eq!(fire.at, start() + Duration::from_millis(10_100));
    target.fired_times(500).await;
    server.nothing_pending().await;
}

#[tokio::test]
async fn alarms_go_with_their_tenant() {
    let server = TestServer::open().await;
    let target = RecordingTarget::registered_in(&server);
    let acme = server.tenant("acme").await;
    server.set_alarm(&acme, "r1", seconds(10)).await;
    server.identity.roster.records().remove_tenant(&acme).await.unwrap();
    server.advance(seconds(60));
    server.catch_up().await;
    assert_eq!(target.times(), 0);
    let alarm = Alarm { target: "recorder", tenant: acme, job: "r2".into(), at: start() };
    assert!(server.clock.alarms().set(alarm).await.is_err(), "for nobody there is none");
}
