//! Skill stores of tenants: opens the store that each tenant uses, under the tenant's approval policy.
//!
//! Settings are cached until the tenant is changed, so a change takes effect before its command answers.
//! Folders and files are opened once: their stores hold locks.

mod store_choice;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use identity::{RosterView, TenantCache};
use ledger::{FileThreads, SkillApproval, TenantFileThreads, Usage};
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::TenantId;
use skill::ApprovalPublicKey;

pub(crate) use self::store_choice::StoreChoice;
use crate::approval_policy::ApprovalPolicy;
use crate::backend::{
    BackendStore, FilesystemSettings, FilesystemSkillStore, LedgerSkillStore, OpenedSqlite, SkillBackend,
    SqliteSkillStore,
};
use crate::config::Config;
use crate::custom_stores::CustomStores;
use crate::fault::Fault;
use crate::remote_stores::RemoteStores;
use crate::skill_store::{SkillStore, StoreAnswer};
use crate::store_refusal::{RefusalReason, StoreRefusal};

/// Lifetime of cached settings. A change on this node is visible at once.
const REMEMBERED: Duration = Duration::from_secs(5);
/// What a refusal names while no store could be opened.
const NO_STORE: &str = "SkillStore";
const STORES: &str = "`ledger`, `filesystem:DIR`, `sqlite:FILE`, `custom:NAME` or a URL";

type OpenedPolicyStores = HashMap<(StoreChoice, Option<TenantId>), Arc<dyn PolicyStore>>;

/// Opens the stores of tenants.
pub(crate) struct TenantStores {
    parts: StoreParts,
    tenants: TenantCache<Arc<TenantStore>>,
    /// Open folders and files, and open custom stores of each tenant. Only settings of the operator add to them.
    opened: Mutex<OpenedPolicyStores>,
}

/// Dependencies of the skill stores.
pub(crate) struct StoreParts {
    pub config: Config,
    pub skills: Arc<dyn ledger::Skills>,
    pub usage: Arc<dyn Usage>,
    pub approval: Arc<dyn SkillApproval>,
    pub roster: RosterView,
    pub remote: Arc<RemoteStores>,
    pub custom: CustomStores,
    pub files: TenantFileThreads,
    pub timepiece: Timepiece,
}

/// A store that is opened once and then used under the approval policies of tenants.
pub(crate) trait PolicyStore: Send + Sync {
    /// The store for a tenant with this policy, whose blocking work runs on these threads.
    fn for_tenant(&self, policy: ApprovalPolicy, threads: &Arc<FileThreads>) -> Arc<dyn SkillStore>;
}

impl<S: SkillBackend> PolicyStore for BackendStore<S> {
    fn for_tenant(&self, policy: ApprovalPolicy, threads: &Arc<FileThreads>) -> Arc<dyn SkillStore> {
        Arc::new(self.on(threads).under(policy))
    }
}

/// The store of one tenant, with what the tenant demands of an approval.
pub(crate) struct TenantStore {
    pub store: Arc<dyn SkillStore>,
    /// The server's own store, if the tenant uses it.
    pub in_ledger: Option<LedgerSkillStore>,
    pub policy: ApprovalPolicy,
    /// The ids of the keys of the policy, in the same order.
    pub key_ids: Vec<String>,
    pub agents_may_approve: bool,
    /// The name of the store: another store is another catalogue.
    pub choice: String,
}

impl TenantStores {
    pub fn new(parts: StoreParts) -> Self {
        let tenants = TenantCache::new(parts.roster.clone(), 10_000, REMEMBERED);
        Self { parts, tenants, opened: Mutex::default() }
    }

    pub fn now(&self) -> Moment {
        self.parts.timepiece.now()
    }

    /// All tenants of the server.
    pub async fn tenants(&self) -> Result<Vec<TenantId>, Fault> {
        let tenants = self.parts.roster.records().tenants().await?;
        Ok(tenants.into_iter().map(|tenant| tenant.id).collect())
    }

    /// The store of a tenant.
    pub async fn of(&self, tenant: &TenantId) -> StoreAnswer<Arc<TenantStore>> {
        let opened = self.tenants.get_unless_refused(tenant, async {
            Ok::<_, Fault>(self.open_tenant(tenant).await?.map(Arc::new))
        });
        Ok(opened.await?.map_err(|why| StoreRefusal {
            implementation: NO_STORE,
            reason: RefusalReason::Unusable { why },
        }))
    }

    /// Checks that a tenant could use this store. The error is a text for the operator.
    pub async fn check(&self, tenant: &TenantId, choice: &str) -> Result<Result<StoreChoice, String>, Fault> {
        let Some(choice) = StoreChoice::read(choice) else {
            return Ok(Err(format!("`{choice}` is not {STORES}")));
        };
        if let StoreChoice::Remote(url) = &choice {
            let url = self.parts.remote.check(url);
            return Ok(url.map(|url| StoreChoice::Remote(url.to_string())));
        }
        Ok(self.foreign(tenant, &choice).await?.map(|_| choice))
    }

    async fn open_tenant(&self, tenant: &TenantId) -> Result<Result<TenantStore, String>, Fault> {
        let (settings, keys) = self.parts.approval.skill_settings(tenant).await?;
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
        let foreign = match self.foreign(tenant, &choice).await? {
            Ok(foreign) => foreign,
            Err(why) => return Ok(Err(why)),
        };
        let mut in_ledger = None;
        let store: Arc<dyn SkillStore> = match foreign {
            Some(foreign) => foreign.for_tenant(policy.clone(), &self.parts.files.of(tenant)),
            None => {
                let StoreParts { skills, usage, timepiece, .. } = &self.parts;
                let (skills, usage) = (Arc::clone(skills), Arc::clone(usage));
                let own = LedgerSkillStore::over(skills, usage, tenant.clone(), timepiece.clone());
                let own = own.under(policy.clone());
                in_ledger = Some(own.clone());
                Arc::new(own)
            }
        };
        let (agents_may_approve, choice) = (settings.agents_may_approve, choice.to_string());
        Ok(Ok(TenantStore { store, in_ledger, policy, key_ids, agents_may_approve, choice }))
    }

    /// The store of a choice. None for the server's own.
    async fn foreign(
        &self,
        tenant: &TenantId,
        choice: &StoreChoice,
    ) -> Result<Result<Option<Arc<dyn PolicyStore>>, String>, Fault> {
        let timepiece = self.parts.timepiece.clone();
        let owner = match choice {
            StoreChoice::Ledger => return Ok(Ok(None)),
            StoreChoice::Remote(url) => return Ok(Ok(Some(Arc::new(self.parts.remote.skills(tenant, url))))),
            StoreChoice::Custom(_) => Some(tenant.clone()),
            StoreChoice::Filesystem(path) | StoreChoice::Sqlite(path) => {
                if let Err(why) = self.parts.config.check_place(path) {
                    return Ok(Err(why));
                }
                None
            }
        };
        let key = (choice.clone(), owner);
        if let Some(known) = self.opened.lock().get(&key) {
            return Ok(Ok(Some(Arc::clone(known))));
        }
        let opened: Arc<dyn PolicyStore> = match choice {
            StoreChoice::Sqlite(file) => {
                let threads = self.parts.files.of(tenant);
                match SqliteSkillStore::open(file.clone(), threads, timepiece).await? {
                    OpenedSqlite::Opened(store) => Arc::new(store),
                    OpenedSqlite::OtherShape(why) => return Ok(Err(why)),
                }
            }
            StoreChoice::Filesystem(path) => {
                let settings = FilesystemSettings::new(path.clone());
                Arc::new(FilesystemSkillStore::open(settings, timepiece))
            }
            StoreChoice::Custom(name) => match self.parts.custom.skills(name) {
                Ok(open) => open(tenant, timepiece),
                Err(why) => return Ok(Err(why)),
            },
            StoreChoice::Ledger | StoreChoice::Remote(_) => return Ok(Ok(None)),
        };
        // Of two that opened it at the same time, the first one counts.
        Ok(Ok(Some(Arc::clone(self.opened.lock().entry(key).or_insert(opened)))))
    }
}
