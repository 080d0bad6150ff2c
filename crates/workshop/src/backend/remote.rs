//! Skills in a remote store: an HTTP endpoint of the tenant's operator.
//!
//! The endpoint stores records, texts and lines of history unchanged, and replaces a skill only if nobody has changed
//! it since it was read. All rules are applied by this server. Answers that contradict themselves or the request are
//! failures.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Timepiece;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use skill::{ContentHash, status_of};

use super::{
    BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendStore, BackendWrite, SkillBackend,
};
use crate::remote_stores::{OperationAnswer, RemoteAnswer, RemoteEndpoint, nullable, reason};
use crate::skill_meta::{SkillMeta, SkillSummary, VersionInfo};
use crate::skill_store::{SkillPage, SkillText, StoreFeatures};
use crate::store_failure::StoreFailure;
use crate::store_refusal::RefusalReason;
use crate::store_walk::WalkLimit;
use crate::write_rules::{BODY_BYTES, METADATA_BYTES, WriteRules, is_skill_name};

/// The largest answer with one text: every byte of it as a six-byte JSON escape, and the record.
const ONE_TEXT: usize = 6 * (BODY_BYTES + METADATA_BYTES) + 64 * 1024;
/// The largest page. A store sends fewer skills if they do not fit.
const ONE_PAGE: usize = 2 * 1024 * 1024;
/// The largest history.
const HISTORY: usize = 8 * 1024 * 1024;
const SMALL: usize = 64 * 1024;
/// The number of pages, with the size of a page, limits the memory for a list.
const WALK: WalkLimit = WalkLimit { pages: 128, time: Duration::from_secs(60) };
/// The longest mark and the longest token.
const MARK: usize = 256;
/// The longest author, in bytes.
const LABEL: usize = 1024;

/// The skills of one tenant in a remote store.
pub type RemoteSkillStore = BackendStore<RemoteBackend>;

pub struct RemoteBackend {
    endpoint: Arc<RemoteEndpoint>,
    rules: WriteRules,
}

impl RemoteSkillStore {
    pub(crate) fn open(endpoint: Arc<RemoteEndpoint>, timepiece: Timepiece) -> Self {
        let rules = WriteRules { keeps_metadata: true, ..WriteRules::default() };
        Self::new(RemoteBackend { endpoint, rules }, timepiece)
    }
}

#[derive(Deserialize)]
struct FoundAnswer {
    #[serde(deserialize_with = "nullable")]
    skill: Option<FoundSkill>,
}

#[derive(Deserialize)]
struct FoundSkill {
    record: SkillMeta,
    mark: String,
    text: Option<String>,
}

#[derive(Deserialize)]
struct PageAnswer<T> {
    skills: Vec<T>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct RemoteText {
    name: String,
    text: String,
}

#[derive(Deserialize)]
struct HistoryAnswer {
    versions: Vec<VersionInfo>,
}

#[derive(Deserialize)]
struct ReplacedAnswer {
    replaced: bool,
}

#[derive(Deserialize)]
struct DeletedAnswer {
    deleted: bool,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(deserialize_with = "nullable")]
    token: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct ManifestAnswer {
    pub manifest: Map<String, Value>,
}

impl RemoteBackend {
    async fn found(
        &self,
        name: &str,
        version: Option<&str>,
        with_text: bool,
    ) -> RemoteAnswer<Option<FoundSkill>> {
        let mut arguments = json!({ "name": name, "with_text": with_text });
        if let Some(version) = version {
            arguments["version"] = json!(version);
        }
        let answer: Result<FoundAnswer, _> = self.endpoint.call("skills.find", arguments, ONE_TEXT).await?;
        Ok(answer.and_then(|answer| match answer.skill {
            Some(skill) => check_found(&skill, name, version).map(|()| Some(skill)),
            None => Ok(None),
        }))
    }

    /// A page in the strict order of the bytes of names, after the name that was given.
    async fn page<T: serde::de::DeserializeOwned>(
        &self,
        operation: &'static str,
        after: Option<&str>,
        at_most: usize,
        name_of: impl Fn(&T) -> &str,
    ) -> RemoteAnswer<SkillPage<T>> {
        let arguments = json!({ "after": after, "limit": at_most });
        let page: Result<PageAnswer<T>, _> = self.endpoint.call(operation, arguments, ONE_PAGE).await?;
        Ok(page.and_then(|page| {
            let mut last = after.unwrap_or_default();
            for skill in &page.skills {
                let name = name_of(skill);
                if name <= last || !is_skill_name(name) {
                    return Err(StoreFailure::bad_answer(
                        "its names are not in order, or are no names of skills",
                    ));
                }
                last = name;
            }
            // A page with a next page has at least one skill, so that every list ends.
            let goes_on = page.next.as_deref().is_none_or(|next| next == last && !page.skills.is_empty());
            if page.skills.len() > at_most || !goes_on {
                return Err(StoreFailure::bad_answer("it is no page of the list"));
            }
            Ok(SkillPage { items: page.skills, next: page.next })
        }))
    }
}

fn is_text_of(record: &SkillMeta, text: &str) -> bool {
    ContentHash::of(text).as_str() == record.content_hash
}

fn check_found(found: &FoundSkill, name: &str, version: Option<&str>) -> Result<(), StoreFailure> {
    check_record(&found.record)?;
    if found.record.name != name || found.mark.len() > MARK {
        return Err(StoreFailure::bad_answer("it is about another skill"));
    }
    let Some(text) = &found.text else { return Ok(()) };
    let hash = ContentHash::of(text);
    let is_current = version.is_none_or(|version| version == found.record.version);
    let fits = match is_current {
        // The approval gate reads the status in the text, so a record with another status is wrong.
        true => is_text_of(&found.record, text) && status_of(text).status() == found.record.status,
        false => Some(hash.version()) == version,
    };
    if text.len() > BODY_BYTES || !fits {
        return Err(StoreFailure::bad_answer("a text is not the one that its record describes"));
    }
    Ok(())
}

fn check_record(record: &SkillMeta) -> Result<(), StoreFailure> {
    let is_hash = record.content_hash.len() == 64
        && record.content_hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hash || !record.content_hash.starts_with(&record.version) || record.version.len() != 12 {
        return Err(StoreFailure::bad_answer("a record has a wrong `version` or `content_hash`"));
    }
    let bag = record.metadata_bag.as_ref().map_or(0, json_bytes);
    let author = record.author.as_ref().map_or(0, String::len);
    if bag > METADATA_BYTES || author > LABEL {
        return Err(StoreFailure::bad_answer(
            "a record has a `metadata_bag` or an `author` that is too large",
        ));
    }
    Ok(())
}

fn check_line(line: &VersionInfo, name: &str) -> Result<(), StoreFailure> {
    if line.name != name {
        return Err(StoreFailure::bad_answer("it is about another skill"));
    }
    let is_version = line.version.len() == 12 && line.content_hash.starts_with(&line.version);
    if !is_version || line.changed_by.as_ref().is_some_and(|by| by.len() > LABEL) {
        return Err(StoreFailure::bad_answer(
            "a line has a wrong `version`, or a `changed_by` that is too large",
        ));
    }
    Ok(())
}

/// The size of an object as JSON.
pub(crate) fn json_bytes(object: &Map<String, Value>) -> usize {
    serde_json::to_string(object).map_or(usize::MAX, |json| json.len())
}

fn answered<T>(answer: RemoteAnswer<T>) -> BackendAnswer<T> {
    Ok(answer?.map_err(RefusalReason::Remote))
}

fn written<T>(answer: RemoteAnswer<OperationAnswer<T>>) -> BackendAnswer<T> {
    Ok(match answer? {
        Ok(OperationAnswer::Done(done)) => Ok(done),
        Ok(OperationAnswer::Refused { refused }) => Err(RefusalReason::ReadOnly { why: reason(&refused) }),
        Err(failure) => Err(RefusalReason::Remote(failure)),
    })
}

#[async_trait]
impl SkillBackend for RemoteBackend {
    /// A text that the endpoint chooses and compares.
    type Mark = String;

    fn implementation(&self) -> &'static str {
        "RemoteSkillStore"
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures::ALL
    }

    fn rules(&self) -> &WriteRules {
        &self.rules
    }

    fn walk_limit(&self) -> Option<WalkLimit> {
        Some(WALK)
    }

    async fn manifest(&self) -> BackendAnswer<Map<String, Value>> {
        let answer = self.endpoint.call("skills.manifest", json!({}), SMALL).await;
        Ok(answered(answer)?.map(|ManifestAnswer { mut manifest }| {
            let kind = manifest.insert("kind".to_owned(), json!("remote"));
            if let Some(kind) = kind {
                manifest.insert("remote_kind".to_owned(), kind);
            }
            manifest
        }))
    }

    async fn find(&self, name: &str) -> BackendAnswer<Option<BackendSkill<String>>> {
        let found = answered(self.found(name, None, false).await)?;
        Ok(found.map(|found| found.map(|found| BackendSkill { meta: found.record, mark: found.mark })))
    }

    async fn find_body(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BackendAnswer<Option<BackendBody<String>>> {
        let found = answered(self.found(name, version, true).await)?;
        Ok(found.map(|found| {
            found.map(|FoundSkill { mut record, mark, text }| {
                // What the header says is read from the text, not believed.
                if let Some(text) = text.as_ref().filter(|text| is_text_of(&record, text)) {
                    record.summary = SkillSummary::of(text);
                }
                BackendBody { skill: BackendSkill { meta: record, mark }, body: text }
            })
        }))
    }

    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>> {
        let page = self.page("skills.list", after, at_most, |skill: &SkillMeta| &skill.name).await?;
        let checked = page.and_then(|page| {
            page.items.iter().try_for_each(check_record)?;
            Ok(page)
        });
        answered(Ok(checked))
    }

    async fn texts(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillText>> {
        let page = self.page("skills.texts", after, at_most, |skill: &RemoteText| &skill.name).await?;
        let page =
            page.and_then(|page| match page.items.iter().all(|skill| skill.text.len() <= BODY_BYTES) {
                true => Ok(page),
                false => Err(StoreFailure::bad_answer("a text is too large")),
            });
        let text = |RemoteText { name, text }| {
            let content_hash = ContentHash::of(&text).as_str().to_owned();
            SkillText { name, content_hash, text }
        };
        answered(Ok(
            page.map(|page| SkillPage { items: page.items.into_iter().map(text).collect(), next: page.next })
        ))
    }

    async fn history(&self, name: &str) -> BackendAnswer<Vec<VersionInfo>> {
        let lines = self.endpoint.call("skills.history", json!({ "name": name }), HISTORY).await?;
        answered(Ok(lines.and_then(|HistoryAnswer { versions }| {
            versions.iter().try_for_each(|line| check_line(line, name))?;
            Ok(versions)
        })))
    }

    async fn replace(&self, expected: Option<String>, write: BackendWrite) -> BackendAnswer<BackendReplaced> {
        let BackendWrite { meta, body, line, .. } = write;
        let arguments = json!({
            "name": meta.name, "expected": expected, "record": meta, "text": body, "line": line,
        });
        let replaced = written(self.endpoint.call("skills.replace", arguments, SMALL).await)?;
        Ok(replaced.map(|ReplacedAnswer { replaced }| match replaced {
            true => BackendReplaced::Replaced,
            false => BackendReplaced::Changed,
        }))
    }

    async fn delete(&self, name: &str) -> BackendAnswer<bool> {
        let deleted = written(self.endpoint.call("skills.delete", json!({ "name": name }), SMALL).await)?;
        Ok(deleted.map(|DeletedAnswer { deleted }| deleted))
    }

    async fn token(&self) -> BackendAnswer<Option<String>> {
        let token = self.endpoint.call("skills.token", json!({}), SMALL).await?;
        answered(Ok(token.and_then(|TokenAnswer { token }| {
            match token.as_ref().is_none_or(|token| token.len() <= MARK) {
                true => Ok(token),
                false => Err(StoreFailure::bad_answer("its token is too long")),
            }
        })))
    }
}
