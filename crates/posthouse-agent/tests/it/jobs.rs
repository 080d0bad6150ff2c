//! Job store on each backend: recorded behaviour of the stock agent, and our additions.

mod beside_stock;
mod due;
mod leases;
mod vectors;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posthouse_agent::jobs::{
    ClaimRefusal, ClaimResult, Job, JobClaim, JobStore, JobStoreSettings, JsonFile, NewJob,
};
use posthouse_agent::wire::id::JobId;
use posthouse_time::{Moment, Timepiece};
use serde_json::{Map, Value};

/// The vectors' own zero: 2026-06-01T12:00:00Z.
pub(crate) const BASE: i64 = 1_780_315_200_000;

/// A store in a folder of its own, with a clock that is advanced by hand.
pub(crate) struct StoreFixture {
    pub(crate) name: &'static str,
    pub(crate) timepiece: Timepiece,
    pub(crate) store: Arc<dyn JobStore>,
    place: StoreFile,
    folder: tempfile::TempDir,
}

enum StoreFile {
    Json(PathBuf),
    #[cfg(feature = "sqlite")]
    Sqlite(PathBuf),
}

/// One of each kind.
pub(crate) fn shelves() -> Vec<StoreFixture> {
    shelves_in(&TimeZone::UTC)
}

pub(crate) fn shelves_in(zone: &TimeZone) -> Vec<StoreFixture> {
    let json = json_shelf(zone);
    #[cfg(feature = "sqlite")]
    return vec![json, sqlite_shelf(zone)];
    #[cfg(not(feature = "sqlite"))]
    return vec![json];
}

pub(crate) fn json_shelf(zone: &TimeZone) -> StoreFixture {
    let (folder, timepiece) = (tempfile::tempdir().unwrap(), Timepiece::wound(Moment::from_millis(BASE)));
    let store =
        JsonFile::open(folder.path(), JobStoreSettings::new(timepiece.clone(), zone.clone())).unwrap();
    let place = StoreFile::Json(folder.path().join("cron/jobs.json"));
    StoreFixture { name: "json", timepiece, store: Arc::new(store), place, folder }
}

#[cfg(feature = "sqlite")]
fn sqlite_shelf(zone: &TimeZone) -> StoreFixture {
    let (folder, timepiece) = (tempfile::tempdir().unwrap(), Timepiece::wound(Moment::from_millis(BASE)));
    let path = folder.path().join("jobs.db");
    let store_settings = JobStoreSettings::new(timepiece.clone(), zone.clone());
    let store = posthouse_agent::jobs::SqliteFile::open(&path, store_settings).unwrap();
    StoreFixture { name: "sqlite", timepiece, store: Arc::new(store), place: StoreFile::Sqlite(path), folder }
}

impl StoreFixture {
    pub(crate) fn winds_to(&self, millis_after_base: i64) {
        let ahead = BASE + millis_after_base - self.timepiece.now().millis();
        self.timepiece.wind(Duration::from_millis(u64::try_from(ahead).unwrap()));
    }

    pub(crate) async fn create(&self, wish: NewJob) -> JobId {
        self.store.create(wish).await.unwrap().id()
    }

    pub(crate) async fn job(&self, id: &JobId) -> Job {
        self.store.get(id).await.unwrap().expect("the job is there")
    }

    pub(crate) async fn claim(
        &self,
        id: &JobId,
        fire_at: Option<Timestamp>,
    ) -> Result<JobClaim, ClaimRefusal> {
        match self.store.claim(id, fire_at, "replica-b").await.unwrap() {
            ClaimResult::Won(claim) => Ok(*claim),
            ClaimResult::Refused(why) => Err(why),
        }
    }

    pub(crate) async fn wins(&self, id: &JobId, fire_at: Option<Timestamp>) -> JobClaim {
        self.claim(id, fire_at).await.unwrap_or_else(|lost| panic!("{}: lost: {lost:?}", self.name))
    }

    pub(crate) async fn loses(&self, id: &JobId, fire_at: Option<Timestamp>) -> ClaimRefusal {
        self.claim(id, fire_at).await.expect_err("somebody else has this fire")
    }

    /// Edits a record directly, without the store.
    pub(crate) fn meddle(&self, id: &JobId, edit: impl FnOnce(&mut Map<String, Value>)) {
        match &self.place {
            StoreFile::Json(path) => {
                let mut document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
                let jobs = document["jobs"].as_array_mut().unwrap();
                let job = jobs.iter_mut().find(|job| job["id"] == id.as_str()).unwrap();
                edit(job.as_object_mut().unwrap());
                std::fs::write(path, document.to_string()).unwrap();
            }
            #[cfg(feature = "sqlite")]
            StoreFile::Sqlite(path) => {
                let db = rusqlite::Connection::open(path).unwrap();
                let select = "SELECT record FROM jobs WHERE id = ?1";
                let record: String = db.query_row(select, [id.as_str()], |row| row.get(0)).unwrap();
                let mut record = serde_json::from_str(&record).unwrap();
                edit(&mut record);
                let record = Value::Object(record).to_string();
                let update = "UPDATE jobs SET record = ?2, version = version + 1 WHERE id = ?1";
                db.execute(update, [id.as_str(), &record]).unwrap();
            }
        }
    }
}

/// Seconds after the vectors' zero.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millisecond(BASE + seconds * 1000).unwrap()
}
