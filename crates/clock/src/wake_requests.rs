//! Wake calls that the clock asks for: an agent that does not run when its job fires, or that is slow to start.

use std::sync::Arc;

use ledger::Roster;
use posthouse_wire::InstanceId;
use relay::WakeCalls;

use crate::Metrics;
use crate::background::ClockTasks;
use crate::metrics::ArmLabel;

/// Asks the relay to call wake URLs.
pub(crate) struct WakeRequests {
    wake_calls: Arc<WakeCalls>,
    roster: Arc<dyn Roster>,
    metrics: Arc<Metrics>,
    background: ClockTasks,
}

impl WakeRequests {
    pub fn new(
        wake_calls: Arc<WakeCalls>,
        roster: Arc<dyn Roster>,
        metrics: Arc<Metrics>,
        background: ClockTasks,
    ) -> Self {
        Self { wake_calls, roster, metrics, background }
    }

    /// Has the wake URL of an agent called. The answer does not matter, so the call runs in the background. Returns
    /// false if the agent has no wake URL.
    pub async fn wake(&self, instance: &InstanceId, occasion: &'static str) -> bool {
        match self.roster.instance(instance).await {
            Ok(Some(found)) if found.wake_url.is_some() => {
                self.call(instance, occasion);
                true
            }
            Ok(_) => false,
            Err(fault) => {
                tracing::error!(%fault, "could not look up a wake URL");
                false
            }
        }
    }

    /// The same, without asking first whether there is a wake URL.
    pub fn call(&self, instance: &InstanceId, occasion: &'static str) {
        self.metrics.pokes.get_or_create(&ArmLabel { why: occasion }).inc();
        let (wake_calls, instance) = (Arc::clone(&self.wake_calls), instance.clone());
        self.background.tasks.spawn(async move { wake_calls.wake(&instance).await });
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::CronRecords;

    #[tokio::test]
    async fn an_agent_without_a_wake_url_is_not_called() {
        let records = CronRecords::open().await;
        let wake_requests = records.wake_requests();
        assert!(!wake_requests.wake(&records.heron, "asleep").await);
        assert!(!wake_requests.wake(&"inst_nobody".into(), "asleep").await);
        assert!(records.background.tasks.is_empty());
    }
}
