//! Test fixture: a server that runs skills over the real clock, post and ledger, with time driven by hand.

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use clock::Clock;
use errand::Errand;
use identity::Identity;
use ledger::{Ledger, Location, RunFilter, SkillRuns, StoredRun};
use post::{Caller, Post};
use posthouse_time::Timepiece;
use posthouse_wire::{Secret, TenantId};
use relay::Relay;
use skill::RunTrigger;
use vault::{MasterKeys, Vault};
use workshop::{
    Config, CustomStores, Parts, RunOrder, RunText, RunnerParts, SkillRunner, SkillWrite, Workshop,
};

use crate::fixtures::START;

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A server that runs skills, without HTTP. `START` is at midnight.
pub struct SkillServer {
    pub time: Timepiece,
    pub ledger: Ledger,
    pub clock: Clock,
    pub runner: SkillRunner,
    pub workshop: Workshop,
    pub acme: TenantId,
    pub program: Caller,
}

impl SkillServer {
    pub async fn open() -> Self {
        Self::open_with(Config::default()).await
    }

    pub async fn open_with(settings: Config) -> Self {
        Self::open_over(settings, CustomStores::default(), |runs| runs).await
    }

    /// With stores of the test, and with its own view of the records of runs.
    pub async fn open_over(
        settings: Config,
        custom_stores: CustomStores,
        runs: impl FnOnce(Arc<dyn SkillRuns>) -> Arc<dyn SkillRuns>,
    ) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let time = Timepiece::wound(START);
        let ledger = Ledger::open(Location::Memory, time.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let (tokens, facts) = (ledger.tokens(), ledger.facts());
        let vault = Vault::unlock(keys, ledger.vault(), tokens, &*facts, time.clone()).await.unwrap();
        let (errand, bus) = (Errand::new(errand::Config::loopback()), Bus::local());
        let identity = Identity::new(identity::Parts::over(
            &ledger,
            vault.keyring(),
            bus.clone(),
            errand.clone(),
            time.clone(),
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
                folder: "/nonexistent/media".into(),
                public_url: "https://house.example".to_owned(),
            },
            timepiece: time.clone(),
        });
        let config = clock::Config::default();
        let signer = vault.signer(config.signing).await.unwrap();
        let clock = Clock::new(clock::Parts {
            config,
            arms: ledger.arms(),
            signer: signer.clone(),
            identity: identity.clone(),
            relay: relay.clone(),
            errand: errand.clone(),
            issuer: "https://house.example".to_owned(),
            timepiece: time.clone(),
        })
        .unwrap();
        let post = Post::new(post::Parts {
            config: post::Config::default(),
            receipts: ledger.receipts(),
            exchanges: ledger.exchanges(),
            connectors: ledger.connectors(),
            usage: ledger.usage(),
            identity: identity.clone(),
            relay,
            clock: clock.clone(),
            webhook_signer: vault.webhook_signer(&signer),
            errand: errand.clone(),
            public_url: "https://house.example".to_owned(),
            timepiece: time.clone(),
        });
        let acme = identity.accounts.create_tenant("acme").await.unwrap().unwrap().unwrap().id;
        let workshop = Workshop::new(Parts {
            config: settings.clone(),
            skills: ledger.skills(),
            approval: ledger.skill_approval(),
            usage: ledger.usage(),
            data: ledger.data(),
            roster: identity.roster.clone(),
            callers: post.callers().clone(),
            errand: errand.clone(),
            webhook_signer: vault.webhook_signer(&signer),
            custom_stores,
            timepiece: time.clone(),
        });
        let runner = SkillRunner::new(RunnerParts {
            config: settings.clone(),
            workshop: workshop.clone(),
            post,
            runs: runs(ledger.skill_runs()),
            triggers: ledger.skill_triggers(),
            secrets: vault.skill_secrets(),
            errand,
            alarms: clock.alarms().clone(),
            timepiece: time.clone(),
        });
        let program = Caller {
            client: ledger::operator_client(&acme),
            tenant: acme.clone(),
            agent: None,
            attested: None,
        };
        Self { time, ledger, clock, runner, workshop, acme, program }
    }

    /// Begins to fire alarms and to run what is queued.
    pub fn starts(&self) {
        let (clock, runner) = (self.clock.clone(), self.runner.clone());
        tokio::spawn(async move { clock.run().await });
        tokio::spawn(async move { runner.run().await });
    }

    pub async fn writes(&self, name: &str, status: &str, header: &str, ops: &str) {
        let source = format!("# Skill: {name}\n# Status: {status}\n{header}go:\n    {ops}\ndefault: go\n");
        let write = SkillWrite { source, ..SkillWrite::default() };
        self.workshop.skills().write(&self.program, name, write).await.unwrap().unwrap();
    }

    /// The result of a stored skill that the operator runs.
    pub async fn executes(&self, skill: &str) -> serde_json::Value {
        self.runner.runs().execute(&self.program, self.order(skill)).await.unwrap().envelope
    }

    /// What the operator asks for when he runs a stored skill.
    pub fn order(&self, skill: &str) -> RunOrder {
        RunOrder {
            text: RunText::Stored(skill.to_owned()),
            inputs: skill::SkillObject::default(),
            is_mechanical: false,
            trigger: RunTrigger {
                source: "inline".into(),
                name: "execute_skill".into(),
                fired_at_ms: START.millis(),
                trigger_id: None,
            },
            variables: Vec::new(),
            caller_agent: None,
        }
    }

    /// Runs that have ended, oldest first.
    pub async fn ended(&self) -> Vec<StoredRun> {
        let runs = self.ledger.skill_runs().runs(&self.acme, RunFilter::default(), None, 100).await.unwrap();
        let mut ended: Vec<StoredRun> = runs.into_iter().filter(|run| run.state.has_ended()).collect();
        ended.reverse();
        ended
    }

    /// Drives the time forward until so many runs have ended.
    pub async fn until_ended(&self, count: usize) -> Vec<StoredRun> {
        self.until(|ended| ended.len() >= count).await
    }

    /// Drives the time forward until a run of this skill has ended.
    pub async fn until_skill_ends(&self, skill: &str) {
        self.until(|ended| ended.iter().any(|run| run.run.skill == skill)).await;
    }

    pub async fn until(&self, is_enough: impl Fn(&[StoredRun]) -> bool) -> Vec<StoredRun> {
        let ended = async {
            loop {
                let ended = self.ended().await;
                if is_enough(&ended) {
                    return ended;
                }
                tokio::task::yield_now().await;
            }
        };
        self.time.wind_until(Duration::from_secs(20), ended).await
    }
}
