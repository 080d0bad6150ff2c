//! A key for every job, handed out when the job was armed, for calls that carry no token.

use async_trait::async_trait;
use http::HeaderMap;
use posthouse_time::Timepiece;
use posthouse_wire::cron::{CRON_KEY, FireBody, Proof, Stamp, cron_key_message};
use posthouse_wire::{JobId, Secret};

use super::{FireVerifier, Verified};

/// Where the keys lie that the portal handed out.
#[async_trait]
pub trait JobKeys: Send + Sync {
    /// Nothing for a job that has none.
    async fn key(&self, job: &JobId) -> Option<Secret>;
}

#[async_trait]
impl<F: Fn(&JobId) -> Option<Secret> + Send + Sync> JobKeys for F {
    async fn key(&self, job: &JobId) -> Option<Secret> {
        self(job)
    }
}

/// Checks the stamp over job and time. Inside of a stamp's five minutes a fire can be played again, which
/// is harmless: whether it runs is decided by the claim on that job and time.
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
    async fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Option<Verified> {
        let stamp = Stamp::read(headers.get(CRON_KEY)?.to_str().ok()?)?;
        // Here the body is read first, since it names the key; without a time nothing was signed.
        let body: FireBody = serde_json::from_slice(body).ok()?;
        let fire_at = body.fire_at?;
        // A job without a key costs the same work as one with a wrong stamp. An empty key is none.
        let key = self.keys.key(&body.job_id).await.filter(|key| !key.is_empty());
        let (known, key) = (key.is_some(), key.unwrap_or_else(|| Secret::new("none")));
        let message = cron_key_message(&body.job_id, &fire_at);
        let vouched = stamp.vouched([&key], &message, self.timepiece.now().seconds());
        vouched.filter(|_| known)?;
        Some(Verified {
            proof: Proof::PerJobKey,
            schedule: None,
            attempt: None,
            job: Some(body.job_id.as_str().into()),
            fire_at: Some(fire_at.text().into()),
        })
    }
}
