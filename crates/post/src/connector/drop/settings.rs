//! Settings of the file-drop connector.

use std::path::{Component, Path, PathBuf};

use posthouse_wire::TenantId;
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
    /// `allowed` are the folders of `post.drop_dirs`, below which files may be written.
    pub fn read(
        settings: &Value,
        allowed: &[PathBuf],
        memory: &Memory,
        tenant: &TenantId,
    ) -> Result<Self, BadSettings> {
        let fields = Fields::read(settings, "", &["dirs", "format"])?;
        let dirs = fields.agents("dirs", |value, at| place(value, at, allowed, memory, tenant))?;
        let format = match fields.text("format")? {
            None | Some("json") => Format::Json,
            Some("txt") => Format::Text,
            Some(_) => return Err(fields.wrong("format", "must be `json` or `txt`")),
        };
        Ok(Self { dirs, format })
    }
}

fn place(
    value: &Value,
    at: String,
    allowed: &[PathBuf],
    memory: &Memory,
    tenant: &TenantId,
) -> Result<Place, BadSettings> {
    let Some(dir) = value.as_str().map(Path::new).filter(|dir| dir.is_absolute()) else {
        return Err(BadSettings::malformed(at, "must be an absolute path"));
    };
    if dir.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(BadSettings::malformed(at, "is not a valid path"));
    }
    // `..` could lead out of the allowed folder after the comparison.
    if dir.components().any(|part| part == Component::ParentDir) {
        return Err(BadSettings::malformed(at, "must not contain `..`"));
    }
    let below = |root: &PathBuf| {
        let rest = dir.strip_prefix(root).ok()?;
        Some(Place::new(root, rest, Hands { here: memory.hands(dir), threads: memory.threads(tenant) }))
    };
    allowed.iter().find_map(below).ok_or_else(|| {
        let why = format!("`{at}` is not below a folder that the server allows (post.drop_dirs)");
        BadSettings::NotAllowed(why)
    })
}
