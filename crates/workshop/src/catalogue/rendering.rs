//! Rendering of catalogue entries: a walk over the skills of a store, page by page.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::CatalogueEntry;
use crate::skill_meta::SkillMeta;
use crate::skill_store::StoreAnswer;
use crate::skills::answer;
use crate::store_walk::StoreWalk;
use crate::tenant_stores::TenantStore;

/// Skills that are rendered before they are visited.
const PART: usize = 200;
/// Up to this many changed skills of them are read one by one.
const FEW: usize = 50;
/// After a text of this length, others get their turn.
const LONG: usize = 32 * 1024;

type RenderedEntries = HashMap<String, Arc<CatalogueEntry>>;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// Every skill was visited.
    Whole,
    /// The visitor wanted no more.
    Stopped,
}

/// A walk over the entries of a tenant, in the order of names. It holds one page of skills at a time, and renders a part of it.
pub struct EntryWalk<'t> {
    tenant: &'t TenantStore,
    walk: StoreWalk,
    /// Entries that were rendered before, by name. One whose skill has not changed is taken over.
    known: HashMap<String, Arc<CatalogueEntry>>,
    after: Option<String>,
}

impl<'t> EntryWalk<'t> {
    pub fn new(
        tenant: &'t TenantStore,
        known: Option<Arc<Vec<Arc<CatalogueEntry>>>>,
        after: Option<String>,
    ) -> Self {
        let known = known.iter().flat_map(|known| known.iter());
        let known = known.map(|entry| (entry.name().to_owned(), Arc::clone(entry))).collect();
        Self { tenant, walk: tenant.store.walk(), known, after }
    }

    pub async fn each(
        &mut self,
        mut visit: impl FnMut(Arc<CatalogueEntry>) -> ControlFlow<()> + Send,
    ) -> StoreAnswer<WalkEnd> {
        loop {
            if let Err(reason) = self.walk.step() {
                return Ok(self.tenant.refused(reason));
            }
            let page = answer!(self.tenant.store.page(self.after.as_deref()).await?);
            for part in page.items.chunks(PART) {
                let mut rendered = answer!(self.render_changed(part).await?);
                for skill in part {
                    let entry = match self.known.remove(&skill.name).filter(|entry| entry.is_of(skill)) {
                        Some(entry) => Some(entry),
                        // A skill that has gone since it was listed is left out.
                        None => rendered.remove(&skill.name),
                    };
                    if entry.is_some_and(|entry| visit(entry).is_break()) {
                        return Ok(Ok(WalkEnd::Stopped));
                    }
                }
                self.after = part.last().map(|skill| skill.name.clone());
            }
            self.after = page.next;
            if self.after.is_none() {
                return Ok(Ok(WalkEnd::Whole));
            }
        }
    }

    /// Renders the entries of the next skills that are not known. Each text is dropped as soon as its entry is
    /// rendered.
    async fn render_changed(&self, part: &[SkillMeta]) -> StoreAnswer<RenderedEntries> {
        let is_changed =
            |skill: &&SkillMeta| self.known.get(&skill.name).is_none_or(|entry| !entry.is_of(skill));
        let changed: HashMap<&str, &SkillMeta> =
            part.iter().filter(is_changed).map(|skill| (&*skill.name, skill)).collect();
        let mut rendered = HashMap::with_capacity(changed.len());
        if changed.len() <= FEW {
            for (name, skill) in changed {
                if let Ok(found) = self.tenant.store.load(name, None).await? {
                    self.render(skill, &found.source, &mut rendered).await;
                }
            }
            return Ok(Ok(rendered));
        }
        let (last, mut after) = (part.last().map(|skill| &skill.name), self.after.clone());
        let mut walk = self.tenant.store.walk();
        while after.as_ref() < last {
            if let Err(reason) = walk.step() {
                return Ok(self.tenant.refused(reason));
            }
            let texts = answer!(self.tenant.store.texts(after.as_deref()).await?);
            for text in texts.items {
                if let Some(skill) = changed.get(&*text.name) {
                    self.render(skill, &text.text, &mut rendered).await;
                }
            }
            after = texts.next;
            if after.is_none() {
                break;
            }
        }
        Ok(Ok(rendered))
    }

    async fn render(&self, skill: &SkillMeta, text: &str, into: &mut RenderedEntries) {
        let entry = CatalogueEntry::render(skill, text, self.tenant.policy.mode());
        into.insert(skill.name.clone(), Arc::new(entry));
        if text.len() >= LONG {
            tokio::task::yield_now().await;
        }
    }
}
