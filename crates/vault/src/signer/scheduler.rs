//! What an outside scheduler signs its calls with. Until a secret is issued nothing from outside counts.

use std::time::Duration;

use ledger::HouseKeyKind;
use posthouse_time::Moment;
use posthouse_wire::Secret;
use posthouse_wire::cron::Stamp;

use super::{Signer, new_secret};
use crate::Fault;
use crate::seal::random_hex;

/// How long a replaced secret stays good beside its successor.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// What an operator may know of a scheduler's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerStanding {
    pub name: String,
    pub created: Moment,
    /// Nothing for the newest.
    pub good_until: Option<Moment>,
}

impl Signer {
    /// Issues a new secret; older ones stay good for a day. This is the one time it is seen.
    pub async fn rotate_scheduler_secret(&self) -> Result<Secret, Fault> {
        let (now, secret) = (self.0.timepiece.now(), random_hex(32)?);
        let key = new_secret(&self.0.keys, HouseKeyKind::Scheduler, now, &secret)?;
        self.0.records.succeed_house_key(key, now + OVERLAP).await?;
        self.refresh().await?;
        Ok(secret)
    }

    /// Ends every secret now: nothing from outside counts any more. False when there was none.
    pub async fn revoke_scheduler_secrets(&self) -> Result<bool, Fault> {
        let ended = self.0.records.end_house_keys(HouseKeyKind::Scheduler, self.0.timepiece.now()).await?;
        self.refresh().await?;
        Ok(ended)
    }

    /// The secrets that are good, newest first, without what they are.
    pub async fn scheduler_secrets(&self) -> Result<Vec<SchedulerStanding>, Fault> {
        self.refresh().await?;
        let keep = self.0.keep.read();
        let standings = keep.scheduler.iter().rev().map(|outside| SchedulerStanding {
            name: outside.record.name.clone(),
            created: outside.record.created,
            good_until: outside.record.ends,
        });
        Ok(standings.collect())
    }

    /// The digest by which a scheduler that we know vouches for `message` just now. Whether that digest
    /// was used before is for the caller to remember.
    pub fn vouches(&self, stamp: &Stamp, message: &[u8]) -> Option<[u8; 32]> {
        let now = self.0.timepiece.now();
        let keep = self.0.keep.read();
        let good = keep.scheduler.iter().filter(|outside| outside.record.ends.is_none_or(|end| end > now));
        stamp.vouched(good.map(|outside| &outside.secret), message, now.seconds())
    }
}
