//! Dead arms of agents that show a sign of life: they are tried again at once.

use std::sync::Arc;

use dashmap::DashSet;
use ledger::Arms;
use posthouse_wire::InstanceId;
use relay::Fires;

use crate::background::ClockTasks;
use crate::heap::Heap;
use crate::{Fault, Metrics};

/// Revives the dead arms of agents.
pub(crate) struct Revivals {
    /// Agents with an arm that failed or was given up. Dead arms are looked up only for these.
    troubled: DashSet<InstanceId>,
    arms: Arc<dyn Arms>,
    heap: Arc<Heap>,
    metrics: Arc<Metrics>,
    background: ClockTasks,
}

impl Revivals {
    pub fn new(arms: Arc<dyn Arms>, heap: Arc<Heap>, metrics: Arc<Metrics>, background: ClockTasks) -> Self {
        Self { troubled: DashSet::new(), arms, heap, metrics, background }
    }

    /// Records that an arm of this agent failed or was given up.
    pub fn note_trouble(&self, instance: &InstanceId) {
        self.troubled.insert(instance.clone());
    }

    /// Tries the dead arms of an agent again, because the agent is alive.
    pub async fn sign_of_life(&self, instance: &InstanceId) -> Result<(), Fault> {
        if self.troubled.remove(instance).is_none() {
            return Ok(());
        }
        let revived = self.arms.revive(instance, self.background.timepiece.now()).await;
        if revived.is_err() {
            self.troubled.insert(instance.clone());
        }
        for due in revived? {
            self.metrics.revived.inc();
            self.heap.push(due);
        }
        Ok(())
    }

    /// Connecting is a sign of life. Follows the agents that connect until shutdown.
    pub async fn follow_connecting_agents(&self, fires: &Fires) -> Result<(), Fault> {
        let mut arrivals = fires.arrivals();
        loop {
            tokio::select! {
                () = self.background.closing.cancelled() => return Ok(()),
                arrived = arrivals.next() => match arrived {
                    Some(instance) => {
                        if let Err(fault) = self.sign_of_life(&instance).await {
                            tracing::error!(%fault, "could not revive the dead arms of an agent that connected");
                        }
                    }
                    None => return Ok(()),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ledger::{ArmResult, FireAttempt};

    use crate::held::Stage;
    use crate::tests::CronRecords;

    #[tokio::test]
    async fn a_sign_of_life_revives_the_dead_arms_of_an_agent_that_had_trouble() {
        let records = CronRecords::open().await;
        let (leases, revivals) = (records.leases(), records.revivals());
        let arm = records.arm(&leases, "report", 0).await;
        let claimed = leases.claim_due(vec![arm.key]).await.unwrap().remove(0);
        assert!(leases.hold(&claimed, Stage::Calling));
        leases.settle_with_retries(&claimed, ArmResult::Dead { attempt: FireAttempt::default() }).await;
        let before = records.heap.len();
        revivals.sign_of_life(&records.heron).await.unwrap();
        assert_eq!(records.heap.len(), before, "without known trouble nothing is looked up");
        revivals.note_trouble(&records.heron);
        revivals.sign_of_life(&records.heron).await.unwrap();
        assert_eq!(records.heap.len(), before + 1);
        assert_eq!(records.metrics.revived.get(), 1);
    }
}
