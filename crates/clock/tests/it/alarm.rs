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

use crate::agent::Callback;
use crate::town::{Agent, Town, eventually, seconds, start};

/// A target that records its calls and gives scripted answers. After the last one it accepts everything.
#[derive(Clone)]
struct Gong(Arc<Inner>);

struct Inner {
    time: Timepiece,
    outcome: Mutex<Vec<(TenantId, String, Moment)>>,
    answers: Mutex<VecDeque<FireOutcome>>,
}

impl Gong {
    fn hung_in(town: &Town) -> Self {
        let gong = Self::new(&town.time);
        town.clock.register("gong", Arc::new(gong.clone()));
        gong
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

    async fn rings(&self, times: usize) {
        eventually(async || self.times() >= times).await;
    }
}

#[async_trait]
impl FireTarget for Gong {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        self.0.outcome.lock().push((arm.tenant.clone(), arm.job.to_string(), self.0.time.now()));
        let written = self.0.answers.lock().pop_front();
        written.unwrap_or(FireOutcome::Taken { status: 200, fired: Fired::Accepted })
    }

    fn host(&self, _arm: &Arm) -> String {
        "gong".to_owned()
    }
}

impl Town {
    async fn tenant(&self, name: &str) -> TenantId {
        if let Some(tenant) = self.identity.accounts.create_tenant(name).await.unwrap().unwrap() {
            return tenant.id;
        }
        self.identity.roster.records().tenant(name).await.unwrap().unwrap().id
    }

    async fn sets(&self, tenant: &TenantId, job: &str, after: Duration) {
        let alarm = Alarm { target: "gong", tenant: tenant.clone(), job: job.into(), at: start() + after };
        assert!(self.clock.set_alarm(alarm).await.unwrap());
    }

    /// Number of pending arms, including alarms.
    async fn pending(&self) -> u64 {
        self.ledger.arms().census().await.unwrap().0
    }

    async fn is_over(&self) {
        eventually(async || self.pending().await == 0).await;
    }
}

#[tokio::test]
async fn an_alarm_rings_at_its_time_once_and_says_whose_and_which() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let acme = town.tenant("acme").await;
    town.sets(&acme, "r1", seconds(10)).await;
    town.sets(&acme, "r1", seconds(10)).await;
    town.time.wind(Duration::from_millis(10_099));
    town.settles().await;
    assert_eq!(gong.times(), 0, "early");
    town.time.wind(Duration::from_millis(1));
    gong.rings(1).await;
    assert_eq!(*gong.0.outcome.lock(), [(acme, "r1".to_owned(), start() + Duration::from_millis(10_100))]);
    town.is_over().await;
    town.time.wind(seconds(3600));
    town.settles().await;
    assert_eq!(gong.times(), 1);
}

#[tokio::test]
async fn an_alarm_in_the_past_rings_at_once() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let acme = town.tenant("acme").await;
    town.time.wind(seconds(900));
    town.sets(&acme, "r1", seconds(10)).await;
    gong.rings(1).await;
    town.is_over().await;
}

#[tokio::test]
async fn another_time_replaces_an_alarm_and_one_that_was_unset_never_rings() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let (acme, bolt) = (town.tenant("acme").await, town.tenant("bolt").await);
    town.sets(&acme, "moved", seconds(10)).await;
    town.sets(&acme, "moved", seconds(30)).await;
    town.sets(&acme, "unset", seconds(20)).await;
    town.sets(&bolt, "unset", seconds(25)).await;
    town.clock.unset_alarm("gong", &acme, &"unset".into()).await.unwrap();
    town.clock.unset_alarm("gong", &acme, &"unset".into()).await.unwrap();
    town.clock.unset_alarm("other", &bolt, &"unset".into()).await.unwrap();
    town.winds_until(|| town.time.now() > start() + seconds(29)).await;
    town.settles().await;
    assert_eq!(gong.jobs(), ["unset"], "another tenant's of the same name");
    town.winds_until(|| town.time.now() > start() + seconds(31)).await;
    gong.rings(2).await;
    assert_eq!(gong.jobs(), ["unset", "moved"]);
    town.is_over().await;
}

#[tokio::test]
async fn what_is_unset_while_it_is_held_for_its_instant_does_not_ring() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let acme = town.tenant("acme").await;
    town.sets(&acme, "r1", seconds(10)).await;
    town.time.wind(Duration::from_millis(10_000));
    town.settles().await;
    town.clock.unset_alarm("gong", &acme, &"r1".into()).await.unwrap();
    town.time.wind(seconds(60));
    town.settles().await;
    assert_eq!(gong.times(), 0);
}

#[tokio::test]
async fn a_bell_that_did_not_take_it_is_rung_again_and_an_alarm_is_never_given_up() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let acme = town.tenant("acme").await;
    gong.refuses(12);
    town.sets(&acme, "r1", seconds(0)).await;
    town.time.wind(Duration::from_millis(100));
    gong.rings(1).await;
    town.settles().await;
    // Beyond every pause of the retry table, and beyond the day after which a job would be given up.
    for times in 2..=13 {
        town.time.wind(seconds(4 * 3600));
        gong.rings(times).await;
        town.settles().await;
    }
    town.is_over().await;
    assert_eq!(town.ledger.arms().census().await.unwrap(), (0, 0), "and it is not among the dead");
}

#[tokio::test]
async fn the_pauses_between_two_rings_are_those_of_jobs() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let acme = town.tenant("acme").await;
    gong.refuses(3);
    town.sets(&acme, "r1", seconds(0)).await;
    town.time.wind(Duration::from_millis(100));
    gong.rings(1).await;
    for (times, pause_ms) in [(2, 1_000), (3, 2_000), (4, 4_000)] {
        // The pause varies by a tenth, and the guard is added.
        town.settles().await;
        town.time.wind(Duration::from_millis(pause_ms * 9 / 10 + 99));
        town.settles().await;
        assert_eq!(gong.times(), times - 1, "early");
        town.time.wind(Duration::from_millis(pause_ms / 5 + 2));
        gong.rings(times).await;
    }
    town.is_over().await;
}

#[tokio::test]
async fn an_alarm_waits_for_its_bell_to_be_hung() {
    let town = Town::open().await;
    let acme = town.tenant("acme").await;
    town.sets(&acme, "r1", seconds(10)).await;
    for _ in 0..10 {
        town.time.wind(seconds(7));
        town.settles().await;
    }
    assert_eq!(town.pending().await, 1, "nothing is lost");
    let gong = Gong::hung_in(&town);
    town.winds_until(|| gong.times() >= 1).await;
    assert_eq!(gong.jobs(), ["r1"]);
    town.is_over().await;
}

#[tokio::test]
async fn alarms_outlive_the_house_and_ring_however_late_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let time = Timepiece::wound(start());
    let ahead = {
        let town = Town::open_in(folder.path(), time.clone()).await;
        let acme = town.tenant("acme").await;
        for number in 0..300 {
            town.sets(&acme, &format!("r{number:03}"), seconds(10)).await;
        }
        town.sets(&acme, "ahead", seconds(3 * 24 * 3600)).await;
        town.clock.close().await;
        town.relay.close().await;
        seconds(3 * 24 * 3600)
    };
    time.wind(seconds(2 * 24 * 3600));
    let place = Location::Folder(folder.path().to_owned());
    let callback = Callback::open(time.clone()).await;
    let town = crate::firing::reopened(place, time.clone(), callback).await;
    let gong = Gong::hung_in(&town);
    town.winds_until(|| gong.times() >= 1).await;
    // An agent's three hundred would be spread over three seconds, and a tenant's whole quota over minutes.
    for _ in 0..10 {
        time.wind(Duration::from_millis(50));
        town.settles().await;
    }
    gong.rings(300).await;
    town.settles().await;
    let mut jobs = gong.jobs();
    jobs.sort();
    jobs.dedup();
    assert_eq!((jobs.len(), gong.times()), (300, 300));
    time.set(start() + ahead);
    town.winds_until(|| gong.times() >= 301).await;
    town.is_over().await;
}

async fn armed(town: &Town) -> (Agent, TenantId) {
    let heron = town.agent("acme", "heron").await;
    let tenant = town.tenant("acme").await;
    (heron, tenant)
}

#[tokio::test]
async fn no_agent_sees_an_alarm_and_none_counts_against_its_jobs() {
    let town = Town::open_with(Config { arms_per_agent: 2, ..Config::default() }).await;
    let gong = Gong::hung_in(&town);
    let (heron, acme) = armed(&town).await;
    for number in 0..5 {
        town.sets(&acme, &format!("r{number}"), seconds(60)).await;
    }
    town.sets(&acme, "job", seconds(60)).await;
    heron.arms("job", &town.at(seconds(3600))).await;
    heron.arms("other", &town.at(seconds(3600))).await;
    let (status, _) = heron.posts("provision", heron.wish("third", &town.at(seconds(3600)))).await;
    assert_eq!(status, 429, "its own quota is what it was");
    assert_eq!(heron.lists().await.len(), 2);
    heron.cancels("job").await;
    heron.cancels("r1").await;
    let jobs = town.clock.jobs(JobFilter::default(), 100).await.unwrap();
    assert_eq!(jobs.iter().map(|arm| arm.job.as_str()).collect::<Vec<_>>(), ["other"]);
    assert!(!town.clock.redrive(&heron.instance, &"r2".into()).await.unwrap());
    assert!(town.clock.job(&heron.instance, &"r2".into()).await.unwrap().is_none());
    gong.refuses(1);
    town.time.wind(Duration::from_millis(60_100));
    gong.rings(6).await;
    town.settles().await;
    town.time.wind(seconds(10));
    gong.rings(7).await;
    eventually(async || town.pending().await == 1).await;
    assert_eq!(heron.told().await, ["cancelled"], "of its own job, and nothing else");
    assert!(town.callback.fires().is_empty());
}

#[tokio::test]
async fn jobs_are_as_exact_beside_alarms_as_without_them() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let (heron, acme) = armed(&town).await;
    for number in 0..500 {
        town.sets(&acme, &format!("r{number}"), seconds(10)).await;
    }
    heron.arms("job", &town.at(seconds(10))).await;
    town.time.wind(Duration::from_millis(10_099));
    town.settles().await;
    assert!(gong.times() == 0 && town.callback.fires().is_empty(), "early");
    town.time.wind(Duration::from_millis(1));
    let fire = town.callback.called(1).await.remove(0);
    assert_eq!(fire.at, start() + Duration::from_millis(10_100));
    gong.rings(500).await;
    town.is_over().await;
}

#[tokio::test]
async fn alarms_go_with_their_tenant() {
    let town = Town::open().await;
    let gong = Gong::hung_in(&town);
    let acme = town.tenant("acme").await;
    town.sets(&acme, "r1", seconds(10)).await;
    town.identity.roster.records().remove_tenant(&acme).await.unwrap();
    town.time.wind(seconds(60));
    town.settles().await;
    assert_eq!(gong.times(), 0);
    let alarm = Alarm { target: "gong", tenant: acme, job: "r2".into(), at: start() };
    assert!(town.clock.set_alarm(alarm).await.is_err(), "for nobody there is none");
}
