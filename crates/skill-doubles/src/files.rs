//! File access of the standard host, limited to one folder.

use std::fs;
use std::path::{Component, Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use skill::{FileEncoding, FileFault};

pub fn read(root: Option<&Path>, path: &str, encoding: FileEncoding) -> Result<String, FileFault> {
    let path = allowed(root, path)?;
    let bytes = fs::read(path).map_err(|e| FileFault::Failed(e.to_string()))?;
    Ok(match encoding {
        FileEncoding::Utf8 => String::from_utf8_lossy(&bytes).into_owned(),
        FileEncoding::Base64 => STANDARD.encode(bytes),
    })
}

pub fn write(root: Option<&Path>, path: &str, content: &str) -> Result<(), FileFault> {
    let path = allowed(root, path)?;
    let failed = |e: std::io::Error| FileFault::Failed(e.to_string());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, content).map_err(failed)
}

/// The path without links and dots, if it lies under the root.
fn allowed(root: Option<&Path>, path: &str) -> Result<PathBuf, FileFault> {
    let root = root.and_then(|root| root.canonicalize().ok()).ok_or(FileFault::NotAllowed)?;
    let path = canonical(Path::new(path));
    if path.starts_with(root) { Ok(path) } else { Err(FileFault::NotAllowed) }
}

/// Resolves links in the part of a path that exists, and appends the rest as it is written.
fn canonical(path: &Path) -> PathBuf {
    let absolute = std::env::current_dir().unwrap_or_default().join(path);
    let mut resolved = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            Component::CurDir => {}
            other => resolved.push(other),
        }
        if let Ok(real) = resolved.canonicalize() {
            resolved = real;
        }
    }
    resolved
}
