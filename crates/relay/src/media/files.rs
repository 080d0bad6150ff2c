//! The folder of files: new files appear in it whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use posthouse_wire::MediaFile;

/// Folder for files that are being written. Everything in it is left over when the server starts.
const UNFINISHED: &str = "unfinished";

/// A folder with two levels: `ab/abcd…`. All its methods block.
#[derive(Clone)]
pub(super) struct MediaFolder(PathBuf);

/// A file that is being written. Dropping it deletes it, unless it was finished.
pub(super) struct UnfinishedFile {
    pub file: File,
    path: PathBuf,
    is_finished: bool,
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl MediaFolder {
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Creates an empty file that only this user can read.
    pub fn create(&self, name: &MediaFile) -> io::Result<UnfinishedFile> {
        let folder = self.0.join(UNFINISHED);
        make_folder(&folder)?;
        let path = folder.join(name.as_str());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(UnfinishedFile { file, path, is_finished: false })
    }

    /// Moves a file to its place. When this returns, it survives a power loss.
    pub fn finish(&self, mut unfinished: UnfinishedFile, name: &MediaFile) -> io::Result<()> {
        unfinished.file.sync_all()?;
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.0);
        if !folder.exists() {
            make_folder(folder)?;
            File::open(&self.0)?.sync_all()?;
        }
        fs::rename(&unfinished.path, &path)?;
        unfinished.is_finished = true;
        File::open(folder)?.sync_all()
    }

    pub fn open(&self, name: &MediaFile) -> io::Result<File> {
        File::open(self.path(name))
    }

    /// Deletes a file. One that does not exist is fine.
    pub fn delete(&self, name: &MediaFile) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes what an earlier process was writing when it ended.
    pub fn delete_unfinished(&self) {
        for left_over in entries(&self.0.join(UNFINISHED)) {
            let _ = fs::remove_file(left_over);
        }
    }

    /// The folders that hold files.
    pub fn folders(&self) -> Vec<PathBuf> {
        entries(&self.0).into_iter().filter(|path| !path.ends_with(UNFINISHED)).collect()
    }

    /// The files in one of the folders.
    pub fn files_in(folder: &Path) -> Vec<MediaFile> {
        let name = |path: PathBuf| MediaFile::read(path.file_name()?.to_str()?);
        entries(folder).into_iter().filter_map(name).collect()
    }

    fn path(&self, name: &MediaFile) -> PathBuf {
        let name = name.as_str();
        self.0.join(name.get(..2).unwrap_or("xx")).join(name)
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A folder that does not exist has no entries.
fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
