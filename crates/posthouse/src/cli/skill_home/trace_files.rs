//! Trace files of a home: one JSON file for each recorded run, `traces/SKILL/ID.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::NewTrace;

/// The recorded runs of a home.
pub struct TraceFiles {
    folder: PathBuf,
}

impl TraceFiles {
    pub fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn write(&self, trace: &NewTrace) -> anyhow::Result<()> {
        if !is_plain(&trace.skill) {
            bail!("the name of the skill, '{}', cannot be the name of a folder", trace.skill);
        }
        let folder = self.folder.join(&trace.skill);
        let file = folder.join(format!("{}.json", trace.id));
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, &trace.record));
        written.with_context(|| format!("cannot write {}", file.display()))
    }

    /// The records of one skill, or of all, newest first. Files that cannot be read are left out.
    pub fn records(&self, skill: Option<&str>) -> anyhow::Result<Vec<Value>> {
        let folders = match skill {
            Some(skill) if is_plain(skill) => vec![self.folder.join(skill)],
            Some(_) => Vec::new(),
            None => entries(&self.folder)?,
        };
        let mut records = Vec::new();
        for folder in folders {
            // Beside the folders is a file of the reference runtime.
            let files = if folder.is_dir() { entries(&folder)? } else { Vec::new() };
            let json = files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "json"));
            records.extend(json.filter_map(|file| read(file)));
        }
        records.sort_by_key(|record| std::cmp::Reverse(record["fired_at_ms"].as_i64()));
        Ok(records)
    }

    pub fn find(&self, id: &str) -> anyhow::Result<Option<Value>> {
        if !is_plain(id) {
            return Ok(None);
        }
        let name = format!("{id}.json");
        Ok(entries(&self.folder)?.iter().find_map(|folder| read(&folder.join(&name))))
    }
}

/// Whether a name leads to one place below a folder, and nowhere else.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
}

/// A folder that does not exist has no entries.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", folder.display())),
    }
}

fn read(file: &Path) -> Option<Value> {
    serde_json::from_str::<Value>(&fs::read_to_string(file).ok()?).ok().filter(Value::is_object)
}
