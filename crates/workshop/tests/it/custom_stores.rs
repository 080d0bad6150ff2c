//! A store of one's own as a Rust type. `docs/guide/write-a-store.md` shows this file.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use ledger::SkillSettingsChange;
use serde_json::{Map, Value, json};
use workshop::{
    BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendWrite, Curated, CustomStores,
    DataAnswer, DataFeatures, DataRefusal, DataRefusalReason, DataStore, DataWrite, PortableData,
    QueryFilters, SkillBackend, SkillMeta, SkillPage, SkillText, SkillWrite, StoreFeatures, StoreManifest,
    VersionInfo, WriteRules, WrittenData,
};

use crate::fixtures::granted;
use crate::tenants::Tenants;

/// Skills of one tenant in memory. The number of lines in the history is the mark of a skill.
#[derive(Default)]
struct MemoryBackend {
    skills: Mutex<BTreeMap<String, Vec<BackendWrite>>>,
    rules: WriteRules,
    changes: Mutex<u64>,
}

impl MemoryBackend {
    /// The names after this one, at most this many, with their last writes.
    fn page<T>(
        &self,
        after: Option<&str>,
        at_most: usize,
        shown: impl Fn(&BackendWrite) -> T,
    ) -> SkillPage<T> {
        let skills = self.skills.lock().unwrap();
        let mut left = skills.iter().filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        let page: Vec<_> = left.by_ref().take(at_most).collect();
        let next = page.last().filter(|_| left.next().is_some()).map(|(name, _)| (*name).clone());
        SkillPage { items: page.iter().filter_map(|(_, lines)| lines.last()).map(shown).collect(), next }
    }
}

#[async_trait]
impl SkillBackend for MemoryBackend {
    type Mark = usize;

    fn implementation(&self) -> &'static str {
        "MemoryBackend"
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures::ALL
    }

    fn rules(&self) -> &WriteRules {
        &self.rules
    }

    async fn manifest(&self) -> BackendAnswer<Map<String, Value>> {
        Ok(Ok(Map::from_iter([("kind".to_owned(), json!("memory"))])))
    }

    async fn find(&self, name: &str) -> BackendAnswer<Option<BackendSkill<usize>>> {
        let found = self.find_body(name, None).await?;
        Ok(found.map(|found| found.map(|found| found.skill)))
    }

    async fn find_body(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BackendAnswer<Option<BackendBody<usize>>> {
        let skills = self.skills.lock().unwrap();
        let Some(lines) = skills.get(name) else { return Ok(Ok(None)) };
        let wanted = |write: &&BackendWrite| version.is_none_or(|version| write.line.version == version);
        let meta = lines.last().map(|write| write.meta.clone());
        let body = lines.iter().rev().find(wanted).map(|write| write.body.clone());
        Ok(Ok(meta.map(|meta| BackendBody { skill: BackendSkill { meta, mark: lines.len() }, body })))
    }

    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>> {
        Ok(Ok(self.page(after, at_most, |write| write.meta.clone())))
    }

    async fn texts(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillText>> {
        Ok(Ok(self.page(after, at_most, |write| SkillText {
            name: write.meta.name.clone(),
            content_hash: write.meta.content_hash.clone(),
            text: write.body.clone(),
        })))
    }

    async fn history(&self, name: &str) -> BackendAnswer<Vec<VersionInfo>> {
        let skills = self.skills.lock().unwrap();
        Ok(Ok(skills.get(name).into_iter().flatten().map(|write| write.line.clone()).collect()))
    }

    async fn replace(&self, expected: Option<usize>, write: BackendWrite) -> BackendAnswer<BackendReplaced> {
        let mut skills = self.skills.lock().unwrap();
        let lines = skills.entry(write.meta.name.clone()).or_default();
        if lines.len() != expected.unwrap_or(0) {
            return Ok(Ok(BackendReplaced::Changed));
        }
        lines.push(write);
        *self.changes.lock().unwrap() += 1;
        Ok(Ok(BackendReplaced::Replaced))
    }

    async fn delete(&self, name: &str) -> BackendAnswer<bool> {
        *self.changes.lock().unwrap() += 1;
        Ok(Ok(self.skills.lock().unwrap().remove(name).is_some()))
    }

    async fn token(&self) -> BackendAnswer<Option<String>> {
        Ok(Ok(Some(self.changes.lock().unwrap().to_string())))
    }
}

/// Data of one tenant in memory. It finds texts and knows no filters.
#[derive(Default)]
struct MemoryData(Mutex<Vec<PortableData>>);

#[async_trait]
impl DataStore for MemoryData {
    fn implementation(&self) -> &'static str {
        "MemoryData"
    }

    fn features(&self) -> DataFeatures {
        DataFeatures { supports_writes: true, ..DataFeatures::default() }
    }

    async fn supported_filters(&self) -> DataAnswer<Vec<String>> {
        Ok(Ok(Vec::new()))
    }

    async fn query(&self, filters: &QueryFilters) -> DataAnswer<Vec<PortableData>> {
        if filters.mode != "fts" {
            let reason = DataRefusalReason::UnsupportedMode { mode: filters.mode.clone() };
            return Ok(Err(DataRefusal { implementation: self.implementation(), reason }));
        }
        let entries = self.0.lock().unwrap();
        let fits =
            |entry: &&PortableData| entry.detail.as_ref().is_some_and(|text| text.contains(&filters.query));
        Ok(Ok(entries.iter().rev().filter(fits).take(filters.limit as usize).cloned().collect()))
    }

    async fn get(&self, id: &str) -> DataAnswer<Option<PortableData>> {
        Ok(Ok(self.0.lock().unwrap().iter().find(|entry| entry.id == id).cloned()))
    }

    async fn write(&self, entry: DataWrite) -> DataAnswer<WrittenData> {
        let mut entries = self.0.lock().unwrap();
        let id = format!("entry-{}", entries.len());
        entries.push(PortableData {
            id: id.clone(),
            summary: entry.content.lines().next().unwrap_or_default().to_owned(),
            detail: Some(entry.content),
            score: None,
            domain_tags: entry.tags,
            expires_at: None,
            created_at: 0,
            curated: Curated::default(),
            metadata: entry.metadata,
        });
        Ok(Ok(WrittenData { id, created_at: 0 }))
    }

    async fn manifest(&self) -> DataAnswer<StoreManifest> {
        let kind = ("kind".to_owned(), json!("memory"));
        Ok(Ok(StoreManifest { capabilities_version: "1", manifest: Map::from_iter([kind]) }))
    }
}

/// The registration, as in `crates/posthouse/src/custom_stores.rs` of a build of one's own.
fn custom_stores() -> CustomStores {
    CustomStores::default()
        .with_skills("memory", |_tenant| MemoryBackend::default())
        .with_data("memory", |_tenant| MemoryData::default())
}

#[tokio::test]
async fn a_type_that_a_build_registers_is_the_store_of_a_tenant() {
    let tenants = Tenants::open_with(custom_stores()).await;
    let memory = Some("custom:memory".to_owned());
    let (store, data_store) = (memory.clone(), memory);
    tenants.change(SkillSettingsChange { store, data_store, ..SkillSettingsChange::default() }).await;
    let data = tenants.workshop.data().of(&tenants.acme).await.unwrap().unwrap();
    let note = DataWrite { content: "high tide at noon".to_owned(), ..DataWrite::default() };
    data.store.write(note).await.unwrap().unwrap();
    let bridge = data.bridge();
    assert_eq!(bridge.query(&QueryFilters::text("tide")).await.unwrap().unwrap().len(), 1);
    let filters = Map::from_iter([("vault".to_owned(), json!("x"))]);
    let filtered = QueryFilters { filters, ..QueryFilters::text("tide") };
    let refused = bridge.query(&filtered).await.unwrap().unwrap_err();
    assert_eq!(refused.reason.code(), "unsupported_filter", "the server checks the filters");
    let skills = tenants.workshop.skills();
    assert_eq!(granted(skills.describe(&tenants.program).await).implementation, "MemoryBackend");
    // The rules of the server hold for it.
    let approved = SkillWrite { source: "# Status: Approved\n".to_owned(), ..SkillWrite::default() };
    assert_eq!(granted(skills.write(&tenants.heron, "tide", approved).await).status.to_string(), "Draft");
    assert_eq!(granted(skills.versions(&tenants.program, "tide", None, 100).await).items.len(), 1);
    assert!(granted(skills.list(&tenants.stranger, &Default::default()).await).is_empty());
}

#[tokio::test]
async fn a_type_passes_the_suite_of_skill_stores() {
    crate::conformance::passes(|clock| workshop::BackendStore::new(MemoryBackend::default(), clock)).await;
}

#[tokio::test]
async fn a_type_passes_the_suite_of_data_stores() {
    crate::data_conformance::passes(|_| std::sync::Arc::new(MemoryData::default())).await;
}
