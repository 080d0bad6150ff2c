//! How an agent wants to be called by the portal.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use posthouse_wire::cron::Proof;
use posthouse_wire::{JobId, Secret};

use super::Portal;
use crate::verify::JobKeys;

/// A portal, and how it shall bring fires to us.
#[derive(Clone)]
pub struct Chronos {
    pub(super) portal: Portal,
    /// Nothing: down the agent's socket.
    pub(super) callback: Option<String>,
    pub(super) proof: Proof,
    pub(super) keys: HandedKeys,
}

impl Chronos {
    /// Fires come to `{url}/api/cron/fire`.
    pub fn by_callback(portal: Portal, url: impl Into<String>) -> Self {
        Self { portal, callback: Some(url.into()), proof: Proof::default(), keys: HandedKeys::default() }
    }

    /// Fires come down the agent's own line, which has to say that it takes them
    /// ([`Settings::taking_fires`](crate::Settings::taking_fires)).
    pub fn by_socket(portal: Portal) -> Self {
        Self { portal, callback: None, proof: Proof::default(), keys: HandedKeys::default() }
    }

    /// Fires prove themselves by a key of their job. Verify with [`PerJobKey`](crate::verify::PerJobKey)
    /// over these [`keys`](Self::keys).
    pub fn with_keys_per_job(mut self) -> Self {
        self.proof = Proof::PerJobKey;
        self
    }

    /// The keys that the portal hands out as jobs are armed.
    pub fn keys(&self) -> HandedKeys {
        self.keys.clone()
    }
}

/// Names the way, never the credential.
impl fmt::Debug for Chronos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chronos")
            .field("callback", &self.callback)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}

/// The keys of jobs that were armed by this process. They are not kept: the portal hands the same ones out
/// again when the next process arms its jobs, and until then tries again what was refused.
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
