//! Verbs of the job store, implemented once for all backends.

use async_trait::async_trait;
use jiff::Timestamp;
use posthouse_wire::id::JobId;
use uuid::Uuid;

use super::rules::{self, ClaimRequest, RecordChange, RuleResult};
use super::{
    ClaimRefusal, ClaimResult, DueJob, Fault, Job, JobChange, JobClaim, JobStore, JobStoreSettings,
    MarkResult, NewJob, RunOutcome, Tick,
};

/// Storage of records. A rule may be called more than once: it is called again if the record was changed by
/// another process meanwhile.
pub(super) trait Backend: Send + Sync + 'static {
    fn store_settings(&self) -> &JobStoreSettings;

    fn insert(&self, job: Job) -> impl Future<Output = Result<(), Fault>> + Send;

    fn one(&self, id: &JobId) -> impl Future<Output = Result<Option<Job>, Fault>> + Send;

    fn all(&self) -> impl Future<Output = Result<Vec<Job>, Fault>> + Send;

    /// `None` if there is no such job.
    fn edit<T, R>(&self, id: &JobId, rule: R) -> impl Future<Output = Result<Option<T>, Fault>> + Send
    where
        T: Send + 'static,
        R: Fn(&Job) -> RuleResult<T> + Send + Sync + 'static;

    /// The same for every job, in order.
    fn scan<T, R>(&self, rule: R) -> impl Future<Output = Result<Vec<T>, Fault>> + Send
    where
        T: Send + 'static,
        R: Fn(&Job) -> RuleResult<Option<T>> + Send + Sync + 'static;

    fn tick(&self) -> impl Future<Output = Result<Option<Tick>, Fault>> + Send;
}

#[async_trait]
impl<B: Backend> JobStore for B {
    async fn create(&self, new: NewJob) -> Result<Job, Fault> {
        let now = self.store_settings().now();
        let job = rules::create(&new, &mint_id(now), now, self.store_settings())?;
        self.insert(job.clone()).await?;
        Ok(job)
    }

    async fn get(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        self.one(job).await
    }

    async fn list(&self) -> Result<Vec<Job>, Fault> {
        self.all().await
    }

    async fn update(&self, job: &JobId, change: JobChange) -> Result<Option<Job>, Fault> {
        let store_settings = self.store_settings().clone();
        let changed = self
            .edit(job, move |job| kept(rules::update(job, &change, store_settings.now(), &store_settings)));
        changed.await?.transpose()
    }

    async fn pause(&self, job: &JobId, reason: Option<&str>) -> Result<Option<Job>, Fault> {
        let (store_settings, reason) = (self.store_settings().clone(), reason.map(str::to_owned));
        let paused = move |job: &Job| {
            kept(Ok(rules::pause(job, reason.as_deref(), store_settings.now(), &store_settings)))
        };
        self.edit(job, paused).await?.transpose()
    }

    async fn resume(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        let store_settings = self.store_settings().clone();
        self.edit(job, move |job| kept(rules::resume(job, store_settings.now(), &store_settings)))
            .await?
            .transpose()
    }

    async fn remove(&self, job: &JobId) -> Result<bool, Fault> {
        let removed = self.edit(job, |_| RuleResult { answer: (), change: RecordChange::Remove }).await?;
        Ok(removed.is_some())
    }

    async fn run_now(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        let store_settings = self.store_settings().clone();
        self.edit(job, move |job| kept(Ok(rules::run_now(job, store_settings.now(), &store_settings))))
            .await?
            .transpose()
    }

    async fn claim(
        &self,
        job: &JobId,
        fire_at: Option<Timestamp>,
        owner: &str,
    ) -> Result<ClaimResult, Fault> {
        let store_settings = self.store_settings().clone();
        let token = mint(store_settings.now()).simple().to_string();
        let request = ClaimRequest { fire_at: fire_at.map(whole_micros), owner: owner.to_owned(), token };
        let claimed = self
            .edit(job, move |job| rules::claim(job, &request, store_settings.now(), &store_settings))
            .await?;
        Ok(claimed.unwrap_or(ClaimResult::Refused(ClaimRefusal::Gone)))
    }

    async fn renew(&self, claim: &JobClaim) -> Result<bool, Fault> {
        let (store_settings, job, claim) = (self.store_settings().clone(), claim.job.id(), claim.clone());
        let renewed = self
            .edit(&job, move |job| rules::renew(job, &claim, store_settings.now(), &store_settings))
            .await?;
        Ok(renewed.unwrap_or(false))
    }

    async fn dispatch(&self, claim: &JobClaim) -> Result<bool, Fault> {
        let (store_settings, job, claim) = (self.store_settings().clone(), claim.job.id(), claim.clone());
        let dispatched = self.edit(&job, move |job| rules::dispatch(job, &claim, &store_settings)).await?;
        Ok(dispatched.unwrap_or(false))
    }

    async fn mark(&self, claim: &JobClaim, outcome: RunOutcome) -> Result<MarkResult, Fault> {
        let (store_settings, job, claim) = (self.store_settings().clone(), claim.job.id(), claim.clone());
        let marked = self
            .edit(&job, move |job| rules::mark(job, &claim, &outcome, store_settings.now(), &store_settings))
            .await?;
        Ok(marked.unwrap_or(MarkResult::Fenced))
    }

    async fn due(&self, owner: &str) -> Result<Vec<DueJob>, Fault> {
        let (store_settings, owner) = (self.store_settings().clone(), owner.to_owned());
        self.scan(move |job| {
            let now = store_settings.now();
            rules::due(job, &mint_id(now), &owner, now, &store_settings)
        })
        .await
    }

    async fn tick(&self) -> Result<Option<Tick>, Fault> {
        Backend::tick(self).await
    }
}

fn kept(changed: Result<Job, Fault>) -> RuleResult<Result<Job, Fault>> {
    match changed {
        Ok(job) => RuleResult { answer: Ok(job.clone()), change: RecordChange::Keep(job) },
        Err(fault) => RuleResult { answer: Err(fault), change: RecordChange::Same },
    }
}

/// Fire times are stored in microseconds. They are rounded up, as the portal does.
fn whole_micros(at: Timestamp) -> Timestamp {
    let micros = at.as_nanosecond().div_euclid(1000) + i128::from(at.as_nanosecond().rem_euclid(1000) != 0);
    i64::try_from(micros).ok().and_then(|micros| Timestamp::from_microsecond(micros).ok()).unwrap_or(at)
}

fn mint(now: Timestamp) -> Uuid {
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0))
}

/// Twelve hex digits, like the stock agent's ids, from the random part of the UUID.
fn mint_id(now: Timestamp) -> String {
    mint(now).simple().to_string().split_off(20)
}
