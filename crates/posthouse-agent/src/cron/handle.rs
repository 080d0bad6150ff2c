//! `Cron`: the handle with which an agent adds, changes and runs its cron jobs, and its builder.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use posthouse_wire::JobId;
use posthouse_wire::cron::{FireBody, Fired};
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::known_arms::KnownArms;
use super::runner::{OnJob, Run};
use super::{Chronos, Config, provider, ticker};
use crate::adapter::JobRunner;
use crate::jobs::{Fault, Job, JobChange, JobStore, JobStoreSettings, NewJob};
use crate::verify::FireVerifier;
use crate::{ConnectionState, WebSocketTransport};

/// Time that cancelled runs get to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What starts due jobs.
#[derive(Clone, Debug)]
pub enum Trigger {
    /// A loop in this process.
    Ticker,
    /// The portal, replaced by the ticker while it is not usable.
    Chronos(Chronos),
    /// Nothing: jobs are stored and do not run.
    Off,
}

/// What starts due jobs at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CronState {
    /// Not started, switched off, or stopped.
    Off,
    /// The portal has not been asked yet.
    Asking,
    /// The loop in this process.
    Ticking,
    /// The portal, whose arms match the jobs.
    Managed,
    /// The loop in this process, permanently: the portal does not serve this identity.
    Refused,
}

/// An agent's cron. Clones are handles to the same one.
#[derive(Clone)]
pub struct Cron(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub store: Arc<dyn JobStore>,
    pub store_settings: JobStoreSettings,
    pub owner: String,
    pub trigger: Trigger,
    pub verifier: Option<Arc<dyn FireVerifier>>,
    pub on_job: OnJob,
    /// One permit per run, if the number of runs is limited.
    pub places: Option<Arc<Semaphore>>,
    pub runs: TaskTracker,
    /// No more fires are accepted.
    pub closing: CancellationToken,
    /// Running jobs are cancelled.
    pub cut: CancellationToken,
    pub state: watch::Sender<CronState>,
    pub known_arms: Mutex<KnownArms>,
    /// Number of requests for a round so far.
    pub requests: AtomicU64,
    /// Number of requests that the latest round has covered, and whether it succeeded.
    pub rounds: watch::Sender<(u64, bool)>,
    pub changed: Notify,
    pub stirred: Notify,
    grace: Duration,
    started: AtomicBool,
}

/// Builder for [`Cron`].
pub struct CronBuilder {
    store: Arc<dyn JobStore>,
    store_settings: JobStoreSettings,
    owner: String,
    trigger: Trigger,
    verifier: Option<Arc<dyn FireVerifier>>,
    at_most: Option<usize>,
    grace: Duration,
}

impl Cron {
    /// Uses `store`, with the settings that it was opened with.
    pub fn builder(store: impl JobStore + 'static, store_settings: JobStoreSettings) -> CronBuilder {
        Self::over(Arc::new(store), store_settings)
    }

    /// Like [`builder`](Self::builder), for a shared store.
    pub fn over(store: Arc<dyn JobStore>, store_settings: JobStoreSettings) -> CronBuilder {
        CronBuilder {
            store,
            store_settings,
            owner: owner(),
            trigger: Trigger::Ticker,
            verifier: None,
            at_most: None,
            grace: Duration::from_secs(20),
        }
    }

    /// Starts running jobs and returns at once. Further calls have no effect.
    pub fn start(&self) {
        if self.0.started.swap(true, Ordering::AcqRel) || self.0.closing.is_cancelled() {
            return;
        }
        let cron = self.clone();
        match &self.0.trigger {
            Trigger::Off => {}
            Trigger::Ticker => {
                self.0.state.send_replace(CronState::Ticking);
                let stop = self.0.closing.clone();
                self.0.runs.spawn(async move { ticker::tick(&cron, &stop).await });
            }
            Trigger::Chronos(chronos) => {
                self.0.state.send_replace(CronState::Asking);
                let chronos = chronos.clone();
                self.0.runs.spawn(async move { provider::manage(&cron, &chronos).await });
            }
        }
    }

    /// Accepts no more fires, lets runs finish during the grace period, and marks the others as
    /// interrupted.
    pub async fn stop(&self) {
        self.0.closing.cancel();
        self.0.runs.close();
        if self.0.store_settings.timepiece.within(self.0.grace, self.0.runs.wait()).await.is_err() {
            tracing::warn!("stopping while {} runs are still in progress", self.0.runs.len());
            self.0.cut.cancel();
            let _ = tokio::time::timeout(FAREWELL, self.0.runs.wait()).await;
        }
        self.0.state.send_replace(CronState::Off);
    }

    pub fn state(&self) -> CronState {
        *self.0.state.borrow()
    }

    /// Returns when the state satisfies `wanted`.
    pub async fn until(&self, wanted: impl Fn(CronState) -> bool) -> CronState {
        let mut state = self.0.state.subscribe();
        let seen = state.wait_for(|state| wanted(*state)).await;
        *seen.expect("this handle holds the sender")
    }

    /// The job store. After a change made directly in it, call [`reconcile`](Self::reconcile).
    pub fn store(&self) -> &Arc<dyn JobStore> {
        &self.0.store
    }

    pub async fn create(&self, request: NewJob) -> Result<Job, Fault> {
        let created = self.0.store.create(request).await?;
        self.ask();
        Ok(created)
    }

    pub async fn update(&self, job: &JobId, change: JobChange) -> Result<Option<Job>, Fault> {
        let changed = self.0.store.update(job, change).await?;
        self.ask();
        Ok(changed)
    }

    pub async fn pause(&self, job: &JobId, reason: Option<&str>) -> Result<Option<Job>, Fault> {
        let paused = self.0.store.pause(job, reason).await?;
        self.ask();
        Ok(paused)
    }

    pub async fn resume(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        let resumed = self.0.store.resume(job).await?;
        self.ask();
        Ok(resumed)
    }

    pub async fn remove(&self, job: &JobId) -> Result<bool, Fault> {
        let removed = self.0.store.remove(job).await?;
        self.ask();
        Ok(removed)
    }

    /// Runs the job at once, through the trigger.
    pub async fn run_now(&self, job: &JobId) -> Result<Option<Job>, Fault> {
        let hurried = self.0.store.run_now(job).await?;
        self.ask();
        Ok(hurried)
    }

    /// Makes the portal's arms match the jobs, and returns whether that succeeded. The methods above
    /// request this themselves without waiting for it. An agent that is about to go idle should wait for
    /// it.
    pub async fn reconcile(&self) -> bool {
        if !matches!(self.0.trigger, Trigger::Chronos(_)) || !self.0.started.load(Ordering::Acquire) {
            return false;
        }
        let mut rounds = self.0.rounds.subscribe();
        let mine = self.ask();
        let over = self.until(|state| matches!(state, CronState::Refused | CronState::Off));
        tokio::select! {
            biased;
            round = rounds.wait_for(|(seen, _)| *seen >= mine) => round.is_ok_and(|round| round.1),
            _ = over => false,
        }
    }

    /// After a sleep: asks the portal again for its arms, because it may have dropped them, and reconciles.
    pub fn wake(&self) {
        self.0.known_arms.lock().forget_all();
        self.ask();
    }

    /// Calls [`wake`](Self::wake) whenever this connection comes up again, for as long as both exist.
    pub fn follow(&self, transport: &WebSocketTransport) {
        let (cron, transport) = (self.clone(), transport.clone());
        self.0.runs.spawn(async move {
            let following = async {
                loop {
                    transport.until(|state| state == ConnectionState::Live).await;
                    cron.wake();
                    transport.until(|state| state != ConnectionState::Live).await;
                }
            };
            tokio::select! {
                () = cron.0.closing.cancelled() => {}
                () = following => {}
            }
        });
    }

    /// Requests a round that covers all changes so far, and returns the number of this request.
    pub(super) fn ask(&self) -> u64 {
        let mine = self.0.requests.fetch_add(1, Ordering::AcqRel) + 1;
        self.0.changed.notify_one();
        self.0.stirred.notify_one();
        mine
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cron")
            .field("owner", &self.0.owner)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl CronBuilder {
    /// Uses the trigger, verifier and limits that the configuration selects.
    pub fn configured(self, config: &Config) -> Self {
        let choice = config.choose(&self.store_settings.timepiece);
        Self { trigger: choice.trigger, verifier: choice.verifier, at_most: config.max_parallel_jobs, ..self }
    }

    /// Sets the trigger. Default: the ticker.
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.trigger = trigger;
        self
    }

    /// Sets the verifier of fires that arrive by HTTP. Without one, all of them are refused.
    pub fn verifier(mut self, verifier: Arc<dyn FireVerifier>) -> Self {
        self.verifier = Some(verifier);
        self
    }

    /// Sets the name used in claims. Default: `HERMES_MACHINE_ID`, or host and process.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = owner.into();
        self
    }

    /// Sets the limit of parallel runs. Default: unlimited.
    pub fn max_parallel(mut self, runs: usize) -> Self {
        self.at_most = Some(runs);
        self
    }

    /// Sets the time that runs get to finish after [`Cron::stop`]. Default: 20 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the function that runs a job. An error is stored with the job, and the job goes on. The
    /// function is cancelled at its current await point if the claim is lost.
    pub fn on_job<F, T, E>(self, on_job: F) -> Cron
    where
        F: Fn(Run) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display,
    {
        let on_job: OnJob = Arc::new(move |run| {
            let work = on_job(run);
            Box::pin(async move { work.await.map_err(|error| error.to_string()) })
        });
        Cron(Arc::new(Inner {
            store: self.store,
            store_settings: self.store_settings,
            owner: self.owner,
            trigger: self.trigger,
            verifier: self.verifier,
            on_job,
            places: self.at_most.map(|runs| Arc::new(Semaphore::new(runs.max(1)))),
            runs: TaskTracker::new(),
            closing: CancellationToken::new(),
            cut: CancellationToken::new(),
            state: watch::Sender::new(CronState::Off),
            known_arms: Mutex::default(),
            requests: AtomicU64::new(0),
            rounds: watch::Sender::new((0, false)),
            changed: Notify::new(),
            stirred: Notify::new(),
            grace: self.grace,
            started: AtomicBool::new(false),
        }))
    }
}

fn owner() -> String {
    let named = std::env::var("HERMES_MACHINE_ID").ok().filter(|name| !name.trim().is_empty());
    named.unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "localhost" } else { host.trim() };
        format!("{host}:{}", std::process::id())
    })
}

#[async_trait]
impl JobRunner for Cron {
    fn start(&self) {
        self.start();
    }

    async fn stop(&self) {
        self.stop().await;
    }

    async fn fired(&self, fire: FireBody) -> (u16, Fired) {
        self.fired(fire).await
    }
}
