//! `Clock`, the handle of this plane: its parts, its loops, start and shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use dashmap::{DashMap, DashSet};
use errand::Errand;
use identity::Identity;
use ledger::{Arm, ArmFilter, ArmKey, ArmState, Arms};
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::{Instant, Moment, Timepiece};
use posthouse_wire::InstanceId;
use posthouse_wire::cron::Stamp;
use relay::Relay;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vault::Signer;

use crate::callback::Callback;
use crate::cancelled_during_claim::CancelledDuringClaim;
use crate::config::{ATTEMPT_TIMEOUT, IN_FLIGHT_PER_HOST, LEASE, micros};
use crate::fire::HeldArm;
use crate::fire_queue::{FireQueue, Limits};
use crate::heap::Heap;
use crate::held::HeldArms;
use crate::prewake::Prewake;
use crate::rate_limit::RateLimit;
use crate::socket_target::SocketTarget;
use crate::target::FireTarget;
use crate::{Config, Fault, Metrics, retry};

/// How long a shutdown waits for running fires.
const CLOSED_WITHIN: Duration = Duration::from_secs(7);
/// Arms held at once. Further due arms stay in the heap.
const HELD: usize = 8192;

/// Pause before an attempt is repeated whose outcome was lost in a crash.
const ORPHAN_PAUSE: Duration = Duration::from_secs(1);

/// How often the clock checks whether the wall clock was set.
const STEP_LOOK: Duration = Duration::from_secs(5);
/// Smallest change that counts as a step of the wall clock.
pub(crate) const STEP_US: u64 = 1_000_000;

/// Parts that the clock is built from. It gets a signer, never the vault.
pub struct Parts {
    pub config: Config,
    pub arms: Arc<dyn Arms>,
    pub signer: Signer,
    pub relay: Relay,
    pub identity: Identity,
    pub errand: Errand,
    /// Public URL of the server as agents know it. It is the exact `iss` of every fire token.
    pub issuer: String,
    pub timepiece: Timepiece,
}

/// Managed cron. A handle that is cheap to clone.
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
    /// Difference between the wall clock and the monotonic clock when the loop last checked, in microseconds.
    pub lead: AtomicI64,
    pub held: HeldArms,
    pub cancelled: CancelledDuringClaim,
    pub queue: Mutex<FireQueue<HeldArm>>,
    pub callback: Arc<dyn FireTarget>,
    pub socket: Arc<dyn FireTarget>,
    /// Registered targets of alarms, by name.
    pub targets: DashMap<&'static str, Arc<dyn FireTarget>>,
    pub identity: Identity,
    pub rate_limit: RateLimit,
    pub prewake: Prewake,
    /// Stamps of external schedulers that were used, kept for as long as they would be accepted.
    pub used_stamps: Cache<(i64, [u8; 32]), ()>,
    /// Instances with an arm that failed or was given up. Dead arms are looked up only for these agents.
    pub troubled: DashSet<InstanceId>,
    /// Name of this node in leases.
    pub owner: String,
    pub tasks: TaskTracker,
    pub closing: CancellationToken,
}

impl Clock {
    pub fn new(parts: Parts) -> Result<Self, Fault> {
        let Parts { config, arms, signer, relay, identity, errand, issuer, timepiece } = parts;
        let limits = Limits {
            in_all: config.in_flight,
            per_instance: config.in_flight_per_agent,
            per_host: IN_FLIGHT_PER_HOST,
        };
        let callback = Callback {
            errand: errand.clone(),
            signer: signer.clone(),
            issuer,
            timeout: ATTEMPT_TIMEOUT,
            timepiece: timepiece.clone(),
        };
        let socket = SocketTarget { relay: relay.clone(), timeout: ATTEMPT_TIMEOUT };
        Ok(Self(Arc::new(Inner {
            heap: Heap::new(),
            lead: AtomicI64::new(0),
            held: HeldArms::new(HELD),
            cancelled: CancelledDuringClaim::default(),
            queue: Mutex::new(FireQueue::new(limits)),
            callback: Arc::new(callback),
            socket: Arc::new(socket),
            targets: DashMap::new(),
            identity,
            rate_limit: RateLimit::new(config.requests_per_second, config.requests_at_once),
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

    /// Runs the loops of this plane until the server shuts down.
    pub async fn run(&self) -> Result<(), Fault> {
        self.take_over().await?;
        // All loops end when the server shuts down. A fault in one ends the others at once.
        tokio::try_join!(
            self.keep_due(),
            self.keep_leases(),
            self.follow_wall_clock(),
            self.hear_arrivals(),
            self.keep_waking_ahead()
        )?;
        Ok(())
    }

    /// After a start: frees the arms that the last process held, and finds the agents with dead arms again.
    async fn take_over(&self) -> Result<(), Fault> {
        let now = self.0.timepiece.now();
        let freed = self.0.arms.free_orphans(&self.0.owner, now, ORPHAN_PAUSE).await?;
        if !freed.is_empty() {
            tracing::info!(arms = freed.len(), "took over arms whose last attempt has no recorded outcome");
        }
        self.0.arms.move_retries(now, retry::LONGEST).await?;
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

    /// Renews the leases of all held arms. Arms that another node has taken over meanwhile are dropped.
    async fn keep_leases(&self) -> Result<(), Fault> {
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
                () = self.0.timepiece.after(LEASE / 3) => {}
            }
            let keys = self.0.held.claimed();
            if keys.is_empty() {
                continue;
            }
            match self.0.arms.renew(keys, &self.0.owner, self.lease_until()).await {
                Ok(lost) => lost.into_iter().for_each(|lost| self.let_go(lost)),
                Err(fault) => tracing::error!(%fault, "could not renew the leases of held arms"),
            }
        }
    }

    /// Wakes the main loop when the wall clock was set, because it may not notice this while it sleeps.
    async fn follow_wall_clock(&self) -> Result<(), Fault> {
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
                () = self.0.timepiece.after(STEP_LOOK) => {}
            }
            // Compared with the value that the main loop uses: it may have seen a step that was undone since.
            if self.0.lead.load(Ordering::Relaxed).abs_diff(self.wall_lead()) > STEP_US {
                self.0.heap.nudge.notify_one();
            }
        }
    }

    /// Difference between the wall clock and the monotonic clock, in microseconds. It changes when the wall
    /// clock is set.
    pub(crate) fn wall_lead(&self) -> i64 {
        let (wall, instant) = self.0.timepiece.readings();
        wall.millis().saturating_mul(1000).saturating_sub(micros(instant.since(Instant::default())))
    }

    /// An agent that connects is alive, so its dead arms are tried again at once.
    async fn hear_arrivals(&self) -> Result<(), Fault> {
        let mut arrivals = self.0.relay.fires().arrivals();
        loop {
            tokio::select! {
                () = self.0.closing.cancelled() => return Ok(()),
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

    /// Called after the commit of a cancel or of a newer arm: no attempt of this arm begins from here on.
    pub(crate) fn drop_cancelled(&self, key: ArmKey) {
        self.0.cancelled.note(key);
        self.let_go(key);
    }

    fn let_go(&self, key: ArmKey) {
        self.0.held.remove_waiting(key);
    }

    pub(crate) fn lease_until(&self) -> Moment {
        self.0.timepiece.now() + LEASE
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.0.timepiece.now().millis().saturating_mul(1000)
    }

    /// Stops claiming, waits for running fires, and puts back arms that were not begun.
    pub async fn close(&self) {
        self.0.closing.cancel();
        let waiting = self.0.queue.lock().drain();
        for held in waiting {
            self.put_back(&held.arm).await;
        }
        self.0.tasks.close();
        if self.0.timepiece.within(CLOSED_WITHIN, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("the clock closed while fires were still running");
        }
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub fn signer(&self) -> &Signer {
        &self.0.signer
    }
}
