//! Verification of cron fires: checks that a fire comes from the portal, before anything in it is used.
//!
//! A [`FireVerifier`] returns what the proof says, or `None`. It never says which check failed, so that a
//! caller with a wrong proof learns nothing. [`verifier`] chooses by the configuration: the URL of a key
//! set, or a public key itself.
//!
//! [`check_claims`] checks the claims of a token, without network or clock. It accepts nothing that a stock agent
//! would refuse.

mod claims;
mod fetch;
mod per_job;
mod pinned;
mod portal;

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, header};
use posthouse_time::Timepiece;
use posthouse_wire::cron::{FireAt, FireProof};
use posthouse_wire::{JobId, ScheduleId};
use serde_json::Value;

pub use claims::{Claims, check_claims};
pub use per_job::{JobKeys, PerJobKey};
pub use pinned::PinnedKey;
pub use portal::PortalJwt;
pub use posthouse_wire::jwt::{BadKey, KeySet};

/// Decides whether a fire is genuine.
#[async_trait]
pub trait FireVerifier: Send + Sync {
    /// The verified content of the proof for these headers and this body. `None` for any wrong proof.
    async fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Option<VerifiedFire>;
}

/// A genuine fire, with the content of its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedFire {
    pub proof: FireProof,
    pub schedule: Option<ScheduleId>,
    /// The id of this one attempt.
    pub attempt: Option<String>,
    job: Option<Value>,
    fire_at: Option<Value>,
}

impl VerifiedFire {
    /// Whether the proof is for this fire. A verifier has already checked every body that it could parse. A
    /// caller with a more tolerant parser checks again.
    pub fn is_for(&self, job: &JobId, fire_at: Option<&FireAt>) -> bool {
        self.is_for_texts(job.as_str(), fire_at.map(FireAt::text))
    }

    /// A proof that names no job or no time leaves that open, as a stock portal's does. A proof that names
    /// them is valid only for them, and not for a body without a time.
    fn is_for_texts(&self, job: &str, fire_at: Option<&str>) -> bool {
        let job = self.job.as_ref().is_none_or(|bound| bound.as_str() == Some(job));
        let time = self.fire_at.as_ref().is_none_or(|bound| fire_at.is_some() && bound.as_str() == fire_at);
        job && time
    }

    fn by_token(claims: Claims) -> Self {
        Self {
            proof: FireProof::PortalJwt,
            schedule: claims.text("schedule_id").map(ScheduleId::from),
            attempt: claims.text("jti").map(str::to_owned),
            job: claims.get("job_id").cloned(),
            fire_at: claims.get("fire_at").cloned(),
        }
    }

    /// Refuses a body that this proof is not for. A body that cannot be parsed or names no job runs
    /// nothing; the caller reports it.
    fn bound_to(self, body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(job) = body["job_id"].as_str() else { return Some(self) };
        self.is_for_texts(job, body["fire_at"].as_str()).then_some(self)
    }
}

/// Expected claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// `agent:{instance}`. An empty audience refuses everything.
    pub audience: String,
    /// The portal's URL, byte for byte. `None` disables the check.
    pub issuer: Option<String>,
}

/// The verifier for a configured key source: the URL of a key set, otherwise a public key in PEM.
pub fn verifier(
    key_source: &str,
    expected: Expected,
    timepiece: Timepiece,
) -> Result<Arc<dyn FireVerifier>, BadKey> {
    if key_source.starts_with("http://") || key_source.starts_with("https://") {
        return Ok(Arc::new(PortalJwt::new(key_source, expected, timepiece)));
    }
    Ok(Arc::new(PinnedKey::new(key_source, expected, timepiece)?))
}

/// The token of a request. The scheme is matched as stock matches it.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    Some(value.strip_prefix("Bearer ")?.trim())
}

#[cfg(test)]
mod tests;
