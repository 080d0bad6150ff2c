//! Fixtures of unit tests: components of the clock built alone, over a ledger in memory, with a clock driven by hand.

use std::sync::Arc;

use async_trait::async_trait;
use bus::Bus;
use errand::Errand;
use identity::{Enrolment, Identity};
use ledger::{Arm, Ledger, Location};
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{FireAt, FireProof, Policy, Provision};
use posthouse_wire::{InstanceId, JobId, Secret};
use relay::Relay;
use vault::{Algorithm, MasterKeys, Signer, Vault};

use crate::arm::{Arming, ArmingParts};
use crate::background::ClockTasks;
use crate::fire::{Firing, FiringParts};
use crate::fire_targets::FireTargets;
use crate::heap::Heap;
use crate::leases::Leases;
use crate::prewake::{Prewake, PrewakeParts};
use crate::revivals::Revivals;
use crate::target::{FireOutcome, FireTarget};
use crate::wake_requests::WakeRequests;
use crate::{Config, Metrics};

/// A ledger in memory, what the clock uses of other planes, and one agent.
pub(crate) struct CronRecords {
    pub ledger: Ledger,
    pub relay: Relay,
    pub signer: Signer,
    pub errand: Errand,
    pub heap: Arc<Heap>,
    pub metrics: Arc<Metrics>,
    pub background: ClockTasks,
    pub heron: InstanceId,
}

impl CronRecords {
    pub async fn open() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let timepiece = Timepiece::wound(Moment::from_seconds(1_800_000_000));
        let ledger = Ledger::open(Location::Memory, timepiece.clone()).await.unwrap();
        let key = Secret::new("test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let keys = MasterKeys::read(&key).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), timepiece.clone())
            .await
            .unwrap();
        let (bus, errand) = (Bus::local(), Errand::new(errand::Config::loopback()));
        let identity = Identity::new(identity::Parts::over(
            &ledger,
            vault.keyring(),
            bus.clone(),
            errand.clone(),
            timepiece.clone(),
        ));
        let relay = Relay::new(relay::Parts {
            config: relay::Config::default(),
            inbox: ledger.inbox(),
            outbox: ledger.outbox(),
            identity: identity.clone(),
            bus,
            errand: errand.clone(),
            media: relay::MediaParts {
                records: ledger.media(),
                usage: ledger.usage(),
                folder: "never-written".into(),
                public_url: "https://server.example".to_owned(),
            },
            timepiece: timepiece.clone(),
        });
        identity.accounts.create_tenant("acme").await.unwrap().unwrap();
        let heron = Enrolment { tenant: "acme".to_owned(), name: "heron".to_owned(), ..Enrolment::default() };
        let heron = identity.accounts.enrol(heron).await.unwrap().unwrap().instance.id;
        let heap = Arc::new(Heap::new());
        heap.reach(i64::MAX);
        Self {
            signer: vault.signer(Algorithm::Es256).await.unwrap(),
            background: ClockTasks::new(timepiece),
            metrics: Arc::default(),
            ledger,
            relay,
            errand,
            heap,
            heron,
        }
    }

    pub fn wake_requests(&self) -> Arc<WakeRequests> {
        Arc::new(WakeRequests::new(
            Arc::clone(self.relay.wake_calls()),
            self.ledger.roster(),
            Arc::clone(&self.metrics),
            self.background.clone(),
        ))
    }

    pub fn prewake(&self, is_on: bool) -> Arc<Prewake> {
        Arc::new(Prewake::new(PrewakeParts {
            is_on,
            per_agent: 10,
            arms: self.ledger.arms(),
            connections: Arc::clone(self.relay.connections()),
            wake_requests: self.wake_requests(),
            background: self.background.clone(),
        }))
    }

    pub fn revivals(&self) -> Arc<Revivals> {
        Arc::new(Revivals::new(
            self.ledger.arms(),
            Arc::clone(&self.heap),
            Arc::clone(&self.metrics),
            self.background.clone(),
        ))
    }

    pub fn leases(&self) -> Arc<Leases> {
        Arc::new(Leases::new(
            self.ledger.arms(),
            Arc::clone(&self.heap),
            self.prewake(false),
            "node-1".to_owned(),
            self.background.clone(),
        ))
    }

    pub fn arming(&self, leases: &Arc<Leases>) -> Arming {
        Arming::new(ArmingParts {
            arms: self.ledger.arms(),
            heap: Arc::clone(&self.heap),
            leases: Arc::clone(leases),
            prewake: self.prewake(false),
            signer: self.signer.clone(),
            errand: self.errand.clone(),
            per_agent: 10,
            metrics: Arc::clone(&self.metrics),
            timepiece: self.background.timepiece.clone(),
        })
    }

    pub fn firing(&self, leases: &Arc<Leases>, revivals: &Arc<Revivals>) -> Arc<Firing> {
        Arc::new(Firing::new(FiringParts {
            config: Config::default(),
            leases: Arc::clone(leases),
            prewake: self.prewake(false),
            revivals: Arc::clone(revivals),
            wake_requests: self.wake_requests(),
            metrics: Arc::clone(&self.metrics),
            background: self.background.clone(),
        }))
    }

    /// Arms a job of heron for a time from now.
    pub async fn arm(&self, leases: &Arc<Leases>, job: &str, in_ms: i64) -> Arm {
        let agent = self.ledger.roster().instance(&self.heron).await.unwrap().unwrap();
        let fire_at = FireAt::from_micros(self.background.now_us() + in_ms * 1000);
        let job = JobId::new(job);
        let request = Provision {
            dedup: Provision::dedup_key(&job, &fire_at),
            job: job.clone(),
            fire_at,
            callback: None,
            proof: FireProof::PortalJwt,
            policy: Policy::default(),
            then: Vec::new(),
        };
        self.arming(leases).provision(&agent, request).await.unwrap();
        self.ledger.arms().pending(&self.heron, &job).await.unwrap().unwrap()
    }
}

/// A target that records the jobs it is called for, and always gives the same answer.
pub(crate) struct FixedAnswerTarget {
    pub fired: Mutex<Vec<JobId>>,
    pub outcome: FireOutcome,
}

impl FixedAnswerTarget {
    pub fn answering(outcome: FireOutcome) -> Arc<Self> {
        Arc::new(Self { fired: Mutex::default(), outcome })
    }

    /// Targets of which every one is this.
    pub fn everywhere(self: &Arc<Self>) -> Arc<FireTargets> {
        Arc::new(FireTargets::new(Arc::clone(self) as Arc<dyn FireTarget>, Arc::clone(self) as _))
    }
}

#[async_trait]
impl FireTarget for FixedAnswerTarget {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        self.fired.lock().push(arm.job.clone());
        self.outcome.clone()
    }

    fn host(&self, _: &Arm) -> String {
        String::new()
    }
}
