//! Wake the body: poke the wake URL of an agent that is away while something waits for it.

use std::collections::HashMap;
use std::time::Duration;

use errand::{Call, Errand};
use ledger::Seq;
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::InstanceId;
use tokio::sync::Notify;

use crate::Relay;
use crate::metrics::Why;

/// How long a wake URL has to answer; nobody reads the answer.
const POKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Agents that are on their way back after our own restart are not poked.
const GRACE: Duration = Duration::from_secs(5);

/// Who is to be poked, and when next.
pub(crate) struct Rouse {
    errand: Errand,
    sleepers: Mutex<HashMap<InstanceId, Sleeper>>,
    changed: Notify,
}

#[derive(Clone, Copy)]
struct Sleeper {
    /// Nothing: at once.
    due: Option<Moment>,
    pokes: u32,
    /// Came back since; kept only so that the cooldown holds.
    awake: bool,
}

impl Rouse {
    pub fn new(errand: Errand) -> Self {
        Self { errand, sleepers: Mutex::default(), changed: Notify::new() }
    }

    /// Why a wake URL will never be called, in words.
    pub fn check(&self, url: &str) -> Result<(), String> {
        self.errand.check(url).map(drop).map_err(|refusal| format!("wake URL: {refusal}"))
    }

    /// Why an agent will never be called back there, in words.
    pub fn check_callback(&self, url: &str) -> Result<(), String> {
        self.errand.check_base(url).map(drop).map_err(|refusal| format!("callback URL: {refusal}"))
    }

    /// Something waits for an agent that is not here. Called on the ledger's thread, so it only notes.
    pub fn note(&self, instance: &InstanceId) {
        let mut sleepers = self.sleepers.lock();
        match sleepers.get_mut(instance) {
            Some(sleeper) if !sleeper.awake => return,
            Some(sleeper) => sleeper.awake = false,
            None => {
                sleepers.insert(instance.clone(), Sleeper { due: None, pokes: 0, awake: false });
            }
        }
        self.changed.notify_one();
    }

    /// It dialed in: no more pokes, and the back-off starts over.
    pub fn came(&self, instance: &InstanceId) {
        if let Some(sleeper) = self.sleepers.lock().get_mut(instance) {
            sleeper.awake = true;
            sleeper.pokes = 0;
        }
    }

    /// When it is called next; nothing while that is about to happen.
    fn next(&self, instance: &InstanceId) -> Option<Moment> {
        self.sleepers.lock().get(instance).filter(|sleeper| !sleeper.awake)?.due
    }

    fn earliest(&self) -> Option<Moment> {
        let sleepers = self.sleepers.lock();
        sleepers
            .values()
            .filter(|sleeper| !sleeper.awake)
            .map(|sleeper| sleeper.due.unwrap_or_default())
            .min()
    }

    /// Those to be poked now, each already set to its next time.
    fn take_due(&self, now: Moment, cooldown: Duration, at_most: Duration) -> Vec<InstanceId> {
        let mut sleepers = self.sleepers.lock();
        sleepers.retain(|_, sleeper| !sleeper.awake || sleeper.due.is_some_and(|due| due > now));
        let mut due = Vec::new();
        for (instance, sleeper) in sleepers.iter_mut() {
            if !sleeper.awake && sleeper.due.is_none_or(|due| due <= now) {
                let pause = cooldown.saturating_mul(2_u32.saturating_pow(sleeper.pokes.min(16)));
                sleeper.due = Some(now + pause.clamp(cooldown, at_most.max(cooldown)));
                sleeper.pokes += 1;
                due.push(instance.clone());
            }
        }
        due
    }

    fn forget(&self, instance: &InstanceId) {
        self.sleepers.lock().remove(instance);
    }
}

impl Relay {
    pub(crate) async fn keep_rousing(&self) {
        self.note_those_left_waiting().await;
        let rouse = &self.0.rouse;
        loop {
            let due = rouse.earliest();
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                () = rouse.changed.notified() => {}
                () = async {
                    match due {
                        Some(due) => self.0.timepiece.until(due).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
            let (cooldown, at_most) = (self.0.config.wake_cooldown.0, self.0.config.wake_at_most.0);
            for instance in rouse.take_due(self.0.timepiece.now(), cooldown, at_most) {
                let relay = self.clone();
                self.0.tasks.spawn(async move { relay.poke(&instance).await });
            }
        }
    }

    /// After a restart: whoever has something unread and does not dial in by itself.
    async fn note_those_left_waiting(&self) {
        tokio::select! {
            () = self.0.closing.cancelled() => return,
            () = self.0.timepiece.after(GRACE) => {}
        }
        match self.0.inbox.backlogs().await {
            Ok(backlogs) => {
                for (instance, _) in backlogs {
                    if !self.presence(&instance).connected {
                        self.0.rouse.note(&instance);
                    }
                }
            }
            Err(fault) => tracing::error!(%fault, "could not look for agents with something waiting"),
        }
    }

    /// Calls an agent's wake URL once, whatever waits for it. False when it has none.
    pub async fn wake(&self, instance: &InstanceId) -> bool {
        match self.0.roster.instance(instance).await {
            Ok(found) => match found.and_then(|found| found.wake_url) {
                Some(url) => {
                    self.call(instance, &url).await;
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

    /// When the wake URL of an agent that is away is called again, once it has been called.
    pub fn calls_again(&self, instance: &InstanceId) -> Option<Moment> {
        self.0.rouse.next(instance)
    }

    async fn poke(&self, instance: &InstanceId) {
        let presence = self.presence(instance);
        if presence.connected && !presence.idle {
            return self.0.rouse.forget(instance);
        }
        let url = match self.0.roster.instance(instance).await {
            Ok(Some(found)) => found.wake_url,
            Ok(None) => return self.0.rouse.forget(instance),
            Err(fault) => return tracing::error!(%fault, "could not look up a wake URL"),
        };
        // Nobody to call: it finds everything when it dials in by itself. Asked again after the cooldown,
        // not with every message.
        let Some(url) = url else { return };
        match self.0.inbox.unread(instance, Seq(0), 1).await {
            Ok(unread) if unread.is_empty() => return self.0.rouse.forget(instance),
            Ok(_) => {}
            Err(fault) => {
                return tracing::error!(%fault, "could not look into an inbox before waking its agent");
            }
        }
        self.call(instance, &url).await;
    }

    /// No body, no credentials, no tenant data, and the answer does not matter.
    async fn call(&self, instance: &InstanceId, url: &str) {
        let count = |why| {
            self.0.metrics.pokes.get_or_create(&Why { why }).inc();
        };
        match self.0.rouse.errand.run(Call::get(url).timeout(POKE_TIMEOUT)).await {
            Ok(_) => count("answered"),
            Err(fault) => {
                count("failed");
                tracing::debug!(instance.id = %instance, %fault, "a wake poke failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn rouse() -> (Rouse, InstanceId) {
        (Rouse::new(Errand::new(errand::Config::default())), InstanceId::new("inst_heron"))
    }

    #[test]
    fn a_sleeper_is_poked_at_once_then_after_each_cooldown_with_back_off() {
        let (rouse, heron) = rouse();
        rouse.note(&heron);
        let mut now = Moment::from_seconds(1_000);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(rouse.take_due(now, MINUTE, 15 * MINUTE), std::slice::from_ref(&heron));
            assert!(rouse.take_due(now, MINUTE, 15 * MINUTE).is_empty());
            let next = rouse.earliest().unwrap();
            pauses.push(next.since(now).as_secs() / 60);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15, 15, 15]);
    }

    #[test]
    fn who_came_and_left_again_within_the_cooldown_is_not_poked_before_its_end() {
        let (rouse, heron) = rouse();
        let start = Moment::from_seconds(1_000);
        rouse.note(&heron);
        assert_eq!(rouse.take_due(start, MINUTE, 15 * MINUTE).len(), 1);
        rouse.came(&heron);
        assert_eq!(rouse.earliest(), None);
        rouse.note(&heron);
        assert!(rouse.take_due(start + MINUTE / 2, MINUTE, 15 * MINUTE).is_empty());
        assert_eq!(rouse.take_due(start + MINUTE, MINUTE, 15 * MINUTE).len(), 1);
    }
}
