//! Exclusive claims: of any number of replicas in any number of processes, exactly one runs each fire.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posthouse_agent::jobs::{
    ClaimRefusal, ClaimResult, JobClaim, JobStore, JobStoreSettings, JsonFile, MarkResult, NewJob, Overlap,
    Policy, RunOutcome,
};
use posthouse_agent::wire::id::JobId;
use posthouse_time::Timepiece;

/// The store's path for the second process; set for that process only.
const FOLDER: &str = "POSTHOUSE_RACE_FOLDER";
const REPLICAS: usize = 4;
const JOBS: usize = 16;
const FIRES: usize = 625;

type Open = fn(&Path) -> Arc<dyn JobStore>;

/// A job by its position in the list, and the number of its fire.
type Run = (usize, usize);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_replicas_in_two_processes_run_each_of_ten_thousand_fires_once_on_a_json_file() {
    let test = "race::eight_replicas_in_two_processes_run_each_of_ten_thousand_fires_once_on_a_json_file";
    race(test, |folder| Arc::new(JsonFile::open(folder, store_settings()).unwrap())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_replicas_in_two_processes_run_each_of_ten_thousand_fires_once_on_sqlite() {
    use posthouse_agent::jobs::SqliteFile;
    let test = "race::eight_replicas_in_two_processes_run_each_of_ten_thousand_fires_once_on_sqlite";
    race(test, |folder| Arc::new(SqliteFile::open(folder.join("jobs.db"), store_settings()).unwrap())).await;
}

fn store_settings() -> JobStoreSettings {
    JobStoreSettings::new(Timepiece::wall(), TimeZone::UTC)
}

async fn race(test: &str, open: Open) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return second_process(Path::new(&folder), open).await;
    }
    let folder = tempfile::tempdir_in(in_memory()).unwrap();
    let store = open(folder.path());
    for _ in 0..JOBS {
        // A fire that comes during the run before it waits, so that none is skipped.
        let policy = Policy { overlap: Overlap::Queue, ..Policy::default() };
        store.create(NewJob::new("every 1m").policy(policy)).await.unwrap();
    }
    let mut second = start_second_process(test, folder.path());
    let ours = replicas(&store).await;
    assert!(second.0.wait().unwrap().success());
    let theirs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    let theirs: Vec<Run> = serde_json::from_str(&theirs).unwrap();
    println!("{} runs in this process, {} in the other", ours.len(), theirs.len());
    assert!(!ours.is_empty() && !theirs.is_empty(), "one process alone is no race");

    let mut runs: HashMap<Run, usize> = HashMap::new();
    for run in ours.into_iter().chain(theirs) {
        *runs.entry(run).or_default() += 1;
    }
    let twice: Vec<_> = runs.iter().filter(|(_, times)| **times != 1).collect();
    assert_eq!((runs.len(), twice.len()), (JOBS * FIRES, 0), "run twice: {twice:?}");
    for job in store.list().await.unwrap() {
        assert_eq!(job.repeat().completed, FIRES as u64);
    }
}

/// A folder where flushing costs nothing, if there is one: with a disk the processes would hardly race.
fn in_memory() -> PathBuf {
    Some(PathBuf::from("/dev/shm")).filter(|folder| folder.is_dir()).unwrap_or_else(std::env::temp_dir)
}

/// Ended with the test, also if the test fails.
struct Second(Child);

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

/// Runs this test again in a second process, and returns when that is ready to start.
fn start_second_process(test: &str, folder: &Path) -> Second {
    let second = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut second = Second(second);
    let mut lines = BufReader::new(second.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")), "the second process did not start");
    // The rest of its output is read, or it would block on a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    second.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    second
}

async fn second_process(folder: &Path, open: Open) {
    let store = open(folder);
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let runs = replicas(&store).await;
    std::fs::write(folder.join("runs"), serde_json::to_string(&runs).unwrap()).unwrap();
}

async fn replicas(store: &Arc<dyn JobStore>) -> Vec<Run> {
    let jobs: Vec<JobId> = store.list().await.unwrap().iter().map(|job| job.id()).collect();
    assert_eq!(jobs.len(), JOBS);
    let replicas: Vec<_> =
        (0..REPLICAS).map(|_| tokio::spawn(try_every_fire(Arc::clone(store), jobs.clone()))).collect();
    let mut runs = Vec::new();
    for replica in replicas {
        runs.extend(replica.await.unwrap());
    }
    runs
}

async fn try_every_fire(store: Arc<dyn JobStore>, jobs: Vec<JobId>) -> Vec<Run> {
    let mut runs = Vec::new();
    for fire in 0..FIRES {
        let fire_at = Timestamp::from_second(1_780_315_200 + i64::try_from(fire).unwrap()).unwrap();
        for (place, job) in jobs.iter().enumerate() {
            let Some(claim) = claim(&*store, job, fire_at).await else { continue };
            assert!(store.dispatch(&claim).await.unwrap());
            runs.push((place, fire));
            assert!(matches!(store.mark(&claim, RunOutcome::ok()).await.unwrap(), MarkResult::Kept(_)));
        }
    }
    runs
}

/// `None` if another process has it. Polls more often than `claim_in_turn`, because these runs take no
/// time.
async fn claim(store: &dyn JobStore, job: &JobId, fire_at: Timestamp) -> Option<JobClaim> {
    loop {
        match store.claim(job, Some(fire_at), "replica").await.unwrap() {
            ClaimResult::Won(claim) => return Some(*claim),
            ClaimResult::Refused(ClaimRefusal::Queued { .. }) => {
                tokio::time::sleep(Duration::from_millis(1)).await
            }
            ClaimResult::Refused(ClaimRefusal::Held | ClaimRefusal::Settled) => return None,
            ClaimResult::Refused(why) => panic!("no fire is lost this way here: {why:?}"),
        }
    }
}
