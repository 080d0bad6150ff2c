//! Arms under this node's lease: claiming them, recording what became of them, and giving them back.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, ArmKey, ArmResult, Arms};
use posthouse_time::Moment;

use crate::background::ClockTasks;
use crate::cancelled_during_claim::{CancelledDuringClaim, Claiming};
use crate::config::LEASE;
use crate::heap::Heap;
use crate::held::{HeldArms, Stage};
use crate::prewake::Prewake;
use crate::{Fault, retry};

/// Arms held at once. Further due arms stay in the heap.
const HELD: usize = 8192;
/// Pause before an attempt is repeated whose outcome was lost in a crash.
const ORPHAN_PAUSE: Duration = Duration::from_secs(1);
/// First and longest pause after a fault of the ledger.
const TROUBLE: Duration = Duration::from_secs(1);
const LONGEST_TROUBLE: Duration = Duration::from_secs(30);

/// The arms that this node holds, and may fire.
pub(crate) struct Leases {
    held: HeldArms,
    cancelled: CancelledDuringClaim,
    arms: Arc<dyn Arms>,
    heap: Arc<Heap>,
    prewake: Arc<Prewake>,
    /// Name of this node in leases.
    owner: String,
    background: ClockTasks,
}

impl Leases {
    pub fn new(
        arms: Arc<dyn Arms>,
        heap: Arc<Heap>,
        prewake: Arc<Prewake>,
        owner: String,
        background: ClockTasks,
    ) -> Self {
        let (held, cancelled) = (HeldArms::new(HELD), CancelledDuringClaim::default());
        Self { held, cancelled, arms, heap, prewake, owner, background }
    }

    /// After a start: frees the arms that the last process held.
    pub async fn take_over(&self) -> Result<(), Fault> {
        let now = self.background.timepiece.now();
        let freed = self.arms.free_orphans(&self.owner, now, ORPHAN_PAUSE).await?;
        if !freed.is_empty() {
            tracing::info!(arms = freed.len(), "took over arms whose last attempt has no recorded outcome");
        }
        self.arms.move_retries(now, retry::LONGEST).await?;
        Ok(())
    }

    /// Renews the leases of all held arms until shutdown. Arms that another node has taken over meanwhile are dropped.
    pub async fn renew_until_shutdown(&self) -> Result<(), Fault> {
        // The pause counts from the last renewal, however long the ledger took to store that one.
        let timepiece = &self.background.timepiece;
        let mut renewed = timepiece.instant();
        loop {
            tokio::select! {
                () = self.background.closing.cancelled() => return Ok(()),
                () = timepiece.sleep_until(renewed + LEASE / 3) => {}
            }
            renewed = timepiece.instant();
            let keys = self.held.claimed();
            if keys.is_empty() {
                continue;
            }
            match self.arms.renew(keys, &self.owner, self.until()).await {
                Ok(lost) => lost.into_iter().for_each(|lost| self.held.remove_waiting(lost)),
                Err(fault) => tracing::error!(%fault, "could not renew the leases of held arms"),
            }
        }
    }

    fn until(&self) -> Moment {
        self.background.timepiece.now() + LEASE
    }

    /// Number of arms that can still be held.
    pub fn room(&self) -> usize {
        self.held.room()
    }

    /// At most this many parked arms whose tenants have room now. The caller claims them.
    pub fn unpark(&self, at_most: usize) -> Vec<ArmKey> {
        self.held.unpark(at_most)
    }

    /// Announces a claim. Cancellations are noted until the result is dropped.
    pub fn claiming(&self) -> Claiming {
        self.cancelled.claiming()
    }

    /// Claims due arms, as far as their tenants have room. The others are parked.
    pub async fn claim_due(&self, keys: Vec<ArmKey>) -> Result<Vec<Arm>, ledger::Fault> {
        // Usually there is so much room that the tenants need not be read.
        let reserved = match self.held.reserve_for_any(&keys) {
            Some(reserved) => reserved,
            None => self.held.reserve(self.arms.tenants(keys).await?),
        };
        self.claim(reserved).await
    }

    /// Claims arms.
    pub async fn claim(&self, keys: Vec<ArmKey>) -> Result<Vec<Arm>, ledger::Fault> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.arms.claim(keys, &self.owner, self.until()).await
    }

    /// Holds a claimed arm, unless it was cancelled during the claim.
    pub fn hold(&self, arm: &Arm, stage: Stage) -> bool {
        self.held.insert(arm.key, &arm.tenant, stage);
        let is_ours = !self.cancelled.has(arm.key);
        if !is_ours {
            self.held.remove(arm.key);
        }
        is_ours
    }

    /// Frees the places of arms that their claim did not return.
    pub fn release(&self, keys: &[ArmKey]) {
        self.held.release(keys);
    }

    /// Called after the commit of a cancel or of a newer arm: no attempt of this arm begins from here on.
    pub fn drop_cancelled(&self, key: ArmKey) {
        self.cancelled.note(key);
        self.held.remove_waiting(key);
    }

    /// Marks an arm as being fired. False if it is no longer held. From here on a cancel comes too late.
    pub fn begin(&self, arm: &Arm) -> bool {
        self.held.begin(arm.key)
    }

    /// Records the outcome, and retries until the ledger has stored it: an accepted fire must be on record
    /// before anything else happens to the arm. The arm stays held meanwhile, so it does not fire again.
    pub async fn settle_with_retries(&self, arm: &Arm, settled: ArmResult) {
        let mut pause = TROUBLE;
        while let Err(fault) = self.settle(arm, settled.clone()).await {
            tracing::error!(%fault, job.id = %arm.job, "could not record the outcome of a fire; retrying");
            tokio::select! {
                () = self.background.closing.cancelled() => return,
                () = self.background.timepiece.after(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_TROUBLE);
        }
    }

    /// Records the outcome of a held arm and releases it.
    async fn settle(&self, arm: &Arm, settled: ArmResult) -> Result<(), Fault> {
        let now = self.background.timepiece.now();
        let next = self.arms.settle(arm.key, &self.owner, settled, now).await?;
        self.held.remove(arm.key);
        // The main loop may be waiting for a free place.
        self.heap.nudge.notify_one();
        if let Some(due) = next {
            self.heap.push(due);
            if !arm.is_alarm() {
                self.prewake.plan_check(&arm.instance, due.next_us);
            }
        }
        Ok(())
    }

    /// Releases a held arm that was not fired. False if that failed and the arm stays held.
    pub async fn put_back(&self, arm: &Arm) -> bool {
        if !self.held.contains(arm.key) {
            return true;
        }
        let put_back = self.settle(arm, ArmResult::PutBack { next_us: None }).await;
        if let Err(fault) = &put_back {
            tracing::error!(%fault, "could not release a held arm");
        }
        put_back.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::CronRecords;

    use super::*;

    #[tokio::test]
    async fn an_arm_that_is_cancelled_during_its_claim_is_not_held() {
        let records = CronRecords::open().await;
        let leases = records.leases();
        let arm = records.arm(&leases, "report", 1000).await;
        let claiming = leases.claiming();
        let claimed = leases.claim_due(vec![arm.key]).await.unwrap();
        leases.drop_cancelled(arm.key);
        assert!(!leases.hold(&claimed[0], Stage::Waiting));
        drop(claiming);
        assert_eq!(leases.room(), HELD);
    }

    #[tokio::test]
    async fn an_arm_that_is_put_back_can_be_claimed_again() {
        let records = CronRecords::open().await;
        let (leases, other) = (records.leases(), records.leases());
        let arm = records.arm(&leases, "report", 1000).await;
        let claimed = leases.claim_due(vec![arm.key]).await.unwrap();
        assert!(leases.hold(&claimed[0], Stage::Waiting));
        assert!(other.claim_due(vec![arm.key]).await.unwrap().is_empty(), "it is under a lease");
        assert!(leases.put_back(&claimed[0]).await);
        assert_eq!(other.claim(vec![arm.key]).await.unwrap().len(), 1);
    }
}
