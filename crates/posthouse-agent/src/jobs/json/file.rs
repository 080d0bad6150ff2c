//! Job file on disk: read when it has changed, replaced as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use uuid::Uuid;

use super::document::{Document, Unsaved};
use super::lock::{lock, try_lock};
use crate::cron::schedule::iso;
use crate::jobs::{Fault, JobStoreSettings, Tick};

/// Longest wait for the lock of another process.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct JobFile {
    folder: PathBuf,
    path: PathBuf,
    store_settings: JobStoreSettings,
    patience: Duration,
    loaded: Mutex<Option<LoadedFile>>,
}

/// The file as it was last read or written. It is kept open: no other file can get its inode meanwhile, so
/// the same inode under the same name is the same file.
struct LoadedFile {
    _open: File,
    version: FileVersion,
    document: Arc<Document>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    /// Size and time detect a manual edit in place.
    size: u64,
    modified: (i64, i64),
}

impl FileVersion {
    fn of(file: &fs::Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
        }
    }
}

impl JobFile {
    pub(super) fn open(folder: &Path, store_settings: JobStoreSettings) -> Result<Self, Fault> {
        let file = Self {
            folder: folder.to_owned(),
            path: folder.join("jobs.json"),
            store_settings,
            patience: PATIENCE,
            loaded: Mutex::new(None),
        };
        file.make_folder()?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The current content of the file. A missing file means no jobs.
    pub(super) fn current(&self) -> Result<Arc<Document>, Fault> {
        let mut loaded = self.loaded.lock();
        let version = match fs::metadata(&self.path) {
            Ok(file) => FileVersion::of(&file),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                *loaded = None;
                return Ok(Arc::default());
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.version == version) {
            return Ok(Arc::clone(&loaded.document));
        }
        let mut open = File::open(&self.path)?;
        // Metadata of the opened file, which may be newer than the one checked above.
        let version = FileVersion::of(&open.metadata()?);
        let mut text = Vec::new();
        open.read_to_end(&mut text)?;
        let document = Arc::new(Document::read(&text, loaded.as_ref().map(|loaded| &*loaded.document))?);
        *loaded = Some(LoadedFile { _open: open, version, document: Arc::clone(&document) });
        Ok(document)
    }

    /// Reads the file, lets `work` change it, and writes it, all under the lock.
    pub(super) fn change(&self, work: impl FnOnce(&mut Document)) -> Result<(), Fault> {
        let lock = self.locked()?;
        let mut document = Document::clone(&*self.current()?);
        work(&mut document);
        let unsaved = document.unsaved();
        if unsaved == Unsaved::Nothing {
            return Ok(());
        }
        let folder = self.replace(document)?;
        drop(lock);
        // The file is flushed, but its new name is part of the folder. The lock can be released before the
        // folder is flushed: what the next process writes cannot reach the disk before this change does.
        if unsaved == Unsaved::Lasting {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    pub(super) fn tick(&self) -> Result<Option<Tick>, Fault> {
        Ok(try_lock(&self.folder.join(".tick.lock"))?.map(|file| Tick(Some(file))))
    }

    fn locked(&self) -> Result<File, Fault> {
        let path = self.folder.join(".jobs.lock");
        if !self.folder.exists() {
            self.make_folder()?;
        }
        lock(&path, self.patience)
    }

    /// Returns the folder that contains the file.
    fn replace(&self, mut document: Document) -> Result<PathBuf, Fault> {
        // Follows a symbolic link, so that the link stays a link.
        let target = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let folder = target.parent().unwrap_or(&self.folder).to_owned();
        let mark = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)).simple();
        let draft = folder.join(format!(".jobs_{mark}.tmp"));
        let text = document.write(&iso(self.store_settings.now(), &self.store_settings.zone));
        let written = write_draft(&draft, text.as_bytes()).and_then(|file| {
            fs::rename(&draft, &target)?;
            Ok(file)
        });
        let open = match written {
            Ok(file) => file,
            Err(error) => {
                // A draft that is left behind is harmless. The error of the write matters.
                let _ = fs::remove_file(&draft);
                return Err(error.into());
            }
        };
        let version = FileVersion::of(&open.metadata()?);
        *self.loaded.lock() = Some(LoadedFile { _open: open, version, document: Arc::new(document) });
        Ok(folder)
    }

    fn make_folder(&self) -> Result<(), Fault> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        fs::set_permissions(&self.folder, Permissions::from_mode(0o700))?;
        Ok(())
    }
}

/// Always flushed before the rename. Otherwise a power failure could leave the name pointing to an empty
/// file, which means no jobs.
fn write_draft(path: &Path, text: &[u8]) -> std::io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use posthouse_time::{Moment, Timepiece};

    use super::*;

    #[test]
    fn a_lock_that_cannot_be_had_fails_the_change() {
        let home = tempfile::tempdir().unwrap();
        let store_settings = JobStoreSettings::new(Timepiece::wound(Moment::default()), TimeZone::UTC);
        let mut file = JobFile::open(home.path(), store_settings).unwrap();
        file.patience = Duration::from_millis(1);
        let held = lock(&home.path().join(".jobs.lock"), Duration::ZERO).unwrap();
        assert!(matches!(file.change(|_| panic!("without the lock nothing is done")), Err(Fault::Locked)));
        drop(held);
        file.change(|_| ()).unwrap();
    }
}
