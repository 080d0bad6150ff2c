//! Verifier with one key per job, returned when the job was armed, for fires without a token.

use async_trait::async_trait;
use http::HeaderMap;
use posthouse_time::Timepiece;
use posthouse_wire::cron::{CRON_KEY, FireBody, FireProof, TimedSignature, cron_key_message};
use posthouse_wire::{JobId, Secret};

use super::{FireVerifier, VerifiedFire};

/// Storage of the keys that the portal returned.
#[async_trait]
pub trait JobKeys: Send + Sync {
    /// `None` for a job without a key.
    async fn key(&self, job: &JobId) -> Option<Secret>;
}

#[async_trait]
impl<F: Fn(&JobId) -> Option<Secret> + Send + Sync> JobKeys for F {
    async fn key(&self, job: &JobId) -> Option<Secret> {
        self(job)
    }
}

/// Checks the signature over job and time. Within its five minutes a fire can be replayed. That is
/// harmless, because the claim on that job and time decides whether it runs.
pub struct PerJobKey<K> {
    keys: K,
    timepiece: Timepiece,
}

impl<K: JobKeys> PerJobKey<K> {
    pub fn new(keys: K, timepiece: Timepiece) -> Self {
        Self { keys, timepiece }
    }
}

#[async_trait]
impl<K: JobKeys> FireVerifier for PerJobKey<K> {
    async fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Option<VerifiedFire> {
        let stamp = TimedSignature::read(headers.get(CRON_KEY)?.to_str().ok()?)?;
        // The body is parsed first, because it names the key. Without a time nothing was signed.
        let body: FireBody = serde_json::from_slice(body).ok()?;
        let fire_at = body.fire_at?;
        // A job without a key costs the same work as a wrong signature. An empty key counts as none.
        let key = self.keys.key(&body.job_id).await.filter(|key| !key.is_empty());
        let (known, key) = (key.is_some(), key.unwrap_or_else(|| Secret::new("none")));
        let message = cron_key_message(&body.job_id, &fire_at);
        let digest = stamp.verify([&key], &message, self.timepiece.now().seconds());
        digest.filter(|_| known)?;
        Some(VerifiedFire {
            proof: FireProof::PerJobKey,
            schedule: None,
            attempt: None,
            job: Some(body.job_id.as_str().into()),
            fire_at: Some(fire_at.text().into()),
        })
    }
}
