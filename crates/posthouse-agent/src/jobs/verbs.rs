//! Verbs of the job store, implemented once for all backends.

use async_trait::async_trait;
use jiff::Timestamp;
use posthouse_wire::id::JobId;
use uuid::Uuid;

use super::rules::{self, ClaimRequest, RecordChange, RuleResult};
use super::{
    ClaimRefusal, ClaimResult, DueJob, Fault, Job, JobChange, JobClaim, JobStore, MarkResult, NewJob,
    RunOutcome, Terms, Tick,
};

/// Storage of records. A rule may be called more than once: it is called again if the record was changed by
/// another process meanwhile.
pub(super) trait Backend: Send + Sync + 'static {
    fn terms(&self) -> &Terms;

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
        let now = self.terms().now();
        let job = rules::create(&new, &mint_id(now), now, self.terms())?;
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
        let terms = self.terms().clone();
        let changed = self.edit(job, move |job| kept(rules::update(job, &change, terms.now(), &terms)));
        changed.await?.transpose()
    }

    async fn pause(&self, job: &JobId, reason: Option<&str>) -> Result<Option<Job>, Fault> {
        let (terms, reason) = (self.terms().clone(), reason.map(str::to_owned));
        let paused = move |job: &Job| kept(Ok(rules::pause(job, reason.as_deref(), terms.now(), &terms)));
        self.edit(job, paused).await?.transpose()
    }

    async fn resume(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        let terms = self.terms().clone();
        self.edit(job, move |job| kept(rules::resume(job, terms.now(), &terms))).await?.transpose()
    }

    async fn remove(&self, job: &JobId) -> Result<bool, Fault> {
        let removed = self.edit(job, |_| RuleResult { answer: (), change: RecordChange::Remove }).await?;
        Ok(removed.is_some())
    }

    async fn run_now(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        let terms = self.terms().clone();
        self.edit(job, move |job| kept(Ok(rules::run_now(job, terms.now(), &terms)))).await?.transpose()
    }

    async fn claim(
        &self,
        job: &JobId,
        fire_at: Option<Timestamp>,
        owner: &str,
    ) -> Result<ClaimResult, Fault> {
        let terms = self.terms().clone();
        let token = mint(terms.now()).simple().to_string();
        let request = ClaimRequest { fire_at: fire_at.map(whole_micros), owner: owner.to_owned(), token };
        let claimed = self.edit(job, move |job| rules::claim(job, &request, terms.now(), &terms)).await?;
        Ok(claimed.unwrap_or(ClaimResult::Refused(ClaimRefusal::Gone)))
    }

    async fn renew(&self, claim: &JobClaim) -> Result<bool, Fault> {
        let (terms, job, claim) = (self.terms().clone(), claim.job.id(), claim.clone());
        let renewed = self.edit(&job, move |job| rules::renew(job, &claim, terms.now(), &terms)).await?;
        Ok(renewed.unwrap_or(false))
    }

    async fn dispatch(&self, claim: &JobClaim) -> Result<bool, Fault> {
        let (terms, job, claim) = (self.terms().clone(), claim.job.id(), claim.clone());
        let dispatched = self.edit(&job, move |job| rules::dispatch(job, &claim, &terms)).await?;
        Ok(dispatched.unwrap_or(false))
    }

    async fn mark(&self, claim: &JobClaim, outcome: RunOutcome) -> Result<MarkResult, Fault> {
        let (terms, job, claim) = (self.terms().clone(), claim.job.id(), claim.clone());
        let marked =
            self.edit(&job, move |job| rules::mark(job, &claim, &outcome, terms.now(), &terms)).await?;
        Ok(marked.unwrap_or(MarkResult::Fenced))
    }

    async fn due(&self, owner: &str) -> Result<Vec<DueJob>, Fault> {
        let (terms, owner) = (self.terms().clone(), owner.to_owned());
        self.scan(move |job| {
            let now = terms.now();
            rules::due(job, &mint_id(now), &owner, now, &terms)
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
