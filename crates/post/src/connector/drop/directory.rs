//! Safe file access in a drop directory.
//!
//! The directory is opened anew for every file, component by component from the allowed folder, without following
//! symbolic links, and then used by its handle. So a user who can write there cannot redirect our writes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::super::unique_names;
use super::workers::DirectoryWorkers;

/// The largest number of files with one id.
const MOST_NAMESAKES: u32 = 99;
/// The largest file that is read for comparison. A longer one is not ours.
const LARGEST_KEPT: u64 = 8 * 1024 * 1024;

/// A drop directory.
#[derive(Clone, Debug)]
pub(super) struct DropDirectory {
    /// The allowed folder. Symbolic links on the path to it are followed, because the operator chose it.
    root: PathBuf,
    below: Vec<OsString>,
    pub hands: DirectoryWorkers,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum DropError {
    /// A component of the path is a link or not a directory. A permanent failure.
    #[error("the drop directory is not a plain directory: symbolic links are not followed")]
    Crooked,
    #[error("{MOST_NAMESAKES} other files have this id")]
    TooMany,
    #[error("the drop directory does not respond")]
    Hung,
    /// Perhaps temporary: a disk that is full, not mounted, or mounted read-only.
    #[error("the drop directory cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for DropError {
    fn from(errno: Errno) -> Self {
        DropError::Io(errno.into())
    }
}

/// The result of reading a file.
pub(super) enum FoundFile {
    Nothing,
    /// Not a readable file: a link, a directory, a pipe, or too long.
    Strange,
    Bytes(Vec<u8>),
}

impl DropDirectory {
    pub fn new(root: &Path, below: &Path, hands: DirectoryWorkers) -> Self {
        Self { root: root.to_owned(), below: below.iter().map(OsStr::to_owned).collect(), hands }
    }

    /// Its path, for operators only.
    pub fn path(&self) -> PathBuf {
        self.root.iter().chain(self.below.iter().map(OsString::as_os_str)).collect()
    }

    /// Writes the bytes to `{stem}{ending}`, or to `{stem}-2{ending}` and so on if that name is taken. If one of these
    /// files is the `same`, nothing is written. Returns the name after everything is synced to disk.
    pub fn put(
        &self,
        stem: &str,
        ending: &str,
        bytes: &[u8],
        same: impl Fn(&[u8]) -> bool,
    ) -> Result<String, DropError> {
        let dir = self.enter()?;
        let mut draft = None;
        for number in 1..=MOST_NAMESAKES {
            let name = match number {
                1 => format!("{stem}{ending}"),
                _ => format!("{stem}-{number}{ending}"),
            };
            // Another process may take the name between the read and the rename. Then the file is read again.
            for _ in 0..2 {
                match read(&dir, &name, LARGEST_KEPT)? {
                    FoundFile::Bytes(kept) if same(&kept) => {
                        sync(&dir)?;
                        return Ok(name);
                    }
                    FoundFile::Bytes(_) | FoundFile::Strange => break,
                    FoundFile::Nothing => {}
                }
                let draft = match &mut draft {
                    Some(draft) => draft,
                    none => none.insert(DraftFile::write(&dir, bytes)?),
                };
                if draft.place(&name)? {
                    sync(&dir)?;
                    return Ok(name);
                }
            }
        }
        Err(DropError::TooMany)
    }

    pub fn find(&self, name: &str, at_most: u64) -> Result<FoundFile, DropError> {
        read(&self.enter()?, name, at_most)
    }

    /// Writes a temporary file and removes it.
    pub fn probe(&self) -> Result<(), DropError> {
        DraftFile::write(&self.enter()?, b"").map(drop)
    }

    fn enter(&self) -> Result<OwnedFd, DropError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut dir = rustix::fs::open(&self.root, flags, Mode::empty())?;
        for part in &self.below {
            dir = match rustix::fs::openat(&dir, part, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(DropError::Crooked),
                opened => opened?,
            };
        }
        Ok(dir)
    }
}

/// A temporary file with a hidden name until it is complete. It is removed if it never gets its final name.
struct DraftFile<'d> {
    dir: &'d OwnedFd,
    name: String,
    placed: bool,
}

impl<'d> DraftFile<'d> {
    fn write(dir: &'d OwnedFd, bytes: &[u8]) -> Result<Self, DropError> {
        let name = unique_names::name(".posthouse-");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &name, flags, Mode::from_raw_mode(0o640))?;
        let draft = Self { dir, name, placed: false };
        let mut file = File::from(file);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(draft)
    }

    /// Renames the file to its final name. False if the name is taken.
    fn place(&mut self, name: &str) -> Result<bool, DropError> {
        match self.rename(name) {
            Err(Errno::EXIST) => Ok(false),
            renamed => {
                renamed?;
                self.placed = true;
                Ok(true)
            }
        }
    }

    fn rename(&self, name: &str) -> Result<(), Errno> {
        match rustix::fs::renameat_with(self.dir, &self.name, self.dir, name, RenameFlags::NOREPLACE) {
            // Some network file systems do not support NOREPLACE. A check just before the rename must do there.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match rustix::fs::statat(self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => rustix::fs::renameat(self.dir, &self.name, self.dir, name),
                    Err(errno) => Err(errno),
                    Ok(_) => Err(Errno::EXIST),
                }
            }
            renamed => renamed,
        }
    }
}

impl Drop for DraftFile<'_> {
    fn drop(&mut self) {
        if !self.placed {
            let _ = rustix::fs::unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

fn read(dir: &OwnedFd, name: &str, at_most: u64) -> Result<FoundFile, DropError> {
    // NONBLOCK, so that a pipe without a writer does not block us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(FoundFile::Nothing),
        Err(Errno::LOOP | Errno::NXIO | Errno::ACCESS) => return Ok(FoundFile::Strange),
        Err(errno) => return Err(errno.into()),
    };
    let about = file.metadata()?;
    if !about.is_file() || about.len() > at_most {
        return Ok(FoundFile::Strange);
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    file.take(at_most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > at_most { Ok(FoundFile::Strange) } else { Ok(FoundFile::Bytes(bytes)) }
}

/// Syncs the directory entry to disk, on file systems that can sync directories.
fn sync(dir: &OwnedFd) -> Result<(), DropError> {
    match rustix::fs::fsync(dir) {
        Err(Errno::INVAL) => Ok(()),
        synced => Ok(synced?),
    }
}
