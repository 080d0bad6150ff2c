//! Fixtures for the clock: server folders with agents, clients, tokens and arms, prepared before a server
//! runs.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use ledger::{Armed, Generation, Instance, Ledger, Location, NewArm, Owner, Roster, Tenant};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{FireAt, FireProof, Policy, Provision};
use posthouse_wire::{InstanceId, JobId, ScheduleId, Secret, TenantId};
use vault::{Keyring, MasterKeys, Vault};

use super::super::fixtures::{BenchFolder, made};

/// Concurrent writes, which share commits.
const AT_ONCE: usize = 1024;
/// Job quota per agent, so high that no measurement reaches it.
const QUOTA: u32 = 1_000_000;

/// A server folder on which no server runs yet.
pub struct ClockFixture {
    pub folder: PathBuf,
    pub agents: Vec<ClockAgent>,
}

/// One agent, and its credential for the clock.
pub struct ClockAgent {
    pub instance: InstanceId,
    pub access: Secret,
}

/// A job to arm, with the number of its agent.
pub struct JobToArm {
    pub agent: usize,
    pub job: String,
    pub due_us: i64,
    pub callback: String,
}

/// Settings for a server that may call this machine, with a rate limit that agents do not reach.
pub fn settings() -> Vec<(&'static str, String)> {
    vec![
        ("POSTHOUSE_ERRAND__ALLOW_HTTP", "true".to_owned()),
        ("POSTHOUSE_ERRAND__ALLOW_CIDRS", "127.0.0.0/8".to_owned()),
        ("POSTHOUSE_CLOCK__ARMS_PER_AGENT", QUOTA.to_string()),
        ("POSTHOUSE_CLOCK__REQUESTS_PER_SECOND", "100000".to_owned()),
    ]
}

impl ClockFixture {
    pub async fn prepare(bench_folder: &BenchFolder, agents: u32) -> anyhow::Result<Self> {
        let folder = bench_folder.server_folder();
        crate::wiring::init(&folder).await?;
        let timepiece = Timepiece::wall();
        let ledger = Ledger::open(Location::Folder(folder.clone()), timepiece.clone()).await?;
        let keys = MasterKeys::read(&Secret::new(std::fs::read_to_string(folder.join("vault.key"))?))?;
        let (facts, now) = (ledger.facts(), timepiece.now());
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*facts, timepiece).await?;
        let tenant = TenantId::mint(now.millis());
        let record = Tenant { id: tenant.clone(), name: "bench".to_owned(), created: now };
        made(ledger.roster().create_tenant(record).await?)?;
        let writer = ClockFixtureWriter { roster: ledger.roster(), keyring: vault.keyring(), tenant, now };
        let agents = stream::iter(0..agents).map(|at| writer.agent(at)).buffered(AT_ONCE);
        let agents = agents.try_collect().await?;
        // The ledger can be opened by the server only after the last handle is dropped.
        drop((writer, vault, facts, ledger));
        Ok(Self { folder, agents })
    }

    /// Arms directly in the ledger, because arming is not measured here.
    pub async fn arm(&self, jobs: impl Iterator<Item = JobToArm>) -> anyhow::Result<()> {
        let timepiece = Timepiece::wall();
        let ledger = Ledger::open(Location::Folder(self.folder.clone()), timepiece.clone()).await?;
        let (arms, now) = (ledger.arms(), timepiece.now());
        let arming = stream::iter(jobs).map(|new| arms.arm(self.new_arm(new, now), QUOTA, now));
        let mut arming = arming.buffer_unordered(AT_ONCE);
        while let Some(armed) = arming.next().await {
            let armed = armed?;
            ensure!(matches!(armed, Armed::New { .. }), "a fresh server refused a job: {armed:?}");
        }
        drop(arming);
        drop((arms, ledger));
        Ok(())
    }

    fn new_arm(&self, new: JobToArm, now: Moment) -> NewArm {
        let (job, fire_at) = (JobId::from(new.job), FireAt::from_micros(new.due_us));
        NewArm {
            instance: self.agents[new.agent % self.agents.len()].instance.clone(),
            schedule: ScheduleId::mint(now.millis()),
            dedup: Provision::dedup_key(&job, &fire_at),
            next_us: fire_at.due_us(),
            job,
            fire_at,
            callback: Some(new.callback),
            proof: FireProof::PortalJwt,
            policy: Policy::default(),
            then: Vec::new(),
        }
    }
}

struct ClockFixtureWriter {
    roster: Arc<dyn Roster>,
    keyring: Keyring,
    tenant: TenantId,
    now: Moment,
}

impl ClockFixtureWriter {
    async fn agent(&self, at: u32) -> anyhow::Result<ClockAgent> {
        let instance = InstanceId::mint(self.now.millis());
        let record = Instance {
            id: instance.clone(),
            tenant: self.tenant.clone(),
            name: format!("agent-{at}"),
            wake_url: None,
            callback_url: None,
            generation: Generation::default(),
            idle: false,
            created: self.now,
        };
        made(self.roster.create_instance(record).await?)?;
        let client = self.keyring.create_client(&Owner::Instance(instance.clone())).await?;
        let (client, _) = client.context("a fresh agent was refused a client")?;
        let grant = self.keyring.grant_access(&client).await?;
        let access = grant.context("a fresh client was refused a token")?.access_token;
        Ok(ClockAgent { instance, access })
    }
}
