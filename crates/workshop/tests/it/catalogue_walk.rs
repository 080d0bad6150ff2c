//! The catalogue over a store that counts how often it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use ledger::SkillSettingsChange;
use serde_json::{Map, Value};
use skill::Status;
use workshop::{
    Audience, BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendWrite, CatalogueQuery,
    CustomStores, SkillBackend, SkillMeta, SkillPage, SkillSummary, SkillText, StoreFeatures, VersionInfo,
    WriteRules,
};

use crate::fixtures::granted;
use crate::tenants::Tenants;

const SKILLS: usize = 450;

/// Skills that are all alike. Without a token, no catalogue of them can be kept.
#[derive(Clone, Default)]
struct CountedStore {
    token: Option<String>,
    rules: WriteRules,
    pages: Arc<AtomicUsize>,
    texts: Arc<AtomicUsize>,
}

fn text(name: &str) -> String {
    format!("# Skill: {name}\n# Status: Approved\n# Description: {}\ntext\n", "long ".repeat(2000))
}

impl CountedStore {
    fn page<T>(after: Option<&str>, at_most: usize, item: impl Fn(&String) -> T) -> SkillPage<T> {
        let names = (0..SKILLS).map(|number| format!("s{number:03}"));
        let names: Vec<String> =
            names.filter(|name| after.is_none_or(|after| name.as_str() > after)).collect();
        let end = names.len().min(at_most);
        let next = (end < names.len()).then(|| names[end - 1].clone());
        SkillPage { items: names[..end].iter().map(item).collect(), next }
    }

    fn meta(name: &str) -> SkillMeta {
        SkillMeta {
            name: name.to_owned(),
            version: "v".to_owned(),
            content_hash: name.to_owned(),
            status: Status::Approved,
            summary: SkillSummary { description: Some("long ".repeat(2000)), ..SkillSummary::default() },
            created_at: 1,
            updated_at: 1,
            status_changed_at: None,
            author: None,
            metadata_bag: None,
        }
    }
}

#[async_trait]
impl SkillBackend for CountedStore {
    type Mark = ();

    fn implementation(&self) -> &'static str {
        "CountedStore"
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures::ALL
    }

    fn rules(&self) -> &WriteRules {
        &self.rules
    }

    async fn manifest(&self) -> BackendAnswer<Map<String, Value>> {
        Ok(Ok(Map::new()))
    }

    async fn find(&self, name: &str) -> BackendAnswer<Option<BackendSkill<()>>> {
        Ok(Ok(Some(BackendSkill { meta: Self::meta(name), mark: () })))
    }

    async fn find_body(&self, name: &str, _: Option<&str>) -> BackendAnswer<Option<BackendBody<()>>> {
        self.texts.fetch_add(1, Ordering::Relaxed);
        let skill = BackendSkill { meta: Self::meta(name), mark: () };
        Ok(Ok(Some(BackendBody { skill, body: Some(text(name)) })))
    }

    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>> {
        self.pages.fetch_add(1, Ordering::Relaxed);
        Ok(Ok(Self::page(after, at_most, |name| Self::meta(name))))
    }

    async fn texts(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillText>> {
        let page = Self::page(after, at_most, |name| SkillText {
            name: name.clone(),
            content_hash: name.clone(),
            text: text(name),
        });
        self.texts.fetch_add(page.items.len(), Ordering::Relaxed);
        Ok(Ok(page))
    }

    async fn history(&self, _: &str) -> BackendAnswer<Vec<VersionInfo>> {
        Ok(Ok(Vec::new()))
    }

    async fn replace(&self, _: Option<()>, _: BackendWrite) -> BackendAnswer<BackendReplaced> {
        Ok(Ok(BackendReplaced::Changed))
    }

    async fn delete(&self, _: &str) -> BackendAnswer<bool> {
        Ok(Ok(false))
    }

    async fn token(&self) -> BackendAnswer<Option<String>> {
        Ok(Ok(self.token.clone()))
    }
}

/// A tenant whose skills are in this store.
async fn tenants_with(store: &CountedStore) -> Tenants {
    let opened = store.clone();
    let stores = CustomStores::default().with_skills("counted", move |_| opened.clone());
    let tenants = Tenants::open_with(stores).await;
    let store = Some("custom:counted".to_owned());
    tenants.change(SkillSettingsChange { store, ..SkillSettingsChange::default() }).await;
    tenants
}

async fn listed(tenants: &Tenants, query: &CatalogueQuery) -> Value {
    let answer = granted(tenants.workshop.catalogue().list(&tenants.program, query).await);
    serde_json::from_str(&answer.to_json()).unwrap()
}

#[tokio::test]
async fn a_catalogue_that_cannot_be_kept_is_rendered_only_as_far_as_it_is_listed() {
    let store = CountedStore::default();
    let tenants = tenants_with(&store).await;
    let first = CatalogueQuery { audience: Audience::All, limit: Some(2), ..CatalogueQuery::default() };
    let page = listed(&tenants, &first).await;
    assert_eq!((page["skills"].as_array().unwrap().len(), &page["next"]), (2, &"s001".into()));
    assert_eq!(store.texts.load(Ordering::Relaxed), 200, "a part of them");
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = CatalogueQuery { after, limit: Some(100), ..first.clone() };
        let page = listed(&tenants, &page).await;
        names.extend(page["skills"].as_array().unwrap().iter().map(|skill| skill["name"].clone()));
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names.len(), SKILLS);
    assert!(names.is_sorted_by(|one, other| one.as_str() < other.as_str()));
}

#[tokio::test]
async fn an_answer_is_cut_by_its_size_and_goes_on_after_its_last_skill() {
    let store = CountedStore { token: Some("t".to_owned()), ..CountedStore::default() };
    let tenants = tenants_with(&store).await;
    let query = CatalogueQuery { largest: 20_000, ..CatalogueQuery::default() };
    let page = listed(&tenants, &query).await;
    let shown = page["skills"].as_array().unwrap();
    // A description of 10,000 bytes is cut to 4 KiB.
    assert_eq!((shown.len(), &page["next"]), (4, &"s003".into()));
    assert!(shown[0]["description"].as_str().unwrap().ends_with('…'));
    let rest = listed(&tenants, &CatalogueQuery { after: Some("s003".to_owned()), ..query.clone() }).await;
    assert_eq!(rest["skills"][0]["name"], "s004");
    let tiny = listed(&tenants, &CatalogueQuery { largest: 1, ..query }).await;
    assert_eq!((tiny["skills"].as_array().unwrap().len(), &tiny["next"]), (1, &"s000".into()));
}

#[tokio::test]
async fn the_version_of_a_catalogue_is_read_without_its_skills() {
    let store = CountedStore { token: Some("t".to_owned()), ..CountedStore::default() };
    let tenants = tenants_with(&store).await;
    let version = granted(tenants.workshop.catalogue().version(&tenants.program).await);
    assert_eq!((store.pages.load(Ordering::Relaxed), store.texts.load(Ordering::Relaxed)), (0, 0));
    let whole = listed(&tenants, &CatalogueQuery::default()).await;
    assert_eq!(whole["catalog_version"].as_str(), version.as_deref());
}

#[tokio::test]
async fn only_lists_cut_a_long_description() {
    let store = CountedStore::default();
    let tenants = tenants_with(&store).await;
    let (skills, program) = (tenants.workshop.skills(), &tenants.program);
    let page = granted(skills.page(program, workshop::SkillFilter::default(), 3).await);
    let shown = page.items[0].summary.description.as_ref().unwrap();
    assert_eq!(shown.len(), 4096 + '…'.len_utf8());
    let whole = granted(skills.metadata(program, "s000").await);
    assert_eq!(whole.summary.description.unwrap().len(), 10_000);
}
