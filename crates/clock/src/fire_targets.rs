//! Targets of fires: the agent's callback URL, its socket, or a target that another plane has registered.

use std::sync::Arc;

use dashmap::DashMap;
use ledger::Arm;

use crate::target::FireTarget;

/// Finds the target of an arm.
pub(crate) struct FireTargets {
    callback: Arc<dyn FireTarget>,
    socket: Arc<dyn FireTarget>,
    /// Targets of alarms, by name.
    registered: DashMap<&'static str, Arc<dyn FireTarget>>,
}

impl FireTargets {
    pub fn new(callback: Arc<dyn FireTarget>, socket: Arc<dyn FireTarget>) -> Self {
        Self { callback, socket, registered: DashMap::new() }
    }

    pub fn register(&self, name: &'static str, target: Arc<dyn FireTarget>) {
        self.registered.insert(name, target);
    }

    /// Target of an arm; `None` for an alarm whose target is not registered.
    pub fn of(&self, arm: &Arm) -> Option<Arc<dyn FireTarget>> {
        match (&arm.target, &arm.callback) {
            (Some(name), _) => self.registered.get(name.as_str()).map(|target| Arc::clone(&target)),
            (None, Some(_)) => Some(Arc::clone(&self.callback)),
            (None, None) => Some(Arc::clone(&self.socket)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::target::FireOutcome;
    use crate::tests::{CronRecords, FixedAnswerTarget};

    use super::*;

    #[tokio::test]
    async fn an_alarm_has_no_target_until_one_is_registered_under_its_name() {
        let records = CronRecords::open().await;
        let job = records.arm(&records.leases(), "report", 0).await;
        let alarm = Arm { target: Some("wakes".to_owned()), ..job.clone() };
        let target = FixedAnswerTarget::answering(FireOutcome::Refused { status: 500, retry_after: None });
        let targets = target.everywhere();
        assert!(targets.of(&job).is_some());
        assert!(targets.of(&alarm).is_none());
        targets.register("wakes", target.clone());
        assert!(targets.of(&alarm).is_some());
    }
}
