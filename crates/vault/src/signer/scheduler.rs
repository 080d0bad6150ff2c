//! Secrets with which external schedulers sign their calls. Before a secret is issued, every such call is refused.

use std::time::Duration;

use ledger::ServerKeyKind;
use posthouse_time::Moment;
use posthouse_wire::Secret;
use posthouse_wire::cron::TimedSignature;

use super::{Signer, new_secret};
use crate::Fault;
use crate::seal::random_hex;

/// Time for which a replaced secret stays valid beside its successor.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// A scheduler secret as shown to an operator, without the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerSecretStatus {
    pub name: String,
    pub created: Moment,
    /// `None` for the newest secret.
    pub good_until: Option<Moment>,
}

impl Signer {
    /// Issues a new secret; older ones stay valid for a day. The secret is returned only here.
    pub async fn rotate_scheduler_secret(&self) -> Result<Secret, Fault> {
        let (now, secret) = (self.0.timepiece.now(), random_hex(32)?);
        let key = new_secret(&self.0.keys, ServerKeyKind::Scheduler, now, &secret)?;
        self.0.records.succeed_server_key(key, now + OVERLAP).await?;
        self.refresh().await?;
        Ok(secret)
    }

    /// Ends every secret now, so that every external call is refused. Returns false when there was none.
    pub async fn revoke_scheduler_secrets(&self) -> Result<bool, Fault> {
        let ended = self.0.records.end_server_keys(ServerKeyKind::Scheduler, self.0.timepiece.now()).await?;
        self.refresh().await?;
        Ok(ended)
    }

    /// The valid secrets, newest first, without their values.
    pub async fn scheduler_secrets(&self) -> Result<Vec<SchedulerSecretStatus>, Fault> {
        self.refresh().await?;
        let loaded = self.0.loaded.read();
        let statuses = loaded.scheduler.iter().rev().map(|key| SchedulerSecretStatus {
            name: key.record.name.clone(),
            created: key.record.created,
            good_until: key.record.ends,
        });
        Ok(statuses.collect())
    }

    /// Checks the signature of a scheduler over `message`. Returns the digest if it is valid. The caller must remember
    /// digests to refuse replays.
    pub fn check_signature(&self, stamp: &TimedSignature, message: &[u8]) -> Option<[u8; 32]> {
        let now = self.0.timepiece.now();
        let loaded = self.0.loaded.read();
        let good = loaded.scheduler.iter().filter(|key| key.is_good(&self.0.timepiece));
        stamp.verify(good.map(|key| &key.secret), message, now.seconds())
    }
}
