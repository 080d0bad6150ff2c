//! The store of each tenant, under the tenant's approval policy.
//!
//! Settings are cached under the tenant's version in the roster, so a change takes effect before its command answers.
//! Folders and files are opened once: their stores hold locks.

mod store_choice;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use identity::RosterView;
use ledger::{SkillApproval, Usage};
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;
use skill::ApprovalPublicKey;

pub(crate) use self::store_choice::StoreChoice;
use crate::approval_policy::ApprovalPolicy;
use crate::backend::{
    FilesystemSettings, FilesystemSkillStore, LedgerSkillStore, OpenedSqlite, SqliteSkillStore,
};
use crate::config::Config;
use crate::fault::Fault;
use crate::skill_store::{SkillStore, StoreAnswer};
use crate::store_refusal::{RefusalReason, StoreRefusal};

/// Lifetime of cached settings. A change on this node is visible at once, because the cache key has its version.
const REMEMBERED: Duration = Duration::from_secs(5);
/// What a refusal names while no store could be opened.
const NO_STORE: &str = "SkillStore";

/// Opens the stores of tenants.
pub(crate) struct TenantStores {
    config: Config,
    skills: Arc<dyn ledger::Skills>,
    usage: Arc<dyn Usage>,
    approval: Arc<dyn SkillApproval>,
    roster: RosterView,
    timepiece: Timepiece,
    /// Keyed by the roster version of the tenant.
    tenants: Cache<(u64, TenantId), Arc<TenantStore>>,
    /// Folders and files that are open. The operator chose them, so there are few.
    opened: Mutex<HashMap<StoreChoice, ForeignStore>>,
}

/// The store of one tenant, with what the tenant demands of an approval.
pub(crate) struct TenantStore {
    pub store: Arc<dyn SkillStore>,
    /// The server's own store, if the tenant uses it.
    pub house: Option<LedgerSkillStore>,
    pub policy: ApprovalPolicy,
    /// The ids of the keys of the policy, in the same order.
    pub key_ids: Vec<String>,
    pub agents_may_approve: bool,
    /// The name of the store: another store is another catalogue.
    pub choice: String,
}

#[derive(Clone)]
enum ForeignStore {
    Filesystem(FilesystemSkillStore),
    Sqlite(SqliteSkillStore),
}

impl TenantStores {
    pub fn new(
        config: Config,
        skills: Arc<dyn ledger::Skills>,
        usage: Arc<dyn Usage>,
        approval: Arc<dyn SkillApproval>,
        roster: RosterView,
        timepiece: Timepiece,
    ) -> Self {
        let tenants = Cache::builder().max_capacity(10_000).time_to_live(REMEMBERED).build();
        let opened = Mutex::default();
        Self { config, skills, usage, approval, roster, timepiece, tenants, opened }
    }

    /// The store of a tenant.
    pub async fn of(&self, tenant: &TenantId) -> StoreAnswer<Arc<TenantStore>> {
        // The version is read before the settings, so that a change during the read makes the entry stale.
        let key = (self.roster.tenant_version(tenant), tenant.clone());
        if let Some(known) = self.tenants.get(&key) {
            return Ok(Ok(known));
        }
        match self.open_tenant(tenant).await? {
            Ok(store) => {
                let store = Arc::new(store);
                self.tenants.insert(key, Arc::clone(&store));
                Ok(Ok(store))
            }
            Err(why) => {
                Ok(Err(StoreRefusal { implementation: NO_STORE, reason: RefusalReason::Unusable { why } }))
            }
        }
    }

    /// Checks that a tenant could use this store. The error is a text for the operator.
    pub async fn check(&self, choice: &str) -> Result<Result<(), String>, Fault> {
        let Some(choice) = StoreChoice::read(choice) else {
            return Ok(Err(format!("`{choice}` is not `house`, `filesystem:DIR` or `sqlite:FILE`")));
        };
        Ok(self.foreign(&choice).await?.map(drop))
    }

    async fn open_tenant(&self, tenant: &TenantId) -> Result<Result<TenantStore, String>, Fault> {
        let (settings, keys) = self.approval.skill_settings(tenant).await?;
        let (mut key_ids, mut public) = (Vec::new(), Vec::new());
        for key in keys.into_iter().filter(|key| key.revoked.is_none()) {
            // Keys are checked before they are stored.
            let Ok(read) = ApprovalPublicKey::from_bytes(&key.public) else { continue };
            key_ids.push(key.id);
            public.push(read);
        }
        let policy = match settings.signed {
            true => ApprovalPolicy::Signed(public.into()),
            false => ApprovalPolicy::Open,
        };
        let Some(choice) = StoreChoice::read(&settings.store) else {
            return Ok(Err(format!("`{}` is not a store", settings.store)));
        };
        let foreign = match self.foreign(&choice).await? {
            Ok(foreign) => foreign,
            Err(why) => return Ok(Err(why)),
        };
        let mut house = None;
        let store: Arc<dyn SkillStore> = match foreign {
            Some(ForeignStore::Filesystem(store)) => Arc::new(store.under(policy.clone())),
            Some(ForeignStore::Sqlite(store)) => Arc::new(store.under(policy.clone())),
            None => {
                let (skills, usage) = (Arc::clone(&self.skills), Arc::clone(&self.usage));
                let own = LedgerSkillStore::over(skills, usage, tenant.clone(), self.timepiece.clone());
                let own = own.under(policy.clone());
                house = Some(own.clone());
                Arc::new(own)
            }
        };
        let (agents_may_approve, choice) = (settings.agents_may_approve, choice.to_string());
        Ok(Ok(TenantStore { store, house, policy, key_ids, agents_may_approve, choice }))
    }

    /// The store behind a choice; None for the server's own.
    async fn foreign(&self, choice: &StoreChoice) -> Result<Result<Option<ForeignStore>, String>, Fault> {
        let path = match choice {
            StoreChoice::House => return Ok(Ok(None)),
            StoreChoice::Filesystem(path) | StoreChoice::Sqlite(path) => path,
        };
        if let Err(why) = self.check_path(path) {
            return Ok(Err(why));
        }
        if let Some(known) = self.opened.lock().get(choice) {
            return Ok(Ok(Some(known.clone())));
        }
        let timepiece = self.timepiece.clone();
        let opened = match choice {
            StoreChoice::Sqlite(file) => match SqliteSkillStore::open(file.clone(), timepiece).await? {
                OpenedSqlite::Opened(store) => ForeignStore::Sqlite(store),
                OpenedSqlite::OtherShape(why) => return Ok(Err(why)),
            },
            _ => {
                let settings = FilesystemSettings::new(path.clone());
                ForeignStore::Filesystem(FilesystemSkillStore::open(settings, timepiece))
            }
        };
        // Of two that opened it at the same time, the first one counts.
        Ok(Ok(Some(self.opened.lock().entry(choice.clone()).or_insert(opened).clone())))
    }

    /// A store must be below one of the folders that the configuration names, also after links are followed.
    fn check_path(&self, path: &Path) -> Result<(), String> {
        let outside = || format!("{} is not below a folder of `workshop.roots`", path.display());
        let existing = path.ancestors().find_map(|part| part.canonicalize().ok());
        let real: PathBuf = existing.ok_or_else(outside)?;
        let is_below = |root: &PathBuf| {
            path.starts_with(root) && root.canonicalize().is_ok_and(|root| real.starts_with(root))
        };
        if self.config.roots.iter().any(is_below) { Ok(()) } else { Err(outside()) }
    }
}
