//! Job store in the stock agent's own file: `{home}/cron/jobs.json`.

mod batch;
mod document;
mod file;
mod lock;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use posthouse_wire::id::JobId;

use super::rules::RuleResult;
use super::verbs::Backend;
use super::{Fault, Job, JobStoreSettings, Tick};
use batch::Batch;
use file::JobFile;

/// Job store that a stock agent can read and write at the same time. It uses the same file, the same lock
/// and the same way of writing (a temporary file, flushed, renamed over the old one).
#[derive(Clone)]
pub struct JsonFile {
    store_settings: JobStoreSettings,
    file: Arc<JobFile>,
    batch: Arc<Batch>,
}

impl JsonFile {
    /// Opens the store of the agent with this home folder. Missing files are created, readable by their
    /// owner only.
    pub fn open(home: impl AsRef<Path>, store_settings: JobStoreSettings) -> Result<Self, Fault> {
        let file = Arc::new(JobFile::open(&home.as_ref().join("cron"), store_settings.clone())?);
        Ok(Self { store_settings, batch: Arc::new(Batch::new(Arc::clone(&file))), file })
    }

    /// Reading needs no lock, because the file is replaced as a whole.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&document::Document) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let file = Arc::clone(&self.file);
        blocking(move || Ok(look(&*file.current()?))).await
    }
}

impl Backend for JsonFile {
    fn store_settings(&self) -> &JobStoreSettings {
        &self.store_settings
    }

    async fn insert(&self, job: Job) -> Result<(), Fault> {
        self.batch.run(move |document| document.add(&job)).await
    }

    async fn one(&self, id: &JobId) -> Result<Option<Job>, Fault> {
        let id = id.clone();
        self.read(move |document| document.find(&id).map(|(_, job)| job.clone())).await
    }

    async fn all(&self) -> Result<Vec<Job>, Fault> {
        self.read(|document| document.jobs().map(|(_, job)| job.clone()).collect()).await
    }

    async fn edit<T, R>(&self, id: &JobId, rule: R) -> Result<Option<T>, Fault>
    where
        T: Send + 'static,
        R: Fn(&Job) -> RuleResult<T> + Send + Sync + 'static,
    {
        let (seen_by, id, rule) = (id.clone(), id.clone(), Arc::new(rule));
        // Most of many claimants lose. If the rule changes nothing, the recent content is enough to answer
        // it without waiting for the lock.
        let seen = Arc::clone(&rule);
        let glance = self.read(move |document| document.find(&seen_by).map(|(_, job)| seen(job))).await?;
        match glance {
            None => return Ok(None),
            Some(step) if step.change.changes_nothing() => return Ok(Some(step.answer)),
            Some(_) => {}
        }
        self.batch
            .run(move |document| {
                let (place, job) = document.find(&id)?;
                let step = rule(job);
                document.apply(place, step.change);
                Some(step.answer)
            })
            .await
    }

    async fn scan<T, R>(&self, rule: R) -> Result<Vec<T>, Fault>
    where
        T: Send + 'static,
        R: Fn(&Job) -> RuleResult<Option<T>> + Send + Sync + 'static,
    {
        self.batch
            .run(move |document| {
                let steps: Vec<_> = document.jobs().map(|(place, job)| (place, rule(job))).collect();
                let mut answers = Vec::new();
                // From the end, so that a removal does not shift positions that are still to come.
                for (place, step) in steps.into_iter().rev() {
                    document.apply(place, step.change);
                    answers.extend(step.answer);
                }
                answers.reverse();
                answers
            })
            .await
    }

    async fn tick(&self) -> Result<Option<Tick>, Fault> {
        let file = Arc::clone(&self.file);
        blocking(move || file.tick()).await
    }
}

impl fmt::Debug for JsonFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonFile").field("file", &self.file.path()).finish_non_exhaustive()
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|ended| Fault::Io(ended.to_string()))?
}
