//! An agent's cron: accepting fires, reconciling with the portal, and the ticker as its replacement. Time
//! is advanced by hand; the portal is played on loopback.

mod agent;
mod fire;
mod portal;
mod reconcile;
mod ticker;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use posthouse_agent::cron::{ApiCredential, Chronos, Cron, CronBuilder, Portal, Run, Trigger};
use posthouse_agent::jobs::{Job, JobStore, JobStoreSettings, NewJob};
use posthouse_agent::wire::Secret;
use posthouse_agent::wire::cron::{FireAt, FireBody, Fired, Policy};
use posthouse_agent::wire::id::JobId;
use tokio::sync::Semaphore;

use crate::jobs::{BASE, StoreFixture, json_shelf, shelves};
use crate::test_server::soon;
use portal::FakePortal;

/// The runs so far, with their due times.
#[derive(Clone, Default)]
struct RecordedRuns(Arc<Mutex<Vec<Option<Timestamp>>>>);

impl RecordedRuns {
    fn note(&self, run: &Run) {
        self.0.lock().push(run.fire_at());
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn times(&self) -> Vec<Option<Timestamp>> {
        self.0.lock().clone()
    }
}

/// An agent with a store and a clock. Its runs end when the test releases them.
struct Fixture {
    shelf: StoreFixture,
    diary: RecordedRuns,
    doors: Arc<Semaphore>,
}

impl Fixture {
    /// One of each kind of store.
    fn each() -> Vec<Self> {
        shelves().into_iter().map(Self::over).collect()
    }

    fn open() -> Self {
        Self::over(json_shelf(&TimeZone::UTC))
    }

    fn over(shelf: StoreFixture) -> Self {
        Self {
            shelf,
            diary: RecordedRuns::default(),
            doors: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        }
    }

    /// Runs stay in progress until the test releases them.
    fn with_slow_runs(self) -> Self {
        Self { doors: Arc::new(Semaphore::new(0)), ..self }
    }

    fn lets_a_run_end(&self) {
        self.doors.add_permits(1);
    }

    fn store(&self) -> Arc<dyn JobStore> {
        Arc::clone(&self.shelf.store)
    }

    fn builder(&self) -> CronBuilder {
        let store_settings = JobStoreSettings::new(self.shelf.timepiece.clone(), TimeZone::UTC);
        Cron::over(self.store(), store_settings).owner("here")
    }

    fn cron(&self, builder: CronBuilder) -> Cron {
        let (diary, doors) = (self.diary.clone(), Arc::clone(&self.doors));
        builder.on_job(move |run| {
            let (diary, doors) = (diary.clone(), Arc::clone(&doors));
            async move {
                diary.note(&run);
                doors.acquire().await.unwrap().forget();
                if run.job().prompt() == "fail" { Err("as it was told") } else { Ok(()) }
            }
        })
    }

    /// A cron that uses the portal with a callback.
    fn managed(&self, portal: &FakePortal) -> Cron {
        let chronos = Chronos::by_callback(self.client(portal), "http://agent.test");
        self.cron(self.builder().trigger(Trigger::Chronos(chronos)))
    }

    fn client(&self, portal: &FakePortal) -> Portal {
        let credential = ApiCredential::Client { id: "agent:inst_1".into(), secret: Secret::new("s3cret") };
        Portal::new(&portal.url, credential, self.shelf.timepiece.clone())
    }

    async fn job(&self, wish: NewJob) -> Job {
        self.shelf.store.create(wish).await.unwrap()
    }

    fn winds(&self, seconds: u64) {
        self.shelf.timepiece.wind(Duration::from_secs(seconds));
    }

    /// Advances the clock no faster than the run of this job can renew its lease.
    async fn winds_during_a_run(&self, job: &JobId, seconds: u64) {
        let end = self.shelf.timepiece.now() + Duration::from_secs(seconds);
        soon(async {
            let mut looks = 0;
            while self.shelf.timepiece.now() < end {
                let claim = self.shelf.job(job).await.field("fire_claim").cloned().unwrap();
                let left = claim["until"].as_i64().unwrap() - self.shelf.timepiece.now().millis() * 1000;
                looks += 1;
                // The next renewal may be some time away: then advance in small steps.
                if left > 30_000_000 || looks % 1000 == 0 {
                    self.winds(1);
                }
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        })
        .await;
    }

    /// Advances from one due time to the next until there were this many runs and they have ended.
    async fn winds_until_runs(&self, runs: usize) {
        soon(async {
            loop {
                let jobs = self.shelf.store.list().await.unwrap();
                let idle = jobs.iter().all(|job| job.field("fire_claim").is_none_or(|claim| claim.is_null()));
                if idle && self.diary.len() >= runs {
                    return;
                }
                let now = Timestamp::from_millisecond(self.shelf.timepiece.now().millis()).unwrap();
                let live = jobs.iter().filter(|job| job.enabled());
                let next = live.filter_map(|job| job.next_run_at()).min().filter(|next| *next > now);
                // A run in progress would lose its lease, and for what is already due the clock need not
                // advance.
                if let Some(next) = next.filter(|_| idle) {
                    self.shelf.winds_to(next.as_millisecond() - BASE);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Advances second by second until the condition holds.
    async fn winds_until(&self, happened: impl Fn() -> bool) {
        soon(async {
            loop {
                for _ in 0..20 {
                    if happened() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                self.winds(1);
            }
        })
        .await;
    }
}

/// Waits until a condition holds.
async fn until(so: impl Fn() -> bool) {
    soon(async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Waits until the stored job satisfies the condition.
async fn until_job(fixture: &Fixture, job: &JobId, so: impl Fn(Option<&Job>) -> bool) {
    soon(async {
        while !so(fixture.shelf.store.get(job).await.unwrap().as_ref()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

fn fire_of(job: &Job) -> FireBody {
    let fire_at = FireAt::parse(job.next_run_text().unwrap()).unwrap();
    FireBody::new(job.id(), fire_at, &Policy::default())
}

async fn takes(cron: &Cron, fire: &FireBody) -> (u16, &'static str) {
    let (status, fired): (u16, Fired) = cron.fired(fire.clone()).await;
    (status, fired.word())
}
