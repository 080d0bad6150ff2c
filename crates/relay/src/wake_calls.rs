//! Wake calls: calls to the wake URLs of disconnected agents that have unread messages, with cooldown and back-off.

mod wake_failures;
mod wake_schedule;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use errand::{Errand, OutgoingCall};
use futures_util::StreamExt;
use ledger::{Inbox, Roster, Seq};
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, TenantId};
use tokio::sync::oneshot;

use crate::Metrics;
use crate::background::RelayTasks;
use crate::connections::Connections;
use crate::fair_queue::FairQueue;
use crate::metrics::ReasonLabel;
use wake_failures::FailureLog;
pub use wake_failures::{WakeFailure, WakeFailures};
use wake_schedule::WakeSchedule;

/// Time limit of a wake call. The response is ignored.
const POKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after a restart without wake calls, because most agents reconnect by themselves.
const GRACE: Duration = Duration::from_secs(5);

/// First and longest pause before reading the backlogs again, when they cannot be read after a start.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(30);

/// Concurrent wake calls in total, and per tenant.
const CALLS: usize = 64;
const CALLS_OF_A_TENANT: usize = 16;
/// Concurrent lookups of agents before their wake calls.
const LOOKUPS: usize = 8;

/// Calls the wake URLs of agents that have unread messages and are not connected.
pub struct WakeCalls {
    /// The agents that need a wake call.
    pub(crate) sleepers: WakeSchedule,
    calls: Mutex<Calls>,
    failures: FailureLog,
    errand: Errand,
    inbox: Arc<dyn Inbox>,
    roster: Arc<dyn Roster>,
    connections: Arc<Connections>,
    /// Shortest and longest time between two calls of one agent's wake URL.
    pauses: (Duration, Duration),
    metrics: Arc<Metrics>,
    background: RelayTasks,
}

/// Dependencies of the wake calls.
pub(crate) struct WakeCallParts {
    pub errand: Errand,
    pub inbox: Arc<dyn Inbox>,
    pub roster: Arc<dyn Roster>,
    pub connections: Arc<Connections>,
    pub pauses: (Duration, Duration),
    pub metrics: Arc<Metrics>,
    pub background: RelayTasks,
}

/// Calls that are running or waiting.
struct Calls {
    queue: FairQueue<WakeCall>,
    /// WakeSchedule among them. A sleeper has at most one waiting or running call.
    sleepers: HashSet<InstanceId>,
}

/// One wake call. `ended` notifies a caller that waits for it; a sleeper's call has none.
struct WakeCall {
    instance: InstanceId,
    url: String,
    ended: Option<oneshot::Sender<()>>,
}

impl WakeCalls {
    pub(crate) fn new(parts: WakeCallParts) -> Self {
        let WakeCallParts { errand, inbox, roster, connections, pauses, metrics, background } = parts;
        let calls = Calls { queue: FairQueue::new(CALLS, CALLS_OF_A_TENANT), sleepers: HashSet::new() };
        Self {
            sleepers: WakeSchedule::default(),
            calls: Mutex::new(calls),
            failures: FailureLog::default(),
            errand,
            inbox,
            roster,
            connections,
            pauses,
            metrics,
            background,
        }
    }

    pub(crate) async fn keep_waking(self: &Arc<Self>) {
        tokio::select! {
            () = self.background.closing.cancelled() => return,
            () = self.background.timepiece.after(GRACE) => {}
        }
        tokio::join!(self.note_those_left_waiting(), self.keep_poking());
    }

    async fn keep_poking(self: &Arc<Self>) {
        loop {
            let due = self.sleepers.earliest();
            tokio::select! {
                () = self.background.closing.cancelled() => return,
                () = self.sleepers.changed.notified() => {}
                () = async {
                    match due {
                        Some(due) => self.background.timepiece.sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
            let (cooldown, at_most) = self.pauses;
            let due = self.sleepers.take_due(self.background.timepiece.instant(), cooldown, at_most);
            futures_util::stream::iter(due)
                .for_each_concurrent(LOOKUPS, |instance| async move { self.call_now(&instance).await })
                .await;
        }
    }

    /// After a restart, schedules wake calls for agents that have unread messages and are not connected.
    async fn note_those_left_waiting(self: &Arc<Self>) {
        let mut pause = LOOK_AGAIN;
        let backlogs = loop {
            match self.inbox.backlogs().await {
                Ok(backlogs) => break backlogs,
                Err(fault) => {
                    tracing::error!(%fault, "could not find agents with unread messages; trying again in {pause:?}");
                }
            }
            tokio::select! {
                () = self.background.closing.cancelled() => return,
                () = self.background.timepiece.after(pause) => {}
            }
            pause = (pause * 2).min(LOOK_AGAIN_AT_MOST);
        };
        for (instance, _) in backlogs {
            if !self.connections.presence(&instance).connected {
                self.sleepers.note(&instance);
            }
        }
    }

    /// Calls an agent's wake URL once, with or without unread messages. Returns false when it has no wake URL.
    pub async fn wake(self: &Arc<Self>, instance: &InstanceId) -> bool {
        match self.roster.instance(instance).await {
            Ok(found) => match found.and_then(|found| Some((found.tenant, found.wake_url?))) {
                Some((tenant, url)) => {
                    let (ended, end) = oneshot::channel();
                    let call = WakeCall { instance: instance.clone(), url, ended: Some(ended) };
                    self.enqueue_call(tenant, call);
                    // The sender is dropped only at shutdown.
                    let _ = end.await;
                    true
                }
                None => false,
            },
            Err(fault) => {
                tracing::error!(%fault, "could not look up a wake URL");
                false
            }
        }
    }

    /// What is known about the wake URLs of an agent that has this one, since the start of the server.
    pub fn failures(&self, instance: &InstanceId, wake_url: Option<&str>) -> WakeFailures {
        self.failures.of(instance, wake_url)
    }

    /// Records whether the wake URL that a gateway named was refused, and why.
    pub(crate) fn was_named(&self, tenant: &TenantId, instance: &InstanceId, refused: Option<&str>) {
        self.failures.named(tenant, instance, refused.map(|reason| self.failure(reason)));
    }

    fn failure(&self, reason: &str) -> WakeFailure {
        WakeFailure { at: self.background.timepiece.now(), reason: reason.to_owned() }
    }

    /// Time of the next wake call to a disconnected agent. `None` before the first call.
    pub fn calls_again(&self, instance: &InstanceId) -> Option<Moment> {
        let timepiece = &self.background.timepiece;
        let due = self.sleepers.next(instance)?;
        let (wall, now) = timepiece.readings();
        Some(wall + due.since(now))
    }

    async fn call_now(self: &Arc<Self>, instance: &InstanceId) {
        let presence = self.connections.presence(instance);
        if presence.connected && !presence.idle {
            return self.sleepers.forget(instance);
        }
        match self.inbox.unread(instance, Seq(0), 1).await {
            Ok(unread) if unread.is_empty() => return self.sleepers.forget(instance),
            Ok(_) => {}
            Err(fault) => {
                return tracing::error!(%fault, "could not read an inbox before waking its agent");
            }
        }
        let (tenant, url) = match self.roster.instance(instance).await {
            Ok(Some(found)) => (found.tenant, found.wake_url),
            Ok(None) => return self.sleepers.forget(instance),
            Err(fault) => return tracing::error!(%fault, "could not look up a wake URL"),
        };
        // Without a wake URL the agent gets its messages when it connects by itself. The roster is asked again
        // after the cooldown, not with every message.
        let Some(url) = url else { return };
        self.enqueue_call(tenant, WakeCall { instance: instance.clone(), url, ended: None });
    }

    /// Queues a call. The queue is fair between tenants, so that hanging wake URLs delay only their own tenant.
    fn enqueue_call(self: &Arc<Self>, tenant: TenantId, call: WakeCall) {
        {
            let mut calls = self.calls.lock();
            if call.ended.is_none() && !calls.sleepers.insert(call.instance.clone()) {
                return;
            }
            calls.queue.push(tenant, call);
        }
        self.start_calls();
    }

    fn start_calls(self: &Arc<Self>) {
        loop {
            let next = self.calls.lock().queue.take();
            let Some((tenant, call)) = next else { return };
            let this = Arc::clone(self);
            self.background.tasks.spawn(async move {
                this.call(&call.instance, &tenant, &call.url).await;
                {
                    let mut calls = this.calls.lock();
                    calls.queue.done(&tenant);
                    if call.ended.is_none() {
                        calls.sleepers.remove(&call.instance);
                    }
                }
                if let Some(ended) = call.ended {
                    let _ = ended.send(());
                }
                this.start_calls();
            });
        }
    }

    /// Makes the call, without body, credentials or tenant data. The response is ignored.
    async fn call(&self, instance: &InstanceId, tenant: &TenantId, url: &str) {
        let count = |why| {
            self.metrics.wake_calls.get_or_create(&ReasonLabel { why }).inc();
        };
        let call = OutgoingCall::get(url).timeout(POKE_TIMEOUT).on_behalf_of(tenant.as_str());
        match self.errand.run(call).await {
            Ok(_) => {
                count("answered");
                self.failures.called(tenant, instance, url, None);
            }
            Err(fault) => {
                count("failed");
                self.failures.called(tenant, instance, url, Some(self.failure(&fault.to_string())));
                tracing::debug!(instance.id = %instance, %fault, "a wake call failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{Records, bot_of};

    #[tokio::test]
    async fn an_agent_is_due_for_a_wake_call_until_it_connects_or_has_read_everything() {
        let records = Records::open().await;
        let heron = records.enrol("heron").await.instance;
        let connections = records.connections();
        let wake_calls = records.wake_calls(&connections);
        records.append(&heron, &bot_of("heron"), None).await;
        let (cooldown, at_most) = wake_calls.pauses;
        let take_due = || wake_calls.sleepers.take_due(records.clock.instant(), cooldown, at_most);
        wake_calls.sleepers.note(&heron);
        assert_eq!(take_due(), std::slice::from_ref(&heron));
        wake_calls.call_now(&heron).await;
        assert_eq!(wake_calls.calls_again(&heron), Some(records.clock.now() + cooldown));
        wake_calls.sleepers.came(&heron);
        assert_eq!(wake_calls.calls_again(&heron), None);
        // It disconnects, is noted again, and everything is read elsewhere before its next call.
        wake_calls.sleepers.note(&heron);
        assert!(take_due().is_empty(), "the cooldown is over only after a minute");
        records.clock.wind(cooldown);
        assert_eq!(take_due(), std::slice::from_ref(&heron));
        records.ledger.inbox().recall(&heron, &records.entries(&heron).await[0]).await.unwrap();
        wake_calls.call_now(&heron).await;
        assert_eq!(wake_calls.calls_again(&heron), None);
        assert!(!wake_calls.wake(&heron).await, "it has no wake URL");
    }
}
