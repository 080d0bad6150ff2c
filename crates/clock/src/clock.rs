//! The handle of this plane.

use std::sync::Arc;
use std::time::Duration;

use dashmap::{DashMap, DashSet};
use errand::Errand;
use ledger::{Arm, ArmFilter, ArmKey, ArmState, Arms};
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::InstanceId;
use posthouse_wire::cron::Stamp;
use relay::Relay;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vault::Signer;

use crate::auth::Known;
use crate::bell::Bell;
use crate::callback::Callback;
use crate::crowd::{Crowd, Limits};
use crate::fire::Held;
use crate::heap::Heap;
use crate::line::Line;
use crate::pace::Pace;
use crate::prewake::Prewake;
use crate::withdrawn::Withdrawn;
use crate::{Config, Fault, Metrics};

/// How long a closing clock waits for fires under way: past an attempt's own time there is nothing to
/// wait for.
const CLOSED_WITHIN: Duration = Duration::from_secs(7);

/// What the clock is built from. It holds a signer, never the vault.
pub struct Parts {
    pub config: Config,
    pub arms: Arc<dyn Arms>,
    pub signer: Signer,
    pub relay: Relay,
    pub errand: Errand,
    /// The address of the house as agents know it: `iss` of every fire token, to the letter.
    pub issuer: String,
    pub timepiece: Timepiece,
}

/// Managed cron; a handle to share.
#[derive(Clone)]
pub struct Clock(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub config: Config,
    pub arms: Arc<dyn Arms>,
    pub signer: Signer,
    pub relay: Relay,
    pub errand: Errand,
    pub timepiece: Timepiece,
    pub metrics: Arc<Metrics>,
    pub heap: Heap,
    /// Arms that this node holds under its lease.
    pub held: DashMap<ArmKey, Stage>,
    pub withdrawn: Withdrawn,
    pub crowd: Mutex<Crowd<Held>>,
    pub callback: Arc<dyn Bell>,
    pub line: Arc<dyn Bell>,
    /// What alarms ring, by name.
    pub hung: DashMap<&'static str, Arc<dyn Bell>>,
    pub known: Known,
    pub pace: Pace,
    pub prewake: Prewake,
    /// Stamps of outside schedulers that were used, for as long as they would pass.
    pub used_stamps: Cache<(i64, [u8; 32]), ()>,
    /// Instances with an arm that failed or was given up: only their signs of life are looked into.
    pub troubled: DashSet<InstanceId>,
    /// This node, as leases name it.
    pub owner: String,
    pub tasks: TaskTracker,
    pub closing: CancellationToken,
}

/// How far a held arm has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its instant is waited for: a cancel takes it back.
    Waiting,
    /// The call is on its way.
    Ringing,
}

impl Clock {
    pub fn new(parts: Parts) -> Result<Self, Fault> {
        let Parts { config, arms, signer, relay, errand, issuer, timepiece } = parts;
        let limits = Limits {
            in_all: config.in_flight,
            per_instance: config.in_flight_per_agent,
            per_host: config.in_flight_per_host,
        };
        let callback = Callback {
            errand: errand.clone(),
            signer: signer.clone(),
            issuer,
            timeout: config.attempt_timeout.0,
            timepiece: timepiece.clone(),
        };
        let line = Line { relay: relay.clone(), timeout: config.attempt_timeout.0 };
        Ok(Self(Arc::new(Inner {
            heap: Heap::new(),
            held: DashMap::new(),
            withdrawn: Withdrawn::default(),
            crowd: Mutex::new(Crowd::new(limits)),
            callback: Arc::new(callback),
            line: Arc::new(line),
            hung: DashMap::new(),
            known: Known::default(),
            pace: Pace::new(config.requests_per_second),
            prewake: Prewake::default(),
            used_stamps: Cache::builder()
                .max_capacity(1_000_000)
                .time_to_live(Duration::from_secs(3 * Stamp::WINDOW_SECONDS))
                .build(),
            troubled: DashSet::new(),
            owner: vault::random_hex(8)?.expose().to_owned(),
            metrics: Arc::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            config,
            arms,
            signer,
            relay,
            errand,
            timepiece,
        })))
    }

    /// The loops of this plane, until the house closes.
    pub async fn run(&self) -> Result<(), Fault> {
        self.take_over().await?;
        // All of them end when the house closes; a fault in one ends the others at once.
        tokio::try_join!(
            self.keep_due(),
            self.keep_leases(),
            self.hear_arrivals(),
            self.keep_waking_ahead()
        )?;
        Ok(())
    }

    /// After a start: what the last owner held is nobody's now, and who was in trouble still is.
    async fn take_over(&self) -> Result<(), Fault> {
        let now = self.0.timepiece.now();
        let retry_us = self.now_us() + 1_000_000;
        let freed = self.0.arms.free_orphans(&self.0.owner, now, retry_us).await?;
        if !freed.is_empty() {
            tracing::info!(arms = freed.len(), "took over arms whose last attempt nobody knows the end of");
        }
        self.each_arm(ArmState::Dead, |arm| {
            self.0.troubled.insert(arm.instance);
        })
        .await?;
        if self.0.config.pre_wake {
            self.each_arm(ArmState::Armed, |arm| self.consider_waking_ahead(&arm.instance, arm.next_us))
                .await?;
        }
        Ok(())
    }

    async fn each_arm(&self, state: ArmState, mut look: impl FnMut(Arm)) -> Result<(), Fault> {
        let mut filter = ArmFilter { state: Some(state), ..ArmFilter::default() };
        loop {
            let page = self.0.arms.arms(filter.clone(), 1000).await?;
            let Some(last) = page.last() else { return Ok(()) };
            filter.after = Some(last.key);
            page.into_iter().for_each(&mut look);
        }
    }

    /// Keeps the lease on everything held; what another node took over meanwhile is let go of.
    async fn keep_leases(&self) -> Result<(), Fault> {
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
                () = self.0.timepiece.after(self.0.config.lease.0 / 3) => {}
            }
            let keys: Vec<ArmKey> = self.0.held.iter().map(|held| *held.key()).collect();
            if keys.is_empty() {
                continue;
            }
            match self.0.arms.renew(keys, &self.0.owner, self.lease_until()).await {
                Ok(lost) => lost.into_iter().for_each(|lost| self.let_go(lost)),
                Err(fault) => tracing::error!(%fault, "could not keep the lease on what is held"),
            }
        }
    }

    /// An agent that dials in is alive: what was given up is tried again at once.
    async fn hear_arrivals(&self) -> Result<(), Fault> {
        let mut arrivals = self.0.relay.arrivals();
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
                arrived = arrivals.next() => match arrived {
                    Some(instance) => {
                        if let Err(fault) = self.sign_of_life(&instance).await {
                            tracing::error!(%fault, "could not bring back what was given up");
                        }
                    }
                    None => return Ok(()),
                },
            }
        }
    }

    pub(crate) async fn sign_of_life(&self, instance: &InstanceId) -> Result<(), Fault> {
        if self.0.troubled.remove(instance).is_none() {
            return Ok(());
        }
        let revived = self.0.arms.revive(instance, self.0.timepiece.now()).await;
        if revived.is_err() {
            self.0.troubled.insert(instance.clone());
        }
        for due in revived? {
            self.0.metrics.revived.inc();
            self.0.heap.push(due);
        }
        Ok(())
    }

    /// A cancel or a newer arm has committed: no attempt of this one begins from here on.
    pub(crate) fn withdraw(&self, key: ArmKey) {
        self.0.withdrawn.note(key);
        self.let_go(key);
    }

    fn let_go(&self, key: ArmKey) {
        self.0.held.remove_if(&key, |_, stage| *stage == Stage::Waiting);
    }

    pub(crate) fn lease_until(&self) -> Moment {
        self.0.timepiece.now() + self.0.config.lease.0
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.0.timepiece.now().millis().saturating_mul(1000)
    }

    /// Claims nothing more, lets fires under way end, and puts back what was not begun.
    pub async fn close(&self) {
        self.0.closing.cancel();
        let waiting = self.0.crowd.lock().disperse();
        for held in waiting {
            self.put_back(&held.arm).await;
        }
        self.0.tasks.close();
        if self.0.timepiece.within(CLOSED_WITHIN, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("closed with fires under way");
        }
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub fn signer(&self) -> &Signer {
        &self.0.signer
    }
}
