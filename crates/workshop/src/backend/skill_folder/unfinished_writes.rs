//! Unfinished writes of a folder of skills: those that were interrupted because the process ended.
//!
//! The name of a temporary file has the version that the write replaces and the version that it writes. So a write is
//! completed only if its line is the last one of the history and nobody has changed the text since.

use std::fs;

use rustix::fs::OFlags;
use skill::ContentHash;

use super::{FileTrouble, SkillFolder, open_file, remove_if_there, trouble};
use crate::write_rules::is_skill_name;

const TEMPORARY: &str = ".tmp";
/// The replaced version of a skill that is new.
const NEW: &str = "new";

/// A temporary file that a write has left.
#[derive(Debug, PartialEq, Eq)]
pub struct UnfinishedWrite {
    name: String,
    /// None if the skill is new.
    replaced: Option<String>,
    written: String,
}

impl UnfinishedWrite {
    pub fn file_name(name: &str, replaced: Option<&str>, written: &str) -> String {
        format!(".{name}.{}-{written}{TEMPORARY}", replaced.unwrap_or(NEW))
    }

    fn read(file_name: &str) -> Option<Self> {
        let (name, versions) = file_name.strip_prefix('.')?.strip_suffix(TEMPORARY)?.rsplit_once('.')?;
        let (replaced, written) = versions.split_once('-')?;
        let replaced = (replaced != NEW).then(|| replaced.to_owned());
        is_skill_name(name).then(|| Self { name: name.to_owned(), replaced, written: written.to_owned() })
    }
}

impl SkillFolder {
    /// Completes the writes whose line is in the history, and takes back all others. Nobody may write meanwhile.
    pub fn end_unfinished_writes(&self) -> Result<(), FileTrouble> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Ok(()) };
        let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let unfinished: Vec<_> =
            files.filter_map(|file| Some((self.0.join(&file), UnfinishedWrite::read(&file)?))).collect();
        for (temporary, write) in &unfinished {
            if self.has_line_of(write)? && self.is_whole(write)? {
                let text = self.text(&write.name);
                fs::rename(temporary, &text).map_err(|error| trouble(&text, &error))?;
            } else {
                remove_if_there(temporary)?;
            }
        }
        if unfinished.is_empty() { Ok(()) } else { self.sync() }
    }

    /// Whether the history ends with the line of a write, above the text that the write replaces. That of a new skill has
    /// no other line: an older history is that of a deleted skill.
    fn has_line_of(&self, write: &UnfinishedWrite) -> Result<bool, FileTrouble> {
        let text = match self.read(&write.name) {
            // A text that cannot be read is not the one that the write replaces.
            Err(FileTrouble::Refused(_)) => return Ok(false),
            text => text?,
        };
        let version = text.map(|text| ContentHash::of(&text.body).version().to_owned());
        let lines = self.history(&write.name)?.unwrap_or_default();
        let is_of_this_skill = write.replaced.is_some() || lines.len() == 1;
        let is_last = lines.last().is_some_and(|line| line.version == write.written);
        Ok(version == write.replaced && is_of_this_skill && is_last)
    }

    /// Whether the temporary file has the text that its name says.
    fn is_whole(&self, write: &UnfinishedWrite) -> Result<bool, FileTrouble> {
        let UnfinishedWrite { name, replaced, written } = write;
        let path = self.0.join(UnfinishedWrite::file_name(name, replaced.as_deref(), written));
        let Some(file) = open_file(&path, OFlags::RDONLY)? else { return Ok(false) };
        let body = super::text_of(file).map_err(|error| trouble(&path, &error))?;
        Ok(body.is_ok_and(|body| ContentHash::of(&body).version() == written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_temporary_file_says_what_was_to_be_written() {
        for (name, replaced) in [("tide", None), ("a.b-c", Some("0123456789ab"))] {
            let file = UnfinishedWrite::file_name(name, replaced, "ba9876543210");
            let write = UnfinishedWrite {
                name: name.to_owned(),
                replaced: replaced.map(str::to_owned),
                written: "ba9876543210".to_owned(),
            };
            assert_eq!(UnfinishedWrite::read(&file), Some(write), "{file}");
        }
        for other in ["tide.skill.md", ".tide.tmp", ".tide.0123456789abcdef.tmp", ".../x.new-0.tmp", "."] {
            assert_eq!(UnfinishedWrite::read(other), None, "{other}");
        }
    }
}
