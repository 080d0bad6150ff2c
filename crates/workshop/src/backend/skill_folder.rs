//! Files of a folder of skills: reading, replacing and deleting them. Everything here blocks.
//!
//! `NAME.skill.md` is the text of a skill, `NAME.versions.jsonl` its history, one line of JSON for each write. Links are
//! never followed, so no name leads out of the folder.
//!
//! A write takes three steps, each durable before the next: the new text in a temporary file, its line of history, and
//! the rename of the temporary file to the text. If the process ends in between, the temporary file stays, and
//! [`SkillFolder::end_unfinished_writes`] completes the write or takes it back.

mod unfinished_writes;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::fault::Fault;
use crate::skill_meta::VersionInfo;
use crate::store_refusal::RefusalReason;
use crate::write_rules::{BODY_BYTES, is_skill_name};
use unfinished_writes::UnfinishedWrite;

const TEXT: &str = ".skill.md";
const HISTORY: &str = ".versions.jsonl";
/// Longest line of history that is read for its author.
const LINE_BYTES: u64 = 64 * 1024;

/// The text of a skill, as found.
pub struct FoundText {
    pub body: String,
    /// When the file was changed, in milliseconds.
    pub modified: i64,
}

/// A file of a skill, for change tokens.
pub struct ListedFile {
    pub name: String,
    pub modified: i64,
    pub size: u64,
}

impl ListedFile {
    pub fn file_name(&self) -> String {
        format!("{}{TEXT}", self.name)
    }
}

/// A refusal or a fault.
pub enum FileTrouble {
    Refused(RefusalReason),
    Fault(Fault),
}

pub struct SkillFolder(pub PathBuf);

impl SkillFolder {
    /// None if there is no such file, or if it is a link or something else than a file.
    pub fn read(&self, name: &str) -> Result<Option<FoundText>, FileTrouble> {
        let path = self.text(name);
        let Some(file) = open_file(&path, OFlags::RDONLY)? else { return Ok(None) };
        let metadata = file.metadata().map_err(|error| trouble(&path, &error))?;
        let body = text_of(file).map_err(|error| trouble(&path, &error))?;
        let body = body
            .map_err(|why| FileTrouble::Refused(RefusalReason::Unreadable { name: name.to_owned(), why }))?;
        Ok(Some(FoundText { body, modified: modified(&metadata) }))
    }

    /// All skills, in the order of the bytes of their names. None if the folder does not exist.
    pub fn files(&self) -> Result<Option<Vec<ListedFile>>, FileTrouble> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            entries => entries.map_err(|error| trouble(&self.0, &error))?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| trouble(&self.0, &error))?;
            let file_name = entry.file_name();
            let Some(name) = file_name.to_str().and_then(|file| file.strip_suffix(TEXT)) else { continue };
            // It can be gone by now.
            let Ok(metadata) = entry.metadata() else { continue };
            if is_skill_name(name) && metadata.is_file() {
                let (modified, size) = (modified(&metadata), metadata.len());
                found.push(ListedFile { name: name.to_owned(), modified, size });
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Some(found))
    }

    /// The author of the first line of history.
    pub fn author(&self, name: &str) -> Result<Option<String>, FileTrouble> {
        let path = self.history_path(name);
        let Some(file) = open_file(&path, OFlags::RDONLY)? else { return Ok(None) };
        let mut lines = BufReader::new(file.take(LINE_BYTES)).split(b'\n');
        let first = lines.next().transpose().map_err(|error| trouble(&path, &error))?;
        let line = first.and_then(|line| serde_json::from_slice::<VersionInfo>(&line).ok());
        Ok(line.and_then(|line| line.changed_by))
    }

    /// None if there is no history. Lines that are no JSON are skipped: a crash can cut the last one.
    pub fn history(&self, name: &str) -> Result<Option<Vec<VersionInfo>>, FileTrouble> {
        let path = self.history_path(name);
        let Some(mut file) = open_file(&path, OFlags::RDONLY)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| trouble(&path, &error))?;
        let lines = bytes.split(|byte| *byte == b'\n');
        Ok(Some(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
    }

    /// Writes a text and its line of history. `replaced` is the version that the text replaces. A new skill begins a new
    /// history. A write that is refused or fails leaves the earlier text and history.
    pub fn write(
        &self,
        name: &str,
        body: &str,
        line: &VersionInfo,
        replaced: Option<&str>,
    ) -> Result<(), FileTrouble> {
        self.create()?;
        let temporary = self.0.join(UnfinishedWrite::file_name(name, replaced, &line.version));
        let written = self.write_steps(name, &temporary, body, line, replaced.is_none());
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    fn write_steps(
        &self,
        name: &str,
        temporary: &Path,
        body: &str,
        line: &VersionInfo,
        is_new: bool,
    ) -> Result<(), FileTrouble> {
        remove_if_there(temporary)?;
        if is_new {
            // A deletion that a crash interrupted has left it. It must be gone before the temporary file can be found.
            self.remove_history(name)?;
        }
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = create_file(temporary, create)?;
        file.write_all(body.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|error| trouble(temporary, &error))?;
        // The name of the temporary file must be durable before the line is.
        self.sync()?;
        let path = self.history_path(name);
        let fresh = if is_new { OFlags::TRUNC } else { OFlags::empty() };
        let mut history = create_file(&path, OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | fresh)?;
        let before = append(&mut history, line).map_err(|error| trouble(&path, &error))?;
        let text = self.text(name);
        if let Err(error) = fs::rename(temporary, &text) {
            let _ = history.set_len(before);
            return Err(trouble(&text, &error));
        }
        self.sync()
    }

    /// Deletes a skill with its history. False if there is none. The text goes first: without it there is no skill, and
    /// a history that was left over is not read. The next deletion or the next skill of this name removes it.
    pub fn delete(&self, name: &str) -> Result<bool, FileTrouble> {
        let is_there = open_file(&self.text(name), OFlags::RDONLY)?.is_some();
        if is_there {
            remove_if_there(&self.text(name))?;
            self.sync()?;
        }
        self.remove_history(name)?;
        Ok(is_there)
    }

    fn remove_history(&self, name: &str) -> Result<(), FileTrouble> {
        let path = self.history_path(name);
        if open_file(&path, OFlags::RDONLY)?.is_none() {
            return Ok(());
        }
        remove_if_there(&path)?;
        self.sync()
    }

    fn create(&self) -> Result<(), FileTrouble> {
        if self.0.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.0).map_err(|error| trouble(&self.0, &error))?;
        self.0.parent().map_or(Ok(()), sync_folder)
    }

    /// Makes renamed and deleted files durable.
    fn sync(&self) -> Result<(), FileTrouble> {
        sync_folder(&self.0)
    }

    fn text(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}{TEXT}"))
    }

    fn history_path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}{HISTORY}"))
    }
}

fn sync_folder(folder: &Path) -> Result<(), FileTrouble> {
    // The folder of a relative path with one part is the current one.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| trouble(folder, &error))
}

/// The text of a file, or why it cannot be the text of a skill.
fn text_of(file: File) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::new();
    file.take(BODY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BODY_BYTES {
        return Ok(Err(format!("it has more than {BODY_BYTES} bytes")));
    }
    Ok(String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()))
}

fn remove_if_there(path: &Path) -> Result<(), FileTrouble> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(trouble(path, &error)),
        _ => Ok(()),
    }
}

/// Appends a line of history and returns the length before it. A line that was cut stays a line of its own.
fn append(history: &mut File, line: &VersionInfo) -> io::Result<u64> {
    let before = history.seek(SeekFrom::End(0))?;
    let mut text = serde_json::to_string(line)? + "\n";
    if before > 0 {
        let mut last = [0];
        history.seek(SeekFrom::Start(before - 1))?;
        history.read_exact(&mut last)?;
        if last != *b"\n" {
            text.insert(0, '\n');
        }
    }
    let written = history.write_all(text.as_bytes()).and_then(|()| history.sync_all());
    if written.is_err() {
        let _ = history.set_len(before);
    }
    written.map(|()| before)
}

/// A regular file, or None.
fn open_file(path: &Path, how: OFlags) -> Result<Option<File>, FileTrouble> {
    // Opening a pipe would otherwise wait for its writer.
    let how = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, how, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => return Ok(None),
        Err(error) => return Err(trouble(path, &error.into())),
    };
    let metadata = file.metadata().map_err(|error| trouble(path, &error))?;
    Ok(metadata.is_file().then_some(file))
}

fn create_file(path: &Path, how: OFlags) -> Result<File, FileTrouble> {
    let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, how, Mode::from_raw_mode(0o666)) {
        Ok(file) => Ok(File::from(file)),
        Err(rustix::io::Errno::LOOP) => {
            let why = format!("{} is a link", path.display());
            Err(FileTrouble::Refused(RefusalReason::ReadOnly { why }))
        }
        Err(error) => Err(trouble(path, &error.into())),
    }
}

/// What an operator must repair is a refusal, so that callers can tell it from a broken server.
fn trouble(path: &Path, error: &io::Error) -> FileTrouble {
    match error.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded
        | ErrorKind::NotADirectory => {
            FileTrouble::Refused(RefusalReason::ReadOnly { why: format!("{}: {error}", path.display()) })
        }
        _ => FileTrouble::Fault(Fault::io(path, error)),
    }
}

fn modified(metadata: &fs::Metadata) -> i64 {
    metadata.mtime().saturating_mul(1000).saturating_add(metadata.mtime_nsec() / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_a_refusal_and_a_broken_disk_a_fault() {
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::StorageFull] {
            let trouble = trouble(Path::new("skills"), &kind.into());
            assert!(matches!(trouble, FileTrouble::Refused(RefusalReason::ReadOnly { .. })), "{kind}");
        }
        let broken = trouble(Path::new("skills"), &io::Error::from_raw_os_error(5));
        assert!(matches!(broken, FileTrouble::Fault(_)));
    }
}
