//! Skills in a folder with the layout of the reference runtime.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use ledger::FileThreads;
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use serde_json::{Map, Value, json};
use skill::{ContentHash, status_of};

use super::change_token::token_of;
use super::skill_folder::{FileTrouble, FoundText, ListedFile, SkillFolder};
use super::{
    BackendAnswer, BackendBody, BackendReplaced, BackendSkill, BackendStore, BackendWrite, SkillBackend,
};
use crate::skill_meta::{SkillMeta, SkillSummary, VersionInfo};
use crate::skill_store::{SkillPage, SkillText, StoreFeatures};
use crate::write_rules::WriteRules;

/// Two changes of a file within this time, in milliseconds, can have the same time of change.
const YOUNG: i64 = 2000;

/// Files that are read at a time, in bytes.
const PAGE_BYTES: usize = 8 << 20;

/// Skills in a folder.
pub type FilesystemSkillStore = BackendStore<FilesystemBackend>;

#[derive(Clone)]
pub struct FilesystemBackend {
    folder: Arc<LockedFolder>,
    threads: Arc<FileThreads>,
    timepiece: Timepiece,
    rules: WriteRules,
}

/// A folder, and the lock that the writers of this store hold. Other programs do not know the lock: of two writes at the
/// same time, the last one wins.
struct LockedFolder {
    folder: SkillFolder,
    writing: Mutex<()>,
    /// Whether the writes that an earlier process left unfinished were ended.
    is_repaired: AtomicBool,
}

impl LockedFolder {
    /// Ends unfinished writes before the first use. In a folder that cannot be written now, the next use tries again.
    fn repair(&self) {
        if self.is_repaired.load(Ordering::Acquire) {
            return;
        }
        let _writing = self.writing.lock();
        if !self.is_repaired.load(Ordering::Acquire) && self.folder.end_unfinished_writes().is_ok() {
            self.is_repaired.store(true, Ordering::Release);
        }
    }
}

/// Settings of a folder of skills.
#[derive(Clone, Debug)]
pub struct FilesystemSettings {
    pub root: PathBuf,
    /// The author of skills that are written without one. The reference takes the user of the operating system.
    pub default_author: Option<String>,
    /// An overwrite keeps the status of the stored skill, unless a status is given with the write. Default: true, as in
    /// the reference.
    pub overwrite_keeps_status: bool,
}

impl FilesystemSettings {
    pub fn new(root: PathBuf) -> Self {
        Self { root, default_author: None, overwrite_keeps_status: true }
    }
}

impl FilesystemSkillStore {
    /// The folder is created with the first write.
    pub fn open(settings: FilesystemSettings, timepiece: Timepiece) -> Self {
        let FilesystemSettings { root, default_author, overwrite_keeps_status } = settings;
        let rules = WriteRules {
            overwrite_keeps_status,
            default_author,
            // The author of a skill is that of its first line of history.
            history_names_author: true,
            keeps_metadata: false,
        };
        let folder = LockedFolder {
            folder: SkillFolder(root),
            writing: Mutex::new(()),
            is_repaired: AtomicBool::new(false),
        };
        let (folder, threads) = (Arc::new(folder), Arc::default());
        let backend = FilesystemBackend { folder, threads, timepiece: timepiece.clone(), rules };
        Self::new(backend, timepiece)
    }
}

/// The text and the author of a skill as they were read.
#[derive(Clone, PartialEq, Eq)]
pub struct FileMark {
    content_hash: String,
    author: Option<String>,
}

impl FilesystemBackend {
    /// Reads the files after this name, at most this many. A file that cannot be read is left out, and so is one that has
    /// gone.
    async fn page<T: Send + 'static>(
        &self,
        after: Option<&str>,
        at_most: usize,
        read: impl Fn(&SkillFolder, &str, FoundText) -> Option<T> + Send + 'static,
    ) -> BackendAnswer<SkillPage<T>> {
        let after = after.map(str::to_owned);
        self.run(move |LockedFolder { folder, .. }| {
            let files = folder.files()?.unwrap_or_default();
            let start = after.map_or(0, |after| files.partition_point(|file| file.name <= after));
            let rest = &files[start..];
            let mut bytes = 0;
            let too_much = |file: &ListedFile| {
                bytes += usize::try_from(file.size).unwrap_or(usize::MAX / 2);
                bytes > PAGE_BYTES
            };
            // The page ends with the file with which it becomes too large.
            let end = rest.iter().position(too_much).map_or(rest.len(), |at| at + 1).min(at_most);
            let item = |file: &ListedFile| read(folder, &file.name, folder.read(&file.name).ok()??);
            let items = rest[..end].iter().filter_map(item).collect();
            let next = rest[..end].last().filter(|_| end < rest.len()).map(|file| file.name.clone());
            Ok(SkillPage { items, next })
        })
        .await
    }

    /// Runs work on one of the file threads.
    async fn run<T, W>(&self, work: W) -> BackendAnswer<T>
    where
        T: Send + 'static,
        W: FnOnce(&LockedFolder) -> Result<T, FileTrouble> + Send + 'static,
    {
        let folder = Arc::clone(&self.folder);
        let work = move || {
            folder.repair();
            work(&folder)
        };
        match self.threads.work(work).await.map_err(ledger::Fault::from)? {
            Ok(answer) => Ok(Ok(answer)),
            Err(FileTrouble::Refused(refusal)) => Ok(Err(refusal)),
            Err(FileTrouble::Fault(fault)) => Err(fault),
        }
    }
}

#[async_trait]
impl SkillBackend for FilesystemBackend {
    type Mark = FileMark;

    fn implementation(&self) -> &'static str {
        "FilesystemSkillStore"
    }

    fn features(&self) -> StoreFeatures {
        StoreFeatures {
            supports_writes: true,
            supports_versioning: true,
            supports_tag_filter: true,
            supports_audit_trail: true,
            supports_atomic_status_transitions: false,
        }
    }

    fn rules(&self) -> &WriteRules {
        &self.rules
    }

    fn on_threads(&self, threads: &Arc<FileThreads>) -> Option<Self> {
        Some(Self { threads: Arc::clone(threads), ..self.clone() })
    }

    async fn manifest(&self) -> BackendAnswer<Map<String, Value>> {
        let root = self.folder.folder.0.to_string_lossy().into_owned();
        let root = ("root_dir".to_owned(), json!(root));
        Ok(Ok(Map::from_iter([("kind".to_owned(), json!("filesystem")), root])))
    }

    async fn find(&self, name: &str) -> BackendAnswer<Option<BackendSkill<FileMark>>> {
        let found = self.find_body(name, None).await?;
        Ok(found.map(|found| found.map(|found| found.skill)))
    }

    /// The folder holds current texts only.
    async fn find_body(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> BackendAnswer<Option<BackendBody<FileMark>>> {
        let (name, version) = (name.to_owned(), version.map(str::to_owned));
        self.run(move |LockedFolder { folder, .. }| {
            let Some(found) = folder.read(&name)? else { return Ok(None) };
            let skill = backend_skill(folder, &name, &found)?;
            let is_asked = version.is_none_or(|version| version == skill.meta.version);
            Ok(Some(BackendBody { skill, body: is_asked.then_some(found.body) }))
        })
        .await
    }

    async fn list(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillMeta>> {
        self.page(after, at_most, |folder, name, found| {
            backend_skill(folder, name, &found).ok().map(|skill| skill.meta)
        })
        .await
    }

    async fn texts(&self, after: Option<&str>, at_most: usize) -> BackendAnswer<SkillPage<SkillText>> {
        self.page(after, at_most, |_, name, found| {
            let content_hash = ContentHash::of(&found.body).as_str().to_owned();
            Some(SkillText { name: name.to_owned(), content_hash, text: found.body })
        })
        .await
    }

    async fn history(&self, name: &str) -> BackendAnswer<Vec<VersionInfo>> {
        let name = name.to_owned();
        self.run(move |LockedFolder { folder, writing, .. }| {
            // During a write the history is ahead of the text.
            let _writing = writing.lock();
            let Some(found) = folder.read(&name)? else { return Ok(Vec::new()) };
            let lines = folder.history(&name)?.filter(|lines| !lines.is_empty());
            Ok(lines.unwrap_or_else(|| vec![only_line(&name, &found)]))
        })
        .await
    }

    async fn replace(
        &self,
        expected: Option<FileMark>,
        write: BackendWrite,
    ) -> BackendAnswer<BackendReplaced> {
        self.run(move |LockedFolder { folder, writing, .. }| {
            let _writing = writing.lock();
            let name = &write.meta.name;
            let current = match folder.read(name)? {
                Some(found) => Some(backend_skill(folder, name, &found)?),
                None => None,
            };
            if current.as_ref().map(|skill| &skill.mark) != expected.as_ref() {
                return Ok(BackendReplaced::Changed);
            }
            let replaced = current.as_ref().map(|skill| skill.meta.version.as_str());
            folder.write(name, &write.body, &write.line, replaced)?;
            Ok(BackendReplaced::Replaced)
        })
        .await
    }

    async fn delete(&self, name: &str) -> BackendAnswer<bool> {
        let name = name.to_owned();
        self.run(move |LockedFolder { folder, writing, .. }| {
            let _writing = writing.lock();
            folder.delete(&name)
        })
        .await
    }

    /// The token covers the name and modification time of each file, as in the reference. For a recently changed file it
    /// also covers size and content, because a second change may leave the same modification time.
    async fn token(&self) -> BackendAnswer<Option<String>> {
        let now = self.timepiece.now().millis();
        self.run(move |LockedFolder { folder, .. }| {
            let Some(files) = folder.files()? else { return Ok(Some("empty".to_owned())) };
            let line = |file: ListedFile| {
                let old = format!("{}:{}", file.file_name(), file.modified);
                if now.saturating_sub(file.modified) >= YOUNG {
                    return old;
                }
                let found = folder.read(&file.name).ok().flatten();
                let hash = found.map(|found| ContentHash::of(&found.body).to_string()).unwrap_or_default();
                format!("{old}:{}:{hash}", file.size)
            };
            Ok(Some(token_of(files.into_iter().map(line))))
        })
        .await
    }
}

fn backend_skill(
    folder: &SkillFolder,
    name: &str,
    found: &FoundText,
) -> Result<BackendSkill<FileMark>, FileTrouble> {
    let hash = ContentHash::of(&found.body);
    let author = folder.author(name)?;
    let changed = found.modified.div_euclid(1000);
    let meta = SkillMeta {
        name: name.to_owned(),
        version: hash.version().to_owned(),
        content_hash: hash.as_str().to_owned(),
        status: status_of(&found.body).status(),
        summary: SkillSummary::of(&found.body),
        created_at: changed,
        updated_at: changed,
        status_changed_at: None,
        author: author.clone(),
        metadata_bag: None,
    };
    Ok(BackendSkill { meta, mark: FileMark { content_hash: hash.as_str().to_owned(), author } })
}

/// The history of a file that was put into the folder by hand.
fn only_line(name: &str, found: &FoundText) -> VersionInfo {
    let hash = ContentHash::of(&found.body);
    VersionInfo {
        name: name.to_owned(),
        version: hash.version().to_owned(),
        content_hash: hash.as_str().to_owned(),
        status: status_of(&found.body).status(),
        previous_status: None,
        changed_at: found.modified.div_euclid(1000),
        changed_by: None,
    }
}
