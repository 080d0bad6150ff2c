//! Fixtures: server folders with enrolled agents, prepared before a server runs on them.

mod linked;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use ledger::{Bot, Created, Discriminator, Generation, Instance, Ledger, Location, Roster, Route, Tenant};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{BotId, ChatId, GatewayId, InstanceId, Platform, Secret, TenantId};
use vault::{Credentials, Keyring, MasterKeys, Vault};

/// The platform that delivers; what its bots answer goes nowhere.
pub const PLATFORM: &str = "telegram";
/// A port without a listener, instead of the platform's API.
const NOWHERE: &str = "http://127.0.0.1:9";
/// The name of every bot.
pub const BOT_NAME: &str = "bench_bot";
/// The bot that all agents share, if the server has a shared bot.
pub const SHARED_BOT: &str = "7000000000";
/// Concurrent enrolments, which share commits.
const AT_ONCE: usize = 1024;

/// Folder for the server folders of this run, removed at the end.
pub struct BenchFolder {
    folder: PathBuf,
    made: AtomicU32,
}

impl BenchFolder {
    pub fn new(within: Option<&Path>) -> anyhow::Result<Self> {
        let within = within.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = within.join(format!("posthouse-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = folder.canonicalize()?;
        Ok(Self { folder, made: AtomicU32::new(0) })
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Path for the next server folder.
    pub fn server_folder(&self) -> PathBuf {
        self.folder.join(format!("server-{}", self.made.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("bench: {} could not be removed: {error}", self.folder.display());
        }
    }
}

/// The agents to enrol.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Agents that take the load.
    pub loaded: u32,
    pub chats: u32,
    /// One bot for all agents, routed chat by chat; otherwise each has its own bot.
    pub shared: bool,
    /// Further agents, each of its own tenant, with one chat each on the shared bot.
    pub idle: u32,
}

/// A server folder on which no server runs yet.
pub struct ServerFixture {
    pub folder: PathBuf,
    /// The webhook secret of every bot of this server.
    pub webhook_secret: Secret,
    pub loaded: Vec<BenchAgent>,
    pub idle: Vec<BenchAgent>,
}

/// The credential of one agent, and the name by which programs of its tenant address it.
#[derive(Clone)]
pub struct BenchAgent {
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub name: String,
    pub gateway: GatewayId,
    pub secret: Secret,
    pub bot: BotId,
}

/// The platform's API, and the bot's token for it.
pub struct BotApi {
    pub base_url: String,
    pub token: Secret,
}

impl BotApi {
    /// No API: what the bot sends goes nowhere.
    fn none(bot: &BotId) -> anyhow::Result<Self> {
        let token = Secret::new(format!("{bot}:{}", vault::random_hex(16)?.expose()));
        Ok(Self { base_url: NOWHERE.to_owned(), token })
    }
}

/// The chat from which one poster writes.
pub fn busy_chat(at: u32) -> u64 {
    5_000_000_000 + u64::from(at)
}

/// The poster to which a chat belongs. The chat of a program is named after the program.
pub fn poster_of(chat: &str) -> Option<usize> {
    let chat = chat.strip_prefix("post-").unwrap_or(chat);
    usize::try_from(chat.parse::<u64>().ok()?.checked_sub(busy_chat(0))?).ok()
}

impl ServerFixture {
    pub async fn prepare(bench_folder: &BenchFolder, plan: Plan) -> anyhow::Result<Self> {
        let folder = bench_folder.server_folder();
        crate::wiring::init(&folder).await?;
        let (ledger, writer) = ServerFixtureWriter::open(&folder, &Timepiece::wall()).await?;
        if plan.shared || plan.idle > 0 {
            let bot = BotId::new(SHARED_BOT);
            writer.bot(&bot, true, &BotApi::none(&bot)?).await?;
        }
        let mut loaded = Vec::new();
        for at in 0..plan.loaded {
            loaded.push(writer.loaded_agent(at, plan).await?);
        }
        let idle = stream::iter(0..plan.idle).map(|at| writer.idle_agent(at));
        let idle = idle.buffer_unordered(AT_ONCE).try_collect().await?;
        let webhook_secret = writer.webhook_secret.clone();
        drop((writer, ledger));
        Ok(Self { folder, webhook_secret, loaded, idle })
    }

    /// Issues a second credential to an agent. Call it before a server runs.
    pub async fn another_credential(&self, agent: &BenchAgent) -> anyhow::Result<BenchAgent> {
        let timepiece = Timepiece::wall();
        let (_ledger, vault) = unlock(&self.folder, &timepiece).await?;
        let gateway = GatewayId::mint(timepiece.now().millis());
        let issued = vault.keyring().issue(&gateway, &agent.instance).await?;
        let secret = issued.context("a second credential was refused")?;
        Ok(BenchAgent { gateway, secret, ..agent.clone() })
    }
}

async fn unlock(folder: &Path, timepiece: &Timepiece) -> anyhow::Result<(Ledger, Vault)> {
    let ledger = Ledger::open(Location::Folder(folder.to_owned()), timepiece.clone()).await?;
    let keys = MasterKeys::read(&Secret::new(std::fs::read_to_string(folder.join("vault.key"))?))?;
    let vault =
        Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), timepiece.clone()).await?;
    Ok((ledger, vault))
}

struct ServerFixtureWriter {
    roster: Arc<dyn Roster>,
    keyring: Keyring,
    vault: Vault,
    now: Moment,
    webhook_secret: Secret,
}

impl ServerFixtureWriter {
    /// The ledger can be opened by the server only after both are dropped.
    async fn open(folder: &Path, timepiece: &Timepiece) -> anyhow::Result<(Ledger, Self)> {
        let (ledger, vault) = unlock(folder, timepiece).await?;
        let writer = Self {
            roster: ledger.roster(),
            keyring: vault.keyring(),
            vault,
            now: timepiece.now(),
            webhook_secret: vault::random_hex(32)?,
        };
        Ok((ledger, writer))
    }

    async fn loaded_agent(&self, at: u32, plan: Plan) -> anyhow::Result<BenchAgent> {
        let name = format!("loaded-{at}");
        let (tenant, instance, gateway, secret) = self.agent(&name).await?;
        let bot = if plan.shared {
            let bot = BotId::new(SHARED_BOT);
            for chat in (at..plan.chats).step_by(plan.loaded as usize) {
                let chat = ChatId::from(busy_chat(chat).to_string());
                self.route(&bot, Discriminator::Chat(chat), &instance).await?;
            }
            bot
        } else {
            let bot = BotId::from((7_100_000_000 + u64::from(at)).to_string());
            self.bot(&bot, false, &BotApi::none(&bot)?).await?;
            self.route(&bot, Discriminator::Any, &instance).await?;
            bot
        };
        Ok(BenchAgent { tenant, instance, name, gateway, secret, bot })
    }

    async fn idle_agent(&self, at: u32) -> anyhow::Result<BenchAgent> {
        let name = format!("idle-{at}");
        let (tenant, instance, gateway, secret) = self.agent(&name).await?;
        let bot = BotId::new(SHARED_BOT);
        let chat = ChatId::from((6_000_000_000 + u64::from(at)).to_string());
        self.route(&bot, Discriminator::Chat(chat), &instance).await?;
        Ok(BenchAgent { tenant, instance, name, gateway, secret, bot })
    }

    /// A tenant, its only agent, and that agent's credential.
    async fn agent(&self, name: &str) -> anyhow::Result<(TenantId, InstanceId, GatewayId, Secret)> {
        let millis = self.now.millis();
        let (tenant, instance, gateway) =
            (TenantId::mint(millis), InstanceId::mint(millis), GatewayId::mint(millis));
        made(
            self.roster
                .create_tenant(Tenant { id: tenant.clone(), name: name.to_owned(), created: self.now })
                .await?,
        )?;
        let record = Instance {
            id: instance.clone(),
            tenant: tenant.clone(),
            name: name.to_owned(),
            wake_url: None,
            callback_url: None,
            generation: Generation::default(),
            idle: false,
            created: self.now,
        };
        made(self.roster.create_instance(record).await?)?;
        let secret =
            self.keyring.issue(&gateway, &instance).await?.context("a fresh credential was refused")?;
        Ok((tenant, instance, gateway, secret))
    }

    async fn bot(&self, id: &BotId, shared: bool, api: &BotApi) -> anyhow::Result<()> {
        let settings = serde_json::json!({
            "mode": "webhook", "username": BOT_NAME, "bot_user_id": id.as_str(), "api_base_url": api.base_url,
        });
        let platform = Platform::new(PLATFORM);
        let record = Bot {
            platform: platform.clone(),
            id: id.clone(),
            shared,
            principals: ledger::PrincipalPolicy::Any,
            settings: settings.to_string(),
            created: self.now,
        };
        made(self.roster.create_bot(record).await?)?;
        let mut credentials = Credentials::default();
        credentials.insert("token", api.token.clone());
        credentials.insert("webhook_secret", self.webhook_secret.clone());
        self.vault.keep(&platform, id, &credentials).await?;
        Ok(())
    }

    async fn route(&self, bot: &BotId, discriminator: Discriminator, to: &InstanceId) -> anyhow::Result<()> {
        let route = Route {
            platform: Platform::new(PLATFORM),
            bot: bot.clone(),
            discriminator,
            instance: to.clone(),
            created: self.now,
            profile: None,
        };
        made(self.roster.create_route(route).await?)
    }
}

/// Fails unless the record was created.
pub fn made(created: Created) -> anyhow::Result<()> {
    ensure!(created == Created::Made, "a fresh server refused an enrolment: {created:?}");
    Ok(())
}
