//! The catalogue of skills: what agents may receive and run, with what each skill touches.
//!
//! An entry is rendered once and kept until its skill changes. A tenant's entries are kept together under the token of its
//! store and its approval policy. If neither has changed, a call reads one row.

mod entry;
mod listing;

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use moka::sync::Cache;
use post::Caller;
use posthouse_wire::TenantId;
use skill::ApprovalMode;
use tokio::sync::Mutex;

pub(crate) use self::entry::CatalogueEntry;
pub use self::entry::SkillCategory;
pub use self::listing::{Audience, CatalogueAnswer, CatalogueListing, CatalogueQuery};
use crate::skill_filter::SkillFilter;
use crate::skill_meta::SkillMeta;
use crate::skill_store::StoreAnswer;
use crate::skills::answer;
use crate::store_walk::each_text;
use crate::tenant_stores::{TenantStore, TenantStores};

/// Memory for the entries of all tenants, in bytes.
const ALL_ENTRIES: u64 = 128 << 20;
/// Memory for the entries of one tenant. A larger catalogue is rendered for each call.
const ENTRIES_OF_A_TENANT: u64 = ALL_ENTRIES / 2;
/// What the record of a tenant takes up at least.
const LEAST: u64 = 1000;
/// Up to this many changed skills are read one by one.
const FEW: usize = 50;
/// Hex digits of a version.
const VERSION_DIGITS: usize = 16;

/// The catalogues of all tenants.
pub struct Catalogue {
    stores: Arc<TenantStores>,
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
    /// In the order of names.
    entries: Arc<Vec<Arc<CatalogueEntry>>>,
}

impl Catalogue {
    pub(crate) fn new(stores: Arc<TenantStores>) -> Self {
        let weight = |_: &TenantId, kept: &Arc<KeptCatalogue>| {
            u32::try_from(kept.bytes.max(LEAST)).unwrap_or(u32::MAX)
        };
        Self { stores, tenants: Cache::builder().max_capacity(ALL_ENTRIES).weigher(weight).build() }
    }

    /// The skills of the caller's tenant that pass the query.
    pub async fn list(&self, by: &Caller, query: &CatalogueQuery) -> StoreAnswer<CatalogueAnswer> {
        let tenant = answer!(self.stores.of(&by.tenant).await?);
        // The token is read before the skills. A change in between shows as another token next time.
        let token = answer!(tenant.store.version().await?);
        let policy = policy_of(&tenant);
        let version = token.map(|token| version_of(&token, &policy));
        if version.is_some() && version == query.if_none_match {
            return Ok(Ok(CatalogueAnswer::NotModified { version: version.unwrap_or_default() }));
        }
        let entries = answer!(self.entries(by, &tenant, version.as_deref(), policy).await?);
        Ok(Ok(CatalogueAnswer::Listed(CatalogueListing::of(&entries, query, version))))
    }

    /// All entries of a tenant, rendered now or before.
    async fn entries(
        &self,
        by: &Caller,
        tenant: &TenantStore,
        version: Option<&str>,
        policy: String,
    ) -> StoreAnswer<Arc<Vec<Arc<CatalogueEntry>>>> {
        let kept = self.tenants.get_with(by.tenant.clone(), Arc::default);
        let mut rendered = kept.rendered.lock().await;
        if let Some(known) = rendered.as_ref().filter(|known| Some(known.version.as_str()) == version) {
            return Ok(Ok(Arc::clone(&known.entries)));
        }
        let known = rendered.take().filter(|known| known.policy == policy);
        let entries = Arc::new(answer!(render(tenant, known.as_ref()).await?));
        let bytes = entries.iter().map(|entry| entry.bytes()).sum::<u64>();
        if let Some(version) = version.filter(|_| bytes <= ENTRIES_OF_A_TENANT) {
            let new =
                RenderedCatalogue { version: version.to_owned(), policy, entries: Arc::clone(&entries) };
            *rendered = Some(new.clone());
            // It is inserted again because its weight has changed.
            let kept = KeptCatalogue { rendered: Mutex::new(Some(new)), bytes };
            self.tenants.insert(by.tenant.clone(), Arc::new(kept));
        }
        Ok(Ok(entries))
    }
}

/// Renders the entries of a tenant. Entries of skills that have not changed are taken over.
async fn render(
    tenant: &TenantStore,
    known: Option<&RenderedCatalogue>,
) -> StoreAnswer<Vec<Arc<CatalogueEntry>>> {
    let skills = answer!(tenant.store.query(&SkillFilter::default()).await?);
    let known: HashMap<&str, &Arc<CatalogueEntry>> =
        known.iter().flat_map(|known| known.entries.iter()).map(|entry| (entry.name(), entry)).collect();
    let taken_over = |skill: &SkillMeta| known.get(&*skill.name).filter(|entry| entry.is_of(skill)).copied();
    let changed: HashMap<&str, &SkillMeta> = skills
        .iter()
        .filter(|skill| taken_over(skill).is_none())
        .map(|skill| (&*skill.name, skill))
        .collect();
    let rendered = answer!(render_changed(tenant, &changed).await?);
    let entry = |skill: &SkillMeta| match taken_over(skill) {
        Some(entry) => Some(Arc::clone(entry)),
        // A skill that has gone since it was listed is left out.
        None => rendered.get(&*skill.name).cloned(),
    };
    Ok(Ok(skills.iter().filter_map(entry).collect()))
}

/// Renders the entries of these skills. Each text is dropped as soon as its entry is rendered.
async fn render_changed(
    tenant: &TenantStore,
    changed: &HashMap<&str, &SkillMeta>,
) -> StoreAnswer<HashMap<String, Arc<CatalogueEntry>>> {
    let mut rendered = HashMap::with_capacity(changed.len());
    let mut render = |name: &str, text: &str| {
        if let Some(skill) = changed.get(name) {
            let entry = CatalogueEntry::render(skill, text, tenant.policy.mode());
            rendered.insert(name.to_owned(), Arc::new(entry));
        }
    };
    if changed.len() <= FEW {
        for name in changed.keys() {
            if let Ok(found) = tenant.store.load(name, None).await? {
                render(name, &found.source);
            }
        }
    } else {
        answer!(each_text(&*tenant.store, |skill| render(&skill.name, &skill.text)).await?);
    }
    Ok(Ok(rendered))
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
