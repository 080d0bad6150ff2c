//! Signing keys in memory: decrypted once, and the published key set.

use std::sync::Arc;

use aws_lc_rs::{digest, hmac};
use bytes::Bytes;
use ledger::{ServerKey, ServerKeyKind, VaultRecords};
use posthouse_time::{Instant, Moment, Timepiece};
use posthouse_wire::{InstanceId, JobId, Secret};
use serde_json::json;

use super::key_pair::SigningKeyPair;
use super::{Algorithm, Jwks, SigningKeyStatus, context};
use crate::Fault;
use crate::seal::MasterKeys;

pub(super) struct LoadedKeys {
    /// Oldest first.
    signing: Vec<Signing>,
    master: hmac::Key,
    pub(super) scheduler: Vec<SchedulerSecret>,
    published: Published,
}

struct Signing {
    record: ServerKey,
    algorithm: Algorithm,
    pair: Arc<SigningKeyPair>,
}

/// A secret with which an external scheduler signs.
pub(super) struct SchedulerSecret {
    pub(super) record: ServerKey,
    pub(super) secret: Secret,
    /// The same end on the monotonic clock, in case the wall clock is set back.
    ends_at: Option<Instant>,
}

impl SchedulerSecret {
    pub(super) fn is_good(&self, timepiece: &Timepiece) -> bool {
        self.record.ends.is_none_or(|end| end > timepiece.now())
            && self.ends_at.is_none_or(|end| end > timepiece.instant())
    }
}

/// The key set as last built, and the time when the next key drops out of it.
#[derive(Default)]
struct Published {
    jwks: Option<Arc<Jwks>>,
    until: Option<Moment>,
}

impl LoadedKeys {
    pub(super) async fn read(
        records: &dyn VaultRecords,
        keys: &MasterKeys,
        timepiece: &Timepiece,
    ) -> Result<Self, Fault> {
        let now = timepiece.now();
        let open = |record: &ServerKey| keys.open(&context(record.kind, &record.name), &record.sealed);
        let mut signing = Vec::new();
        for record in living(records, ServerKeyKind::Signing, now).await? {
            let algorithm: Algorithm = record.algorithm.parse().map_err(|_| Fault::Broken)?;
            let pair = Arc::new(SigningKeyPair::read(algorithm, &record.name, &open(&record)?)?);
            signing.push(Signing { record, algorithm, pair });
        }
        let master = living(records, ServerKeyKind::CronMaster, now).await?;
        let master = master.first().ok_or(Fault::Unsigned("there is no master key"))?;
        let master = hmac::Key::new(hmac::HMAC_SHA256, &open(master)?);
        let mut scheduler = Vec::new();
        for record in living(records, ServerKeyKind::Scheduler, now).await? {
            let secret = keys.open_text(&context(record.kind, &record.name), &record.sealed)?;
            let ends_at = record.ends.map(|end| timepiece.instant() + end.since(now));
            scheduler.push(SchedulerSecret { record, secret, ends_at });
        }
        let mut loaded = Self { signing, master, scheduler, published: Published::default() };
        loaded.publish(now);
        Ok(loaded)
    }

    pub(super) fn in_force(&self, now: Moment) -> Option<Arc<SigningKeyPair>> {
        self.signing_at(now).map(|key| Arc::clone(&key.pair))
    }

    /// The newest key whose start time has passed. The order of creation decides, not the start time: an emergency
    /// key overtakes one that still waits for its start. If the wall clock was set back before all start times, it is
    /// the oldest key, which every agent has seen.
    fn signing_at(&self, now: Moment) -> Option<&Signing> {
        self.signing.iter().rev().find(|key| key.record.starts <= now).or(self.signing.first())
    }

    pub(super) fn jwks_at(&self, now: Moment) -> Option<Arc<Jwks>> {
        let good = self.published.until.is_none_or(|until| now < until);
        self.published.jwks.clone().filter(|_| good)
    }

    /// Rebuilds the key set. It includes keys that do not sign yet, so that agents know them in time.
    pub(super) fn publish(&mut self, now: Moment) -> Arc<Jwks> {
        let published = || self.signing.iter().filter(|key| key.record.ends.is_none_or(|end| end > now));
        let until = published().filter_map(|key| key.record.ends).min();
        let keys: Vec<_> = published().rev().map(|key| &key.pair.jwk).collect();
        let json = json!({ "keys": keys }).to_string();
        let hash = digest::digest(&digest::SHA256, json.as_bytes());
        let etag = format!("\"{}\"", hex::encode(&hash.as_ref()[..16]));
        let jwks = Arc::new(Jwks { json: Bytes::from(json), etag });
        self.published = Published { jwks: Some(Arc::clone(&jwks)), until };
        jwks
    }

    pub(super) fn statuses(&self, now: Moment) -> Vec<SigningKeyStatus> {
        let in_force = self.signing_at(now).map(|key| &key.record.name);
        let newest_first = self.signing.iter().rev();
        newest_first
            .map(|key| SigningKeyStatus {
                kid: key.record.name.clone(),
                algorithm: key.algorithm,
                created: key.record.created,
                signs_from: key.record.starts,
                published_until: key.record.ends,
                signing: in_force == Some(&key.record.name),
            })
            .collect()
    }

    pub(super) fn cron_key(&self, instance: &InstanceId, job: &JobId) -> Secret {
        self.derived(["cron key", instance.as_str(), job.as_str()])
    }

    /// Derives a secret from the master key for a purpose and its names.
    pub(super) fn derived<const N: usize>(&self, parts: [&str; N]) -> Secret {
        let mut context = hmac::Context::with_key(&self.master);
        // No name contains a zero byte, so no two lists of the same length give the same input.
        for part in parts {
            context.update(part.as_bytes());
            context.update(&[0]);
        }
        Secret::new(hex::encode(context.sign()))
    }
}

/// Keys that have not ended. Ended keys are also deleted from the records, once they have ended by ledger time.
/// Nothing is written when there are none.
async fn living(
    records: &dyn VaultRecords,
    kind: ServerKeyKind,
    now: Moment,
) -> Result<Vec<ServerKey>, Fault> {
    let mut keys = records.server_keys(kind).await?;
    let all = keys.len();
    keys.retain(|key| key.ends.is_none_or(|end| end > now));
    if keys.len() < all {
        records.forget_server_keys(kind).await?;
    }
    Ok(keys)
}
