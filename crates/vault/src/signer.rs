//! The house's own keys: signs fire tokens, publishes what checks them, derives per-job keys, and knows
//! what an outside scheduler signs with. No private key ever comes out.

mod keep;
mod pair;
mod scheduler;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ledger::{HouseKey, HouseKeyKind, VaultRecords};
use parking_lot::RwLock;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{DispatchId, InstanceId, JobId, Secret, TenantId};
use serde::Serialize;
use tokio::sync::Mutex;

use crate::seal::{Keys, random_hex};
use crate::{Fault, Vault};
use keep::Keep;
pub use pair::Algorithm;
pub use scheduler::SchedulerStanding;

/// How long a key is published before it signs: two lives of a stock agent's key cache, so that no agent
/// meets a token whose key it has not seen.
const PUBLISHED_BEFORE: Duration = Duration::from_secs(600);
/// How long a key stays published after its successor began to sign: the longest life of a token, and
/// five minutes for clocks that disagree.
const PUBLISHED_AFTER: Duration = Duration::from_secs(120 + 300);

/// What the clock may hold. Made once and cloned: all clones know of a rotation at once. Another node
/// learns of it by [`Signer::refresh`], for which it has the ten minutes before the new key signs.
#[derive(Clone)]
pub struct Signer(Arc<Bench>);

/// What all clones of a signer share.
struct Bench {
    records: Arc<dyn VaultRecords>,
    keys: Arc<Keys>,
    timepiece: Timepiece,
    algorithm: Algorithm,
    keep: RwLock<Keep>,
    /// One reads the records at a time, so that what was read earlier never replaces what was read later.
    reading: Mutex<()>,
}

/// The published keys, as they are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwks {
    pub json: Bytes,
    /// With its quotes, as the header wants it.
    pub etag: String,
}

/// What an operator may know of a signing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStanding {
    pub kid: String,
    pub algorithm: Algorithm,
    pub created: Moment,
    pub signs_from: Moment,
    /// Nothing for the newest.
    pub published_until: Option<Moment>,
    /// Whether it is the one that signs now.
    pub signing: bool,
}

impl Vault {
    /// The house's own keys. The first ones are made here if there are none; the first signing key, by
    /// `algorithm`, signs at once, since nobody holds an older set. Later ones come by
    /// [`Signer::rotate`], so another algorithm in the configuration waits for that.
    pub async fn signer(&self, algorithm: Algorithm) -> Result<Signer, Fault> {
        let (records, keys, now) = (&*self.records, &self.keys, self.timepiece.now());
        if records.house_keys(HouseKeyKind::Signing).await?.is_empty() {
            records.begin_house_keys(new_pair(keys, algorithm, now, now).await?).await?;
        }
        if records.house_keys(HouseKeyKind::CronMaster).await?.is_empty() {
            let master = new_secret(keys, HouseKeyKind::CronMaster, now, &random_hex(32)?)?;
            records.begin_house_keys(master).await?;
        }
        let keep = RwLock::new(Keep::read(records, keys, now).await?);
        let (records, keys, timepiece) =
            (Arc::clone(&self.records), Arc::clone(&self.keys), self.timepiece.clone());
        let reading = Mutex::default();
        Ok(Signer(Arc::new(Bench { records, keys, timepiece, algorithm, keep, reading })))
    }
}

impl Signer {
    /// `claims` as a compact token under the key that is in force now.
    pub fn sign<C: Serialize>(&self, claims: &C) -> Result<Secret, Fault> {
        let claims = serde_json::to_vec(claims).map_err(|_| Fault::Unsigned("the claims are no JSON"))?;
        // Cloned out, so that nobody waits behind a slow RSA signature.
        let pair = self.0.keep.read().in_force(self.0.timepiece.now());
        pair.ok_or(Fault::Unsigned("the house has no key"))?.sign(&claims)
    }

    /// The published keys, from memory. Those whose end has come drop out by the clock alone.
    pub fn jwks(&self) -> Arc<Jwks> {
        let now = self.0.timepiece.now();
        if let Some(jwks) = self.0.keep.read().jwks_at(now) {
            return jwks;
        }
        self.0.keep.write().publish(now)
    }

    /// Makes a new signing key, of the configured algorithm if none is named. It is published now and
    /// signs in ten minutes; `at_once` is for an emergency, when agents must fetch it on meeting it.
    pub async fn rotate(&self, algorithm: Option<Algorithm>, at_once: bool) -> Result<KeyStanding, Fault> {
        let now = self.0.timepiece.now();
        let signs_from = if at_once { now } else { now + PUBLISHED_BEFORE };
        let key = new_pair(&self.0.keys, algorithm.unwrap_or(self.0.algorithm), now, signs_from).await?;
        let kid = key.name.clone();
        self.0.records.succeed_house_key(key, signs_from + PUBLISHED_AFTER).await?;
        let standing = self.keys().await?.into_iter().find(|key| key.kid == kid);
        standing.ok_or(Fault::Unsigned("the new key is gone"))
    }

    /// The signing keys, newest first.
    pub async fn keys(&self) -> Result<Vec<KeyStanding>, Fault> {
        self.refresh().await?;
        Ok(self.0.keep.read().standings(self.0.timepiece.now()))
    }

    /// Reads the records again, for what another node changed, and forgets what has ended.
    pub async fn refresh(&self) -> Result<(), Fault> {
        let _alone = self.0.reading.lock().await;
        let keep = Keep::read(&*self.0.records, &self.0.keys, self.0.timepiece.now()).await?;
        *self.0.keep.write() = keep;
        Ok(())
    }

    /// The key that an agent checks the fires of one job by, where it asked for one. The same job has the
    /// same key always; keys of different jobs or agents tell nothing of one another.
    pub fn cron_key(&self, instance: &InstanceId, job: &JobId) -> Secret {
        self.0.keep.read().cron_key(instance, job)
    }

    /// What an answer to one question is known by. It follows from the question, so that nobody need keep it
    /// for the day the question is put once more.
    pub(crate) fn reply_token(&self, tenant: &TenantId, question: &DispatchId) -> Secret {
        self.0.keep.read().derived(["reply token", tenant.as_str(), question.as_str()])
    }
}

async fn new_pair(
    keys: &Keys,
    algorithm: Algorithm,
    now: Moment,
    signs_from: Moment,
) -> Result<HouseKey, Fault> {
    let plain = pair::fresh(algorithm).await?;
    let key = new_key(keys, HouseKeyKind::Signing, algorithm.name(), now, &plain)?;
    Ok(HouseKey { starts: signs_from, ..key })
}

fn new_secret(keys: &Keys, kind: HouseKeyKind, now: Moment, secret: &Secret) -> Result<HouseKey, Fault> {
    new_key(keys, kind, "HS256", now, secret.expose().as_bytes())
}

fn new_key(
    keys: &Keys,
    kind: HouseKeyKind,
    algorithm: &str,
    now: Moment,
    plain: &[u8],
) -> Result<HouseKey, Fault> {
    let name = random_hex(8)?.expose().to_owned();
    let sealed = keys.seal(&context(kind, &name), plain)?;
    Ok(HouseKey {
        kind,
        name,
        algorithm: algorithm.to_owned(),
        created: now,
        starts: now,
        ends: None,
        sealed,
    })
}

fn context(kind: HouseKeyKind, name: &str) -> String {
    format!("house/{}/{name}", kind.word())
}

#[cfg(test)]
mod tests;
