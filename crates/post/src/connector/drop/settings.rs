//! Settings of the file-drop connector.

use std::path::{Component, Path, PathBuf};

use posthouse_wire::TenantId;
use serde_json::Value;

use super::super::configured_agents::ConfiguredAgents;
use super::super::memory::ConnectorMemory;
use super::super::settings::{BadSettings, SettingFields};
use super::directory::DropDirectory;
use super::workers::DirectoryWorkers;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropFormat {
    /// The whole payload.
    Json,
    /// Its text alone.
    Text,
}

pub(super) struct FileDropSettings {
    pub dirs: ConfiguredAgents<DropDirectory>,
    pub format: DropFormat,
}

impl FileDropSettings {
    /// `allowed` are the folders of `post.drop_dirs`, below which files may be written.
    pub fn read(
        settings: &Value,
        allowed: &[PathBuf],
        memory: &ConnectorMemory,
        tenant: &TenantId,
    ) -> Result<Self, BadSettings> {
        let fields = SettingFields::read(settings, "", &["dirs", "format"])?;
        let dirs = fields.agents("dirs", |value, at| place(value, at, allowed, memory, tenant))?;
        let format = match fields.text("format")? {
            None | Some("json") => DropFormat::Json,
            Some("txt") => DropFormat::Text,
            Some(_) => return Err(fields.wrong("format", "must be `json` or `txt`")),
        };
        Ok(Self { dirs, format })
    }
}

fn place(
    value: &Value,
    at: String,
    allowed: &[PathBuf],
    memory: &ConnectorMemory,
    tenant: &TenantId,
) -> Result<DropDirectory, BadSettings> {
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
        Some(DropDirectory::new(
            root,
            rest,
            DirectoryWorkers { here: memory.hands(dir), threads: memory.threads(tenant) },
        ))
    };
    allowed.iter().find_map(below).ok_or_else(|| {
        let why = format!("`{at}` is not below a folder that the server allows (post.drop_dirs)");
        BadSettings::NotAllowed(why)
    })
}
