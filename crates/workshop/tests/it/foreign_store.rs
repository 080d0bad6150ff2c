//! Test double: a skill store outside of the server, which counts how often it is listed and can stop answering.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use ledger::{SkillRuns, SkillSettingsChange};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use workshop::{
    BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendWrite, Config, CustomStores,
    SkillBackend, SkillMeta, SkillPage, SkillText, StoreFeatures, VersionInfo, WriteRules,
};

use crate::skill_server::SkillServer;

/// The store, and what the test wants of it. It has no version, as a folder that somebody else writes.
#[derive(Clone, Default)]
pub struct ForeignStore(Arc<StoreState>);

#[derive(Default)]
struct StoreState {
    skills: Mutex<BTreeMap<String, Vec<BackendWrite>>>,
    rules: WriteRules,
    lists: AtomicUsize,
    hangs: AtomicBool,
    hung: Notify,
}

impl ForeignStore {
    /// A server whose tenant acme has its skills here.
    pub async fn server(&self, runs: impl FnOnce(Arc<dyn SkillRuns>) -> Arc<dyn SkillRuns>) -> SkillServer {
        let store = self.clone();
        let stores = CustomStores::default().with_skills("foreign", move |_| store.clone());
        let server = SkillServer::open_over(Config::default(), stores, runs).await;
        let change = SkillSettingsChange {
            store: Some("custom:foreign".to_owned()),
            ..SkillSettingsChange::default()
        };
        server.workshop.approval_keys().change(&server.acme, change).await.unwrap().unwrap();
        server
    }

    /// How often the whole store was listed, or a further page of it.
    pub fn lists(&self) -> usize {
        self.0.lists.load(Ordering::SeqCst)
    }

    /// From now on texts are never answered.
    pub fn hangs(&self) {
        self.0.hangs.store(true, Ordering::SeqCst);
    }

    pub async fn until_it_hangs(&self) {
        self.0.hung.notified().await;
    }

    fn page<T>(
        &self,
        after: Option<&str>,
        at_most: usize,
        shown: impl Fn(&BackendWrite) -> T,
    ) -> SkillPage<T> {
        let skills = self.0.skills.lock();
        let mut left = skills.iter().filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        let page: Vec<_> = left.by_ref().take(at_most).collect();
        let next = page.last().filter(|_| left.next().is_some()).map(|(name, _)| (*name).clone());
        SkillPage { items: page.iter().filter_map(|(_, lines)| lines.last()).map(shown).collect(), next }
    }
}

#[async_trait]
impl SkillBackend for ForeignStore {
    type Mark = usize;

    fn implementation(&self) -> &'static str {
        "ForeignStore"
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures::ALL
    }

    fn rules(&self) -> &WriteRules {
        &self.0.rules
    }

    async fn manifest(&self) -> BackendAnswer<Map<String, Value>> {
        Ok(Ok(Map::new()))
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
        if self.0.hangs.load(Ordering::SeqCst) {
            self.0.hung.notify_one();
            pending::<()>().await;
        }
        let skills = self.0.skills.lock();
        let Some(lines) = skills.get(name) else { return Ok(Ok(None)) };
        let wanted = |write: &&BackendWrite| version.is_none_or(|version| write.line.version == version);
        let meta = lines.last().map(|write| write.meta.clone());
        let body = lines.iter().rev().find(wanted).map(|write| write.body.clone());
        Ok(Ok(meta.map(|meta| BackendBody { skill: BackendSkill { meta, mark: lines.len() }, body })))
    }

    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>> {
        self.0.lists.fetch_add(1, Ordering::SeqCst);
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
        let skills = self.0.skills.lock();
        Ok(Ok(skills.get(name).into_iter().flatten().map(|write| write.line.clone()).collect()))
    }

    async fn replace(&self, expected: Option<usize>, write: BackendWrite) -> BackendAnswer<BackendReplaced> {
        let mut skills = self.0.skills.lock();
        let lines = skills.entry(write.meta.name.clone()).or_default();
        if lines.len() != expected.unwrap_or(0) {
            return Ok(Ok(BackendReplaced::Changed));
        }
        lines.push(write);
        Ok(Ok(BackendReplaced::Replaced))
    }

    async fn delete(&self, name: &str) -> BackendAnswer<bool> {
        Ok(Ok(self.0.skills.lock().remove(name).is_some()))
    }

    async fn token(&self) -> BackendAnswer<Option<String>> {
        Ok(Ok(None))
    }
}
