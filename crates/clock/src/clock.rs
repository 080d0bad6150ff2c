//! `Clock`, the handle of this plane: its components, its loops, start and shutdown.

use std::sync::Arc;

use errand::Errand;
use identity::{Authenticator, Identity};
use ledger::{Arm, ArmFilter, ArmState, Arms};
use posthouse_time::Timepiece;
use relay::{Fires, Relay};
use vault::Signer;

use crate::alarm::{AlarmParts, Alarms};
use crate::arm::{Arming, ArmingParts};
use crate::background::ClockTasks;
use crate::callback::Callback;
use crate::config::ATTEMPT_TIMEOUT;
use crate::due::DueLoop;
use crate::external_scheduler::{ExternalSchedulerParts, ExternalSchedulers};
use crate::fire::{Firing, FiringParts};
use crate::fire_targets::FireTargets;
use crate::heap::Heap;
use crate::leases::Leases;
use crate::operator::{CronJobParts, CronJobs};
use crate::prewake::{Prewake, PrewakeParts};
use crate::rate_limit::RateLimit;
use crate::revivals::Revivals;
use crate::socket_target::SocketTarget;
use crate::wake_requests::WakeRequests;
use crate::wall_clock::WallClock;
use crate::{Config, Fault, Metrics};

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
pub struct Clock(pub(crate) Arc<ClockComponents>);

/// The components. Each owns its state, and holds only the components that it calls.
pub(crate) struct ClockComponents {
    pub arms: Arc<dyn Arms>,
    pub signer: Signer,
    pub authenticator: Authenticator,
    pub rate_limit: RateLimit,
    pub metrics: Arc<Metrics>,
    pub background: ClockTasks,
    pub arming: Arming,
    pub jobs: CronJobs,
    pub revivals: Arc<Revivals>,
    pub external_schedulers: ExternalSchedulers,
    alarms: Alarms,
    heap: Arc<Heap>,
    wall_clock: Arc<WallClock>,
    leases: Arc<Leases>,
    firing: Arc<Firing>,
    due_loop: DueLoop,
    prewake: Arc<Prewake>,
    fires: Arc<Fires>,
}

impl Clock {
    /// Builds the components, the ones that others call first.
    pub fn new(parts: Parts) -> Result<Self, Fault> {
        let Parts { config, arms, signer, relay, identity, errand, issuer, timepiece } = parts;
        let metrics = Arc::<Metrics>::default();
        let background = ClockTasks::new(timepiece.clone());
        let heap = Arc::new(Heap::new());
        let wall_clock = Arc::new(WallClock::new(timepiece.clone()));
        let revivals = Arc::new(Revivals::new(
            Arc::clone(&arms),
            Arc::clone(&heap),
            Arc::clone(&metrics),
            background.clone(),
        ));
        let wake_requests = Arc::new(WakeRequests::new(
            Arc::clone(relay.wake_calls()),
            Arc::clone(identity.roster.records()),
            Arc::clone(&metrics),
            background.clone(),
        ));
        let prewake = Arc::new(Prewake::new(PrewakeParts {
            is_on: config.pre_wake,
            per_agent: config.arms_per_agent,
            arms: Arc::clone(&arms),
            connections: Arc::clone(relay.connections()),
            wake_requests: Arc::clone(&wake_requests),
            background: background.clone(),
        }));
        let leases = Arc::new(Leases::new(
            Arc::clone(&arms),
            Arc::clone(&heap),
            Arc::clone(&prewake),
            vault::random_hex(8)?.expose().to_owned(),
            background.clone(),
        ));
        let callback = Callback {
            errand: errand.clone(),
            signer: signer.clone(),
            issuer,
            timeout: ATTEMPT_TIMEOUT,
            timepiece: timepiece.clone(),
        };
        let socket = SocketTarget { fires: Arc::clone(relay.fires()), timeout: ATTEMPT_TIMEOUT };
        let targets = Arc::new(FireTargets::new(Arc::new(callback), Arc::new(socket)));
        let firing = Arc::new(Firing::new(FiringParts {
            config: config.clone(),
            leases: Arc::clone(&leases),
            prewake: Arc::clone(&prewake),
            revivals: Arc::clone(&revivals),
            wake_requests,
            metrics: Arc::clone(&metrics),
            background: background.clone(),
        }));
        let alarms = Alarms::new(AlarmParts {
            arms: Arc::clone(&arms),
            heap: Arc::clone(&heap),
            leases: Arc::clone(&leases),
            targets: Arc::clone(&targets),
            metrics: Arc::clone(&metrics),
            background: background.clone(),
        });
        Ok(Self(Arc::new(ClockComponents {
            arming: Arming::new(ArmingParts {
                arms: Arc::clone(&arms),
                heap: Arc::clone(&heap),
                leases: Arc::clone(&leases),
                prewake: Arc::clone(&prewake),
                signer: signer.clone(),
                errand,
                per_agent: config.arms_per_agent,
                metrics: Arc::clone(&metrics),
                timepiece,
            }),
            jobs: CronJobs::new(CronJobParts {
                arms: Arc::clone(&arms),
                heap: Arc::clone(&heap),
                targets: Arc::clone(&targets),
                prewake: Arc::clone(&prewake),
                background: background.clone(),
            }),
            external_schedulers: ExternalSchedulers::new(ExternalSchedulerParts {
                signer: signer.clone(),
                arms: Arc::clone(&arms),
                leases: Arc::clone(&leases),
                firing: Arc::clone(&firing),
                targets: Arc::clone(&targets),
                guard_us: config.guard_us(),
                background: background.clone(),
            }),
            rate_limit: RateLimit::new(config.requests_per_second, config.requests_at_once),
            due_loop: DueLoop {
                arms: Arc::clone(&arms),
                heap: Arc::clone(&heap),
                wall_clock: Arc::clone(&wall_clock),
                leases: Arc::clone(&leases),
                targets,
                firing: Arc::clone(&firing),
                alarms: alarms.clone(),
                metrics: Arc::clone(&metrics),
                background: background.clone(),
                config,
            },
            authenticator: identity.authenticator,
            fires: Arc::clone(relay.fires()),
            arms,
            signer,
            revivals,
            metrics,
            background,
            alarms,
            heap,
            wall_clock,
            leases,
            firing,
            prewake,
        })))
    }

    /// Runs the loops of this plane until the server shuts down.
    pub async fn run(&self) -> Result<(), Fault> {
        let components = &*self.0;
        components.leases.take_over().await?;
        self.find_agents().await?;
        // All loops end when the server shuts down. A fault in one ends the others at once.
        tokio::try_join!(
            components.due_loop.run(),
            components.leases.renew_until_shutdown(),
            components.wall_clock.keep_watch(&components.heap, &components.background),
            components.revivals.follow_connecting_agents(&components.fires),
            components.prewake.keep_waking()
        )?;
        Ok(())
    }

    /// After a start: finds the agents with dead arms again, and those to be woken ahead of their due time.
    async fn find_agents(&self) -> Result<(), Fault> {
        let (revivals, prewake) = (&self.0.revivals, &self.0.prewake);
        self.each_arm(ArmState::Dead, |arm| revivals.note_trouble(&arm.instance)).await?;
        if prewake.is_on() {
            self.each_arm(ArmState::Armed, |arm| prewake.plan_check(&arm.instance, arm.next_us)).await?;
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

    /// Stops claiming, waits for running fires, and puts back arms that were not begun.
    pub async fn close(&self) {
        self.0.background.closing.cancel();
        self.0.firing.close().await;
        self.0.background.wait().await;
    }

    /// Timers of other planes.
    pub fn alarms(&self) -> &Alarms {
        &self.0.alarms
    }

    /// What the operator sees of jobs and does with them.
    pub fn jobs(&self) -> &CronJobs {
        &self.0.jobs
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub fn signer(&self) -> &Signer {
        &self.0.signer
    }
}
