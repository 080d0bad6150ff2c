//! The catalogue of skills: what agents may receive and run, with what each skill touches.
//!
//! An entry is rendered once and kept until its skill changes. A tenant's entries are kept together under the token of its
//! store and its approval policy. If neither has changed, a call reads one row. A catalogue that is too large to be kept
//! is rendered as far as a call lists it. Entries are rendered on the threads for skills.

mod entry;
mod listing;
mod rendering;

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use moka::sync::Cache;
use post::Caller;
use posthouse_wire::TenantId;
use skill::ApprovalMode;
use tokio::sync::Mutex;

pub(crate) use self::entry::CatalogueEntry;
pub use self::entry::SkillCategory;
use self::listing::ListingPage;
pub use self::listing::{Audience, CatalogueAnswer, CatalogueListing, CatalogueQuery};
use self::rendering::{EntryWalk, WalkEnd};
use crate::fault::Fault;
use crate::running::{NoTurn, SkillThreads};
use crate::skill_store::StoreAnswer;
use crate::skills::answer;
use crate::store_refusal::RefusalReason;
use crate::tenant_stores::{TenantStore, TenantStores};

/// Memory for the entries of all tenants, in bytes.
const ALL_ENTRIES: u64 = 128 << 20;
/// Memory for the entries of one tenant. A larger catalogue is not kept.
const ENTRIES_OF_A_TENANT: u64 = ALL_ENTRIES / 2;
/// What the record of a tenant takes up at least.
const LEAST: u64 = 1000;
/// Hex digits of a version.
const VERSION_DIGITS: usize = 16;

/// The catalogues of all tenants.
pub struct Catalogue {
    stores: Arc<TenantStores>,
    threads: Arc<SkillThreads>,
    /// Entries of one tenant that are kept, in bytes.
    keeps: u64,
    tenants: Cache<TenantId, Arc<KeptCatalogue>>,
}

/// The catalogue of one tenant, as it was rendered last. The lock keeps callers from rendering the same thing at once.
#[derive(Default)]
struct KeptCatalogue {
    rendered: Mutex<Option<RenderedCatalogue>>,
    bytes: u64,
}

#[derive(Clone)]
struct RenderedCatalogue {
    version: String,
    /// What all entries depend on besides their skills.
    policy: String,
    /// In the order of names. None if they are too large together.
    entries: Option<Arc<Vec<Arc<CatalogueEntry>>>>,
}

/// The version of a catalogue, and what goes into it.
struct CatalogueState {
    tenant: Arc<TenantStore>,
    policy: String,
    /// None if the store has no token.
    version: Option<String>,
}

impl Catalogue {
    pub(crate) fn new(stores: Arc<TenantStores>, threads: Arc<SkillThreads>) -> Self {
        let weight = |_: &TenantId, kept: &Arc<KeptCatalogue>| {
            u32::try_from(kept.bytes.max(LEAST)).unwrap_or(u32::MAX)
        };
        let tenants = Cache::builder().max_capacity(ALL_ENTRIES).weigher(weight).build();
        Self { stores, threads, keeps: ENTRIES_OF_A_TENANT, tenants }
    }

    /// The version of the catalogue of the caller's tenant. None if its store has no token.
    pub async fn version(&self, by: &Caller) -> StoreAnswer<Option<String>> {
        Ok(Ok(answer!(self.state(by).await?).version))
    }

    /// The skills of the caller's tenant that pass the query.
    pub async fn list(self: &Arc<Self>, by: &Caller, query: &CatalogueQuery) -> StoreAnswer<CatalogueAnswer> {
        let state = answer!(self.state(by).await?);
        if state.version.is_some() && state.version == query.if_none_match {
            return Ok(Ok(CatalogueAnswer::NotModified { version: state.version.unwrap_or_default() }));
        }
        let store = Arc::clone(&state.tenant);
        let (this, of, query) = (Arc::clone(self), by.tenant.clone(), query.clone());
        let listed = self.threads.run(&by.tenant, async move { this.listed(&of, state, query).await });
        match listed.await {
            Ok(listed) => Ok(listed?.map(CatalogueAnswer::Listed)),
            Err(NoTurn::Full) => {
                Ok(store.refused(RefusalReason::QuotaExceeded { what: "work on skills at once" }))
            }
            Err(NoTurn::Broken) => Err(Fault::Stopped),
        }
    }

    async fn state(&self, by: &Caller) -> StoreAnswer<CatalogueState> {
        let tenant = answer!(self.stores.of(&by.tenant).await?);
        // The token is read before the skills. A change in between shows as another token next time.
        let token = answer!(tenant.store.version().await?);
        let policy = policy_of(&tenant);
        let version = token.map(|token| version_of(&token, &policy));
        Ok(Ok(CatalogueState { tenant, policy, version }))
    }

    async fn listed(
        &self,
        of: &TenantId,
        state: CatalogueState,
        query: CatalogueQuery,
    ) -> StoreAnswer<CatalogueListing> {
        let kept = answer!(self.entries(of, &state).await?);
        let mut page = ListingPage::new(&query);
        match kept {
            Some(entries) => {
                let _ = entries.iter().try_for_each(|entry| page.add(entry));
            }
            None => {
                let mut walk = EntryWalk::new(&state.tenant, None, query.after.clone());
                answer!(walk.each(|entry| page.add(&entry)).await?);
            }
        }
        Ok(Ok(page.listing(state.version)))
    }

    /// All entries of a tenant, rendered now or before. None if they are too large to be kept.
    async fn entries(
        &self,
        of: &TenantId,
        state: &CatalogueState,
    ) -> StoreAnswer<Option<Arc<Vec<Arc<CatalogueEntry>>>>> {
        // Without a version nobody could tell whether kept entries are still right.
        let Some(version) = &state.version else { return Ok(Ok(None)) };
        let kept = self.tenants.get_with(of.clone(), Arc::default);
        let mut rendered = kept.rendered.lock().await;
        if let Some(known) = rendered.as_ref().filter(|known| known.version == *version) {
            return Ok(Ok(known.entries.clone()));
        }
        let known = rendered.take().filter(|known| known.policy == state.policy);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let mut walk = EntryWalk::new(&state.tenant, known.and_then(|known| known.entries), None);
        let end = walk.each(|entry| {
            bytes += entry.bytes();
            entries.push(entry);
            if bytes > self.keeps {
                std::ops::ControlFlow::Break(())
            } else {
                std::ops::ControlFlow::Continue(())
            }
        });
        let (entries, bytes) = match answer!(end.await?) {
            WalkEnd::Whole => (Some(Arc::new(entries)), bytes),
            WalkEnd::Stopped => (None, 0),
        };
        let (version, policy) = (version.clone(), state.policy.clone());
        let new = RenderedCatalogue { version, policy, entries: entries.clone() };
        *rendered = Some(new.clone());
        // It is inserted again because its weight has changed.
        let kept = KeptCatalogue { rendered: Mutex::new(Some(new)), bytes };
        self.tenants.insert(of.clone(), Arc::new(kept));
        Ok(Ok(entries))
    }
}

/// What `gate_ok` depends on besides the texts, and which store it is.
fn policy_of(tenant: &TenantStore) -> String {
    match tenant.policy.mode() {
        ApprovalMode::Open => format!("{}\nopen", tenant.choice),
        ApprovalMode::Signed(_) => format!("{}\nsigned {}", tenant.choice, tenant.key_ids.join(" ")),
    }
}

fn version_of(token: &str, policy: &str) -> String {
    let mut version = hex::encode(digest(&SHA256, format!("{token}\n{policy}").as_bytes()));
    version.truncate(VERSION_DIGITS);
    version
}
