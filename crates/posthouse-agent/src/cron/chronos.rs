//! Configuration of managed cron: the portal, and the way in which it delivers fires.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use posthouse_wire::cron::FireProof;
use posthouse_wire::{JobId, Secret};

use super::Portal;
use crate::verify::JobKeys;

/// A portal, and the way in which it delivers fires to this agent.
#[derive(Clone)]
pub struct Chronos {
    pub(super) portal: Portal,
    /// `None`: over the agent's socket.
    pub(super) callback: Option<String>,
    pub(super) proof: FireProof,
    pub(super) keys: HandedKeys,
}

impl Chronos {
    /// Fires are sent to `{url}/api/cron/fire`.
    pub fn by_callback(portal: Portal, url: impl Into<String>) -> Self {
        Self { portal, callback: Some(url.into()), proof: FireProof::default(), keys: HandedKeys::default() }
    }

    /// Fires arrive on the agent's own relay connection, which must announce that it accepts them
    /// ([`Settings::taking_fires`](crate::Settings::taking_fires)).
    pub fn by_socket(portal: Portal) -> Self {
        Self { portal, callback: None, proof: FireProof::default(), keys: HandedKeys::default() }
    }

    /// Fires are signed with a key per job. Verify them with [`PerJobKey`](crate::verify::PerJobKey) over
    /// these [`keys`](Self::keys).
    pub fn with_keys_per_job(mut self) -> Self {
        self.proof = FireProof::PerJobKey;
        self
    }

    /// The keys that the portal returns when jobs are armed.
    pub fn keys(&self) -> HandedKeys {
        self.keys.clone()
    }
}

/// Shows the way of delivery, never the credential.
impl fmt::Debug for Chronos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chronos")
            .field("callback", &self.callback)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}

/// Keys of the jobs that this process has armed. They are not stored: the portal returns the same keys when
/// the next process arms its jobs, and until then it repeats refused fires.
#[derive(Clone, Default)]
pub struct HandedKeys(Arc<Mutex<HashMap<JobId, Secret>>>);

impl HandedKeys {
    pub(super) fn keep(&self, job: &JobId, key: Secret) {
        self.0.lock().insert(job.clone(), key);
    }

    pub(super) fn holds(&self, job: &JobId) -> bool {
        self.0.lock().contains_key(job)
    }

    pub(super) fn forget(&self, job: &JobId) {
        self.0.lock().remove(job);
    }
}

#[async_trait]
impl JobKeys for HandedKeys {
    async fn key(&self, job: &JobId) -> Option<Secret> {
        self.0.lock().get(job).cloned()
    }
}
