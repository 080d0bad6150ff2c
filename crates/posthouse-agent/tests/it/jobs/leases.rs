//! Claims by fire time, with a token and a lease: what our job store adds to the stock agent's (6.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use posthouse_agent::jobs::{
    ClaimLease, ClaimRefusal, ClaimResult, DueJob, Fault, Job, JobChange, JobClaim, JobStore, MarkResult,
    NewJob, Overlap, Policy, RunOutcome, Tick, claim_in_turn,
};
use posthouse_agent::wire::id::JobId;

use super::{StoreFixture, at, shelves};

async fn marks(shelf: &StoreFixture, claim: &posthouse_agent::jobs::JobClaim) -> MarkResult {
    shelf.store.mark(claim, RunOutcome::ok()).await.unwrap()
}

#[tokio::test]
async fn ours_6_4_a_late_duplicate_loses_even_after_completion() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        let claim = shelf.wins(&job, Some(at(300))).await;
        assert_eq!(shelf.loses(&job, Some(at(300))).await, ClaimRefusal::Held);
        marks(&shelf, &claim).await;
        shelf.winds_to(400_000);
        assert_eq!(shelf.loses(&job, Some(at(300))).await, ClaimRefusal::Settled);
        // The next fire can be claimed.
        shelf.wins(&job, Some(at(600))).await;
    }
}

#[tokio::test]
async fn ours_6_4_a_duplicate_older_than_all_that_is_remembered_loses_too() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        for fire in 1..=70 {
            let claim = shelf.wins(&job, Some(at(fire))).await;
            marks(&shelf, &claim).await;
        }
        let remembered =
            shelf.job(&job).await.field("posthouse").unwrap()["settled"].as_array().unwrap().len();
        assert_eq!(remembered, 64);
        for fire in 1..=70 {
            assert_eq!(
                shelf.loses(&job, Some(at(fire))).await,
                ClaimRefusal::Settled,
                "{}: {fire}",
                shelf.name
            );
        }
        shelf.wins(&job, Some(at(71))).await;
    }
}

#[tokio::test]
async fn ours_6_4_an_early_fire_does_not_make_the_same_occurrence_next() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("0 12 * * *")).await;
        shelf.winds_to(86_399_950);
        let claim = shelf.wins(&job, Some(at(86_400))).await;
        assert_eq!(shelf.job(&job).await.next_run_at(), Some(at(2 * 86_400)));
        // The run ends before the fire was due.
        let MarkResult::Kept(kept) = marks(&shelf, &claim).await else { panic!("a daily job goes on") };
        assert_eq!(kept.next_run_at(), Some(at(2 * 86_400)), "{}", shelf.name);
    }
}

#[tokio::test]
async fn ours_6_4_a_claim_that_nobody_renews_lapses_after_60_s_and_its_owner_cannot_mark() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        let stale = shelf.wins(&job, Some(at(300))).await;
        shelf.winds_to(359_999);
        assert_eq!(shelf.loses(&job, Some(at(300))).await, ClaimRefusal::Held);
        shelf.winds_to(360_000);
        let fresh = shelf.wins(&job, Some(at(300))).await;
        assert!(!shelf.store.renew(&stale).await.unwrap());
        assert!(!shelf.store.dispatch(&stale).await.unwrap());
        assert!(matches!(marks(&shelf, &stale).await, MarkResult::Fenced));
        assert_eq!(shelf.job(&job).await.last_run_at(), None);
        assert!(matches!(marks(&shelf, &fresh).await, MarkResult::Kept(_)));
        assert!(matches!(marks(&shelf, &fresh).await, MarkResult::Fenced), "a mark is not made twice");
    }
}

#[tokio::test]
async fn ours_6_4_a_fire_abandoned_by_its_runner_is_not_run_again_once_another_took_its_place() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        shelf.wins(&job, Some(at(300))).await;
        shelf.winds_to(600_000);
        let next = shelf.wins(&job, Some(at(600))).await;
        marks(&shelf, &next).await;
        assert_eq!(shelf.loses(&job, Some(at(300))).await, ClaimRefusal::Settled, "{}", shelf.name);
    }
}

#[tokio::test]
async fn ours_6_4_a_clock_behind_the_owners_still_honours_the_claim() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        shelf.wins(&job, Some(at(300))).await;
        let ahead = |seconds: i64| {
            shelf.meddle(&job, |record| {
                let claim = record["fire_claim"].as_object_mut().unwrap();
                claim.insert("at".to_owned(), at(300 + seconds).to_string().into());
                claim.insert("until".to_owned(), at(360 + seconds).as_microsecond().into());
            });
        };
        ahead(2);
        assert_eq!(shelf.loses(&job, Some(at(300))).await, ClaimRefusal::Held);
        // A claim dated an hour ahead was written before the clock was set back.
        ahead(3600);
        shelf.wins(&job, Some(at(300))).await;
    }
}

/// Advances second by second until a lease has been renewed this often.
async fn lives_through(shelf: &StoreFixture, job: &posthouse_agent::wire::id::JobId, beats: u32) {
    let until = |job: &Job| job.field("fire_claim").unwrap()["until"].as_i64().unwrap();
    for _ in 0..beats {
        let (before, mut wound) = (until(&shelf.job(job).await), 0);
        let renewed = async || until(&shelf.job(job).await) != before;
        while !renewed().await {
            shelf.timepiece.wind(Duration::from_secs(1));
            wound += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
            // Once a renewal is due, it must be written before the clock advances further. The pause before it may
            // have begun late, so the clock advances again after a while.
            let mut looks = 0;
            while wound >= 22 && looks < 500 && !renewed().await {
                looks += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

#[tokio::test]
async fn ours_6_4_a_held_lease_outlasts_any_run_and_a_stock_agent_sees_it_fresh() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        let claim = shelf.wins(&job, Some(at(300))).await;
        let lease = ClaimLease::keep(shelf.store.clone(), claim.clone(), shelf.timepiece.clone());
        tokio::task::yield_now().await;
        lives_through(&shelf, &job, 30).await;
        assert_eq!(shelf.loses(&job, Some(at(300))).await, ClaimRefusal::Held);
        let stamped = shelf.job(&job).await.field("fire_claim").unwrap()["at"].as_str().unwrap().to_owned();
        let stamped: jiff::Timestamp = stamped.parse().unwrap();
        assert!(stamped >= at(300 + 30 * 20), "what a stock agent counts 300 s from moved along: {stamped}");
        drop(lease);
        assert!(matches!(marks(&shelf, &claim).await, MarkResult::Kept(_)), "{}", shelf.name);
    }
}

#[tokio::test]
async fn a_step_of_the_wall_clock_does_not_free_the_claim_of_a_run_that_lives() {
    let ahead = shelves().into_iter().map(|shelf| (shelf, true));
    for (shelf, is_ahead) in ahead.chain(shelves().into_iter().map(|shelf| (shelf, false))) {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        let claim = shelf.wins(&job, Some(at(300))).await;
        let lease = ClaimLease::keep(shelf.store.clone(), claim.clone(), shelf.timepiece.clone());
        tokio::task::yield_now().await;
        let (hour, now) = (Duration::from_secs(3600), shelf.timepiece.now());
        let set_to = if is_ahead { now + hour } else { now - hour };
        shelf.timepiece.set(set_to);
        // A step back is noticed within a second.
        shelf.timepiece.wind(Duration::from_secs(1));
        let renewed = async {
            loop {
                let until = shelf.job(&job).await.field("fire_claim").unwrap()["until"].as_i64().unwrap();
                let left = until / 1000 - shelf.timepiece.now().millis();
                if (1..=60_000).contains(&left) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), renewed).await.expect("it is renewed by the new time");
        assert_eq!(shelf.loses(&job, Some(at(300))).await, ClaimRefusal::Held);
        drop(lease);
        assert!(matches!(marks(&shelf, &claim).await, MarkResult::Kept(_)), "{}", shelf.name);
    }
}

#[tokio::test]
async fn a_renewal_that_fails_once_after_a_step_ahead_does_not_lose_the_claim() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        let claim = shelf.wins(&job, Some(at(300))).await;
        let store = Arc::new(FailingRenewals { inner: shelf.store.clone(), to_fail: 1.into() });
        let lease = ClaimLease::keep(store.clone(), claim, shelf.timepiece.clone());
        tokio::task::yield_now().await;
        shelf.timepiece.set(shelf.timepiece.now() + Duration::from_secs(3600));
        let lives = async {
            let until = |job: &Job| job.field("fire_claim").unwrap()["until"].as_i64().unwrap();
            while until(&shelf.job(&job).await) <= at(3900).as_microsecond() {
                shelf.timepiece.wind(Duration::from_secs(1));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = lease.lost() => panic!("{}: only a second has passed", shelf.name),
            () = lives => {}
        }
        assert_eq!(store.to_fail.load(Ordering::SeqCst), 0, "one renewal failed");
    }
}

/// A store whose first renewals fail.
struct FailingRenewals {
    inner: Arc<dyn JobStore>,
    to_fail: AtomicUsize,
}

#[async_trait]
impl JobStore for FailingRenewals {
    async fn renew(&self, claim: &JobClaim) -> Result<bool, Fault> {
        let fails = self.to_fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if fails.is_ok() {
            return Err(Fault::Locked);
        }
        self.inner.renew(claim).await
    }

    async fn create(&self, wish: NewJob) -> Result<Job, Fault> {
        self.inner.create(wish).await
    }

    async fn get(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        self.inner.get(job).await
    }

    async fn list(&self) -> Result<Vec<Job>, Fault> {
        self.inner.list().await
    }

    async fn update(&self, job: &JobId, change: JobChange) -> Result<Option<Job>, Fault> {
        self.inner.update(job, change).await
    }

    async fn pause(&self, job: &JobId, reason: Option<&str>) -> Result<Option<Job>, Fault> {
        self.inner.pause(job, reason).await
    }

    async fn resume(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        self.inner.resume(job).await
    }

    async fn remove(&self, job: &JobId) -> Result<bool, Fault> {
        self.inner.remove(job).await
    }

    async fn run_now(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        self.inner.run_now(job).await
    }

    async fn claim(
        &self,
        job: &JobId,
        fire_at: Option<Timestamp>,
        owner: &str,
    ) -> Result<ClaimResult, Fault> {
        self.inner.claim(job, fire_at, owner).await
    }

    async fn dispatch(&self, claim: &JobClaim) -> Result<bool, Fault> {
        self.inner.dispatch(claim).await
    }

    async fn mark(&self, claim: &JobClaim, outcome: RunOutcome) -> Result<MarkResult, Fault> {
        self.inner.mark(claim, outcome).await
    }

    async fn due(&self, owner: &str) -> Result<Vec<DueJob>, Fault> {
        self.inner.due(owner).await
    }

    async fn tick(&self) -> Result<Option<Tick>, Fault> {
        self.inner.tick().await
    }
}

#[tokio::test]
async fn ours_6_4_a_runner_whose_claim_was_taken_is_told() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        let claim = shelf.wins(&job, None).await;
        let lease = ClaimLease::keep(shelf.store.clone(), claim, shelf.timepiece.clone());
        tokio::task::yield_now().await;
        shelf.meddle(&job, |record| record["fire_claim"]["token"] = "another's".into());
        let told = tokio::spawn(async move { lease.lost().await });
        shelf.timepiece.wind_until(Duration::from_secs(20), told).await.unwrap();
    }
}

#[tokio::test]
async fn dispatch_asked_twice_by_one_claim_counts_once() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("30m").repeat(3)).await;
        shelf.winds_to(1_800_000);
        let claim = shelf.wins(&job, Some(at(1800))).await;
        assert!(shelf.store.dispatch(&claim).await.unwrap());
        assert!(shelf.store.dispatch(&claim).await.unwrap());
        assert_eq!(shelf.job(&job).await.repeat().completed, 1, "{}", shelf.name);
    }
}

#[tokio::test]
async fn a_fire_that_meets_a_running_job_is_let_go_and_recorded() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("*/5 * * * *")).await;
        shelf.winds_to(300_000);
        let first = shelf.wins(&job, Some(at(300))).await;
        shelf.winds_to(350_000);
        // The second fire comes ten seconds early, while the first run is in progress.
        assert_eq!(shelf.loses(&job, Some(at(600))).await, ClaimRefusal::Overlap);
        let kept = shelf.job(&job).await;
        assert_eq!(kept.skipped().iter().map(|skip| skip.fire_at).collect::<Vec<_>>(), [at(600)]);
        assert_eq!(kept.next_run_at(), Some(at(900)), "the job moves on to the fire after it");
        marks(&shelf, &first).await;
        assert_eq!(shelf.loses(&job, Some(at(600))).await, ClaimRefusal::Settled, "{}", shelf.name);
    }
}

#[tokio::test]
async fn a_fire_that_queues_runs_when_the_run_before_it_has_ended() {
    for shelf in shelves() {
        let policy = Policy { overlap: Overlap::Queue, ..Policy::default() };
        let job = shelf.create(NewJob::new("every 5m").policy(policy)).await;
        shelf.winds_to(300_000);
        let first = shelf.wins(&job, Some(at(300))).await;
        assert_eq!(shelf.loses(&job, Some(at(600))).await, ClaimRefusal::Queued { until: at(360) });
        let (store, clock, queued) = (shelf.store.clone(), shelf.timepiece.clone(), job.clone());
        let turn = tokio::spawn(async move {
            claim_in_turn(&*store, &clock, &queued, Some(at(600)), "replica-b").await.unwrap()
        });
        // Tries repeatedly, and does not get the claim while the first run is in progress.
        for _ in 0..20 {
            shelf.timepiece.wind(Duration::from_millis(250));
            shelf.store.renew(&first).await.unwrap();
        }
        assert!(!turn.is_finished());
        marks(&shelf, &first).await;
        let turn = shelf.timepiece.wind_until(Duration::from_secs(1), turn).await;
        let ClaimResult::Won(second) = turn.unwrap() else { panic!("{}: its turn came", shelf.name) };
        assert_eq!(second.fire_at(), Some(at(600)));
        assert!(shelf.job(&job).await.skipped().is_empty());
    }
}

#[tokio::test]
async fn a_policy_is_kept_and_changed_with_the_job() {
    for shelf in shelves() {
        let policy = Policy { overlap: Overlap::Queue, window: Some(7200), jitter: 5, ..Policy::default() };
        let job = shelf.create(NewJob::new("every 5m").policy(policy.clone())).await;
        assert_eq!(shelf.job(&job).await.policy(), policy);
        let change = posthouse_agent::jobs::JobChange::new().policy(Policy::default());
        shelf.store.update(&job, change).await.unwrap();
        assert_eq!(shelf.job(&job).await.policy(), Policy::default(), "{}", shelf.name);
    }
}
