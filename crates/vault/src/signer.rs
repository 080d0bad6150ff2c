//! Signing keys of the server: fire tokens, the published key set (JWKS), per-job keys, scheduler secrets.
//!
//! No private key is ever returned.

mod key_pair;
mod loaded_keys;
mod scheduler;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ledger::{ServerKey, ServerKeyKind, VaultRecords};
use parking_lot::RwLock;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{DispatchId, InstanceId, JobId, Secret, TenantId};
use serde::Serialize;
use tokio::sync::Mutex;

use crate::seal::{MasterKeys, random_hex};
use crate::{Fault, Vault};
pub use key_pair::Algorithm;
use loaded_keys::LoadedKeys;
pub use scheduler::SchedulerSecretStatus;

/// Time for which a key is published before it signs: twice the lifetime of a stock agent's key cache, so that no
/// agent gets a token whose key it has not seen.
const PUBLISHED_BEFORE: Duration = Duration::from_secs(600);
/// Time for which a key stays published after its successor began to sign: the longest lifetime of a token, plus
/// five minutes of clock skew.
const PUBLISHED_AFTER: Duration = Duration::from_secs(120 + 300);

/// Signs with the server's keys. The clock's part of the vault. It is created once and cloned, so that all clones
/// see a rotation at once. Another node sees it through [`Signer::refresh`], within the ten minutes before the new
/// key signs.
#[derive(Clone)]
pub struct Signer(Arc<SignerState>);

/// State that all clones of a signer share.
struct SignerState {
    records: Arc<dyn VaultRecords>,
    keys: Arc<MasterKeys>,
    timepiece: Timepiece,
    algorithm: Algorithm,
    loaded: RwLock<LoadedKeys>,
    /// Held while reading the records, so that an earlier read never replaces a later one.
    reading: Mutex<()>,
}

/// The published keys (JSON Web Key Set), as they are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwks {
    pub json: Bytes,
    /// With quotes, as in the header.
    pub etag: String,
}

/// A signing key as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKeyStatus {
    pub kid: String,
    pub algorithm: Algorithm,
    pub created: Moment,
    pub signs_from: Moment,
    /// `None` for the newest key.
    pub published_until: Option<Moment>,
    /// Whether this key signs now.
    pub signing: bool,
}

impl Vault {
    /// Opens the server's own keys, and creates the first ones if there are none. The first signing key uses
    /// `algorithm` and signs at once, because nobody holds an older key set. Later keys come from
    /// [`Signer::rotate`], so a changed `algorithm` takes effect at the next rotation.
    pub async fn signer(&self, algorithm: Algorithm) -> Result<Signer, Fault> {
        let (records, keys, now) = (&*self.records, &self.keys, self.timepiece.now());
        if records.server_keys(ServerKeyKind::Signing).await?.is_empty() {
            records.begin_server_keys(new_pair(keys, algorithm, now, now).await?).await?;
        }
        if records.server_keys(ServerKeyKind::CronMaster).await?.is_empty() {
            let master = new_secret(keys, ServerKeyKind::CronMaster, now, &random_hex(32)?)?;
            records.begin_server_keys(master).await?;
        }
        let loaded = RwLock::new(LoadedKeys::read(records, keys, &self.timepiece).await?);
        let (records, keys, timepiece) =
            (Arc::clone(&self.records), Arc::clone(&self.keys), self.timepiece.clone());
        let reading = Mutex::default();
        Ok(Signer(Arc::new(SignerState { records, keys, timepiece, algorithm, loaded, reading })))
    }
}

impl Signer {
    /// Signs `claims` with the current key. Returns a compact JWT.
    pub fn sign<C: Serialize>(&self, claims: &C) -> Result<Secret, Fault> {
        let claims = serde_json::to_vec(claims)
            .map_err(|_| Fault::Unsigned("the claims cannot be written as JSON"))?;
        // The key is cloned out of the lock, so that nobody waits for a slow RSA signature.
        let pair = self.0.loaded.read().in_force(self.0.timepiece.now());
        pair.ok_or(Fault::Unsigned("there is no signing key"))?.sign(&claims)
    }

    /// The published keys, from memory. Expired keys drop out without a read of the records.
    pub fn jwks(&self) -> Arc<Jwks> {
        let now = self.0.timepiece.now();
        if let Some(jwks) = self.0.loaded.read().jwks_at(now) {
            return jwks;
        }
        self.0.loaded.write().publish(now)
    }

    /// Creates a new signing key, of the configured algorithm unless one is named. It is published now and signs in
    /// ten minutes. `at_once` is for emergencies: agents must then fetch the key when they first see it.
    pub async fn rotate(
        &self,
        algorithm: Option<Algorithm>,
        at_once: bool,
    ) -> Result<SigningKeyStatus, Fault> {
        let now = self.0.timepiece.now();
        let signs_from = if at_once { now } else { now + PUBLISHED_BEFORE };
        let key = new_pair(&self.0.keys, algorithm.unwrap_or(self.0.algorithm), now, signs_from).await?;
        let kid = key.name.clone();
        self.0.records.succeed_server_key(key, signs_from + PUBLISHED_AFTER).await?;
        let stored = self.keys().await?.into_iter().find(|key| key.kid == kid);
        stored.ok_or(Fault::Unsigned("the new key was deleted meanwhile"))
    }

    /// The signing keys, newest first.
    pub async fn keys(&self) -> Result<Vec<SigningKeyStatus>, Fault> {
        self.refresh().await?;
        Ok(self.0.loaded.read().statuses(self.0.timepiece.now()))
    }

    /// Reads the records again, for changes by another node, and drops keys that have ended.
    pub async fn refresh(&self) -> Result<(), Fault> {
        let _alone = self.0.reading.lock().await;
        let loaded = LoadedKeys::read(&*self.0.records, &self.0.keys, &self.0.timepiece).await?;
        *self.0.loaded.write() = loaded;
        Ok(())
    }

    /// The key with which an agent verifies the fires of one job, if it asked for one. A job always has the same key.
    /// Keys of different jobs or agents reveal nothing about each other.
    pub fn cron_key(&self, instance: &InstanceId, job: &JobId) -> Secret {
        self.0.loaded.read().cron_key(instance, job)
    }

    /// The token that identifies the answer to one question. It is derived from the question, so that it need not be
    /// stored for a retry of the question.
    pub(crate) fn reply_token(&self, tenant: &TenantId, question: &DispatchId) -> Secret {
        self.0.loaded.read().derived(["reply token", tenant.as_str(), question.as_str()])
    }
}

async fn new_pair(
    keys: &MasterKeys,
    algorithm: Algorithm,
    now: Moment,
    signs_from: Moment,
) -> Result<ServerKey, Fault> {
    let plain = key_pair::generate(algorithm).await?;
    let key = new_key(keys, ServerKeyKind::Signing, algorithm.name(), now, &plain)?;
    Ok(ServerKey { starts: signs_from, ..key })
}

fn new_secret(
    keys: &MasterKeys,
    kind: ServerKeyKind,
    now: Moment,
    secret: &Secret,
) -> Result<ServerKey, Fault> {
    new_key(keys, kind, "HS256", now, secret.expose().as_bytes())
}

fn new_key(
    keys: &MasterKeys,
    kind: ServerKeyKind,
    algorithm: &str,
    now: Moment,
    plain: &[u8],
) -> Result<ServerKey, Fault> {
    let name = random_hex(8)?.expose().to_owned();
    let sealed = keys.seal(&context(kind, &name), plain)?;
    Ok(ServerKey {
        kind,
        name,
        algorithm: algorithm.to_owned(),
        created: now,
        starts: now,
        ends: None,
        sealed,
    })
}

fn context(kind: ServerKeyKind, name: &str) -> String {
    format!("house/{}/{name}", kind.word())
}

#[cfg(test)]
mod tests;
