//! Sleep calls: an agent asks to be stopped, and the server calls the stop URL that the operator set for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use errand::{Errand, OutgoingCall};
use ledger::{Inbox, Roster, SleepAsker};
use parking_lot::Mutex;
use posthouse_time::Instant;
use posthouse_wire::InstanceId;
use tokio::sync::oneshot;

use crate::background::RelayTasks;
use crate::connections::Connections;
use crate::fair_queue::FairQueue;
use crate::metrics::ReasonLabel;
use crate::wake_calls::WakeCalls;
use crate::{Fault, Metrics};

/// Time within which an agent gets its answer. It waits 40 s, and the contract allows 30.
const ANSWERED_WITHIN: Duration = Duration::from_secs(25);
/// Time limit of a call to a stop URL.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// A call with less time than this would only end in a timeout.
const SHORTEST: Duration = Duration::from_secs(1);
/// Concurrent calls in total, and per tenant.
const CALLS: usize = 64;
const CALLS_OF_A_TENANT: usize = 16;

/// Result of asking to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SleepResult {
    /// The stop URL accepted the call.
    Stopped,
    /// Something waits for the agent, or it is connected and not idle. Nothing was stopped.
    StaysAwake,
    /// The stop URL could not be called, or refused.
    Failed,
}

/// Calls stop URLs, in turns between tenants.
pub(crate) struct SleepCalls {
    errand: Errand,
    inbox: Arc<dyn Inbox>,
    roster: Arc<dyn Roster>,
    connections: Arc<Connections>,
    wake_calls: Arc<WakeCalls>,
    metrics: Arc<Metrics>,
    background: RelayTasks,
    stops: Mutex<StopCalls>,
}

/// Dependencies of the sleep calls.
pub(crate) struct SleepCallParts {
    pub errand: Errand,
    pub inbox: Arc<dyn Inbox>,
    pub roster: Arc<dyn Roster>,
    pub connections: Arc<Connections>,
    pub wake_calls: Arc<WakeCalls>,
    pub metrics: Arc<Metrics>,
    pub background: RelayTasks,
}

/// Calls that wait or run.
struct StopCalls {
    queue: FairQueue<StopCall>,
    /// Each agent has at most one.
    agents: HashSet<InstanceId>,
}

impl Default for StopCalls {
    fn default() -> Self {
        Self { queue: FairQueue::new(CALLS, CALLS_OF_A_TENANT), agents: HashSet::new() }
    }
}

struct StopCall {
    asker: SleepAsker,
    deadline: Instant,
    ended: oneshot::Sender<SleepResult>,
}

impl SleepCalls {
    pub fn new(parts: SleepCallParts) -> Self {
        let SleepCallParts { errand, inbox, roster, connections, wake_calls, metrics, background } = parts;
        let stops = Mutex::default();
        Self { errand, inbox, roster, connections, wake_calls, metrics, background, stops }
    }

    /// Stops an agent, unless it is needed. Answers within [`ANSWERED_WITHIN`].
    pub async fn stop(self: &Arc<Self>, asker: SleepAsker) -> Result<SleepResult, Fault> {
        let result = if self.is_needed(&asker.instance).await? {
            SleepResult::StaysAwake
        } else {
            self.call_in_turn(asker).await
        };
        let why = match result {
            SleepResult::Stopped => "stopped",
            SleepResult::StaysAwake => "stays_awake",
            SleepResult::Failed => "failed",
        };
        self.metrics.sleep_calls.get_or_create(&ReasonLabel { why }).inc();
        Ok(result)
    }

    /// Whether something waits for the agent, or it is connected and not idle.
    async fn is_needed(&self, agent: &InstanceId) -> Result<bool, Fault> {
        let presence = self.connections.presence(agent);
        Ok(presence.connected && !presence.idle || self.inbox.size(agent).await?.entries > 0)
    }

    async fn call_in_turn(self: &Arc<Self>, asker: SleepAsker) -> SleepResult {
        let (ended, end) = oneshot::channel();
        let deadline = self.background.timepiece.instant() + ANSWERED_WITHIN;
        {
            let mut stops = self.stops.lock();
            if !stops.agents.insert(asker.instance.clone()) {
                // It is being stopped already. Who asks again is awake.
                return SleepResult::StaysAwake;
            }
            stops.queue.push(asker.tenant.clone(), StopCall { asker, deadline, ended });
        }
        self.start_calls();
        match self.background.timepiece.within(ANSWERED_WITHIN, end).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => SleepResult::Failed,
        }
    }

    fn start_calls(self: &Arc<Self>) {
        loop {
            let next = self.stops.lock().queue.take();
            let Some((tenant, StopCall { asker, deadline, ended })) = next else { return };
            let this = Arc::clone(self);
            self.background.tasks.spawn(async move {
                let result = this.call(&asker, deadline).await.unwrap_or_else(|fault| {
                    tracing::error!(%fault, instance.id = %asker.instance, "could not stop an agent");
                    SleepResult::Failed
                });
                {
                    let mut stops = this.stops.lock();
                    stops.queue.done(&tenant);
                    stops.agents.remove(&asker.instance);
                }
                let _ = ended.send(result);
                this.start_calls();
            });
        }
    }

    /// Makes the call, without body, credentials or tenant data. It ends before its caller stops waiting, because an
    /// agent whose request failed goes on working.
    async fn call(self: &Arc<Self>, asker: &SleepAsker, deadline: Instant) -> Result<SleepResult, Fault> {
        let agent = &asker.instance;
        let left = deadline.since(self.background.timepiece.instant()).saturating_sub(SHORTEST);
        if left < SHORTEST {
            return Ok(SleepResult::Failed);
        }
        self.roster.set_idle(agent, true).await?;
        // Something may have come while the call waited for its turn.
        if self.is_needed(agent).await? {
            self.roster.set_idle(agent, false).await?;
            return Ok(SleepResult::StaysAwake);
        }
        let call = OutgoingCall::post(asker.stop_url.as_str(), Vec::new())
            .timeout(left.min(STOP_TIMEOUT))
            .on_behalf_of(asker.tenant.as_str());
        let result = match self.errand.run(call).await {
            Ok(response) if response.status.is_success() => SleepResult::Stopped,
            Ok(response) => {
                tracing::debug!(instance.id = %agent, status = response.status.as_u16(), "a stop URL refused");
                SleepResult::Failed
            }
            Err(fault) => {
                tracing::debug!(instance.id = %agent, %fault, "a call to a stop URL failed");
                SleepResult::Failed
            }
        };
        // A message that came while the agent was being stopped may have found it still running, and the wake call for
        // it came too early.
        if result == SleepResult::Stopped && self.inbox.size(agent).await?.entries > 0 {
            let (wake_calls, agent) = (Arc::clone(&self.wake_calls), agent.clone());
            self.background.tasks.spawn(async move {
                wake_calls.sleepers.note(&agent);
                wake_calls.wake(&agent).await
            });
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{Records, bot_of};

    use super::*;

    #[tokio::test]
    async fn an_agent_with_a_waiting_message_or_a_busy_socket_is_not_stopped() {
        let records = Records::open().await;
        let heron = records.enrol("heron").await;
        let connections = records.connections();
        let sleep_calls = Arc::new(SleepCalls::new(SleepCallParts {
            // It reaches no URL, so a call that is made fails.
            errand: Errand::new(errand::Config::default()),
            inbox: records.ledger.inbox(),
            roster: records.ledger.roster(),
            connections: Arc::clone(&connections),
            wake_calls: records.wake_calls(&connections),
            metrics: Arc::default(),
            background: records.background(),
        }));
        let asker = SleepAsker {
            instance: heron.instance.clone(),
            tenant: heron.tenant.clone(),
            stop_url: "http://127.0.0.1:9/stop".to_owned(),
        };
        let socket = connections.with_live_socket(&heron.instance, |_| {});
        assert_eq!(sleep_calls.stop(asker.clone()).await.unwrap(), SleepResult::StaysAwake);
        connections.of(&heron.instance).state.lock().remove(socket, records.clock.instant());
        let entry = records.append(&heron.instance, &bot_of("heron"), None).await;
        assert_eq!(sleep_calls.stop(asker.clone()).await.unwrap(), SleepResult::StaysAwake);
        records.ledger.inbox().recall(&heron.instance, &entry).await.unwrap();
        assert_eq!(sleep_calls.stop(asker).await.unwrap(), SleepResult::Failed, "now the URL is called");
        assert!(sleep_calls.stops.lock().agents.is_empty());
    }
}
