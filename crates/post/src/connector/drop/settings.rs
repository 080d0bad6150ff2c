//! What is stored about drop directories.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::super::memory::Memory;
use super::super::settings::{BadSettings, Fields};
use super::super::wired::Wired;
use super::hands::Hands;
use super::place::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The whole payload.
    Json,
    /// Its text alone.
    Text,
}

pub(super) struct Settings {
    pub dirs: Wired<Place>,
    pub format: Format,
}

impl Settings {
    /// `allowed` are the folders below which the house lets files be dropped.
    pub fn read(settings: &Value, allowed: &[PathBuf], memory: &Memory) -> Result<Self, BadSettings> {
        let fields = Fields::read(settings, "", &["dirs", "format"])?;
        let dirs = fields.agents("dirs", |value, at| place(value, at, allowed, memory))?;
        let format = match fields.text("format")? {
            None | Some("json") => Format::Json,
            Some("txt") => Format::Text,
            Some(_) => return Err(fields.wrong("format", "must be `json` or `txt`")),
        };
        Ok(Self { dirs, format })
    }
}

fn place(value: &Value, at: String, allowed: &[PathBuf], memory: &Memory) -> Result<Place, BadSettings> {
    let Some(dir) = value.as_str().map(Path::new).filter(|dir| dir.is_absolute()) else {
        return Err(BadSettings::malformed(at, "must be an absolute path"));
    };
    if dir.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(BadSettings::malformed(at, "is no path"));
    }
    // A way back up might lead out again, past what was compared.
    if dir.components().any(|part| part == Component::ParentDir) {
        return Err(BadSettings::malformed(at, "must not hold `..`"));
    }
    let below = |root: &PathBuf| {
        let rest = dir.strip_prefix(root).ok()?;
        Some(Place::new(root, rest, Hands(memory.hands(dir))))
    };
    allowed.iter().find_map(below).ok_or_else(|| {
        let why = format!("`{at}` lies below none of the folders that the house allows (post.drop_dirs)");
        BadSettings::NotAllowed(why)
    })
}
