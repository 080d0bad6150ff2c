//! Fixtures of `bench stores`: server folders with tenants and their data, prepared before the server starts.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use ledger::{DataEntries, DataRecord, DataWritten, Ledger, Location, Owner, Tenant};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{DataId, Secret, TenantId};
use vault::{Keyring, MasterKeys, Vault};

use super::super::fixtures::{BenchFolder, made};
use super::super::stopwatch::Stopwatch;
use super::StoresArgs;
use super::corpus::Corpus;

/// Concurrent writes, which share commits.
const AT_ONCE: usize = 1024;
const SEED: u64 = 12;

/// A server folder with one tenant, and a token of it.
pub struct TenantFixture {
    pub folder: PathBuf,
    pub token: Secret,
}

impl TenantFixture {
    pub async fn prepare(bench_folder: &BenchFolder) -> anyhow::Result<Self> {
        let (folder, mut tenants, ledger) = server_with_tenants(bench_folder, 1).await?;
        drop(ledger);
        let token = tenants.pop().context("there is no tenant")?.token;
        Ok(Self { folder, token })
    }
}

/// A server folder with data of many tenants. The first tenant has half of it.
pub struct DataFixture {
    pub folder: PathBuf,
    pub tenants: Vec<TenantWithToken>,
    /// Texts of the first tenant, for words to search.
    pub sample: Vec<String>,
    pub fill_rate: f64,
}

pub struct TenantWithToken {
    pub id: TenantId,
    pub token: Secret,
}

/// One in this many texts of the first tenant is part of the sample.
const SAMPLED: u32 = 50;

impl DataFixture {
    pub async fn prepare(bench_folder: &BenchFolder, args: &StoresArgs) -> anyhow::Result<Self> {
        let (folder, tenants, ledger) = server_with_tenants(bench_folder, args.tenants).await?;
        let (data, now) = (ledger.data(), Timepiece::wall().now());
        let (mut corpus, mut sample) = (Corpus::new(SEED), Vec::new());
        let watch = Stopwatch::start();
        {
            let rows = (0..args.rows).map(|row| {
                let text = corpus.text();
                // Every second row is of the first tenant; the others take turns.
                let of = if row % 2 == 0 { 0 } else { 1 + (row / 2) % (args.tenants - 1) };
                if of == 0 && (row / 2) % SAMPLED == 0 {
                    sample.push(text.clone());
                }
                write(&data, tenants[of as usize].id.clone(), text, now)
            });
            let mut writing = stream::iter(rows).buffer_unordered(AT_ONCE);
            while writing.try_next().await?.is_some() {}
        }
        let fill_rate = f64::from(args.rows) / watch.elapsed().as_secs_f64();
        // The ledger can be opened by the server only after the last handle is dropped.
        drop((data, ledger));
        Ok(Self { folder, tenants, sample, fill_rate })
    }
}

async fn write(
    data: &Arc<dyn DataEntries>,
    tenant: TenantId,
    content: String,
    now: Moment,
) -> anyhow::Result<()> {
    let record = DataRecord {
        id: DataId::mint(now.millis()),
        content,
        tags: Vec::new(),
        attributes: None,
        metadata: None,
        created: now,
        expires: None,
    };
    let written = data.write_data(&tenant, record).await?;
    ensure!(written == DataWritten::Written, "a fresh server refused data: {written:?}");
    Ok(())
}

async fn server_with_tenants(
    bench_folder: &BenchFolder,
    count: u32,
) -> anyhow::Result<(PathBuf, Vec<TenantWithToken>, Ledger)> {
    let folder = bench_folder.server_folder();
    crate::wiring::init(&folder).await?;
    let timepiece = Timepiece::wall();
    let ledger = Ledger::open(Location::Folder(folder.clone()), timepiece.clone()).await?;
    let keys = MasterKeys::read(&Secret::new(std::fs::read_to_string(folder.join("vault.key"))?))?;
    let facts = ledger.facts();
    let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*facts, timepiece.clone()).await?;
    let mut tenants = Vec::new();
    for at in 0..count {
        let now = timepiece.now();
        let id = TenantId::mint(now.millis());
        let record = Tenant { id: id.clone(), name: format!("tenant-{at}"), created: now };
        made(ledger.roster().create_tenant(record).await?)?;
        let token = token(&vault.keyring(), &id).await?;
        tenants.push(TenantWithToken { id, token });
    }
    Ok((folder, tenants, ledger))
}

async fn token(keyring: &Keyring, tenant: &TenantId) -> anyhow::Result<Secret> {
    let client = keyring.create_client(&Owner::Tenant(tenant.clone())).await?;
    let (client, _) = client.context("a fresh tenant was refused a client")?;
    let grant = keyring.grant_access(&client).await?;
    Ok(grant.context("a fresh client was refused a token")?.access_token)
}
