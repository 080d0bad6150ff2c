//! Settings of the workshop (`[workshop]`).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const MEBIBYTE: usize = 1024 * 1024;

/// `[workshop]` in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Folders of this machine below which the stores of tenants may be. Default none.
    pub roots: Vec<PathBuf>,
    /// Whether the run settings of a tenant may allow its skills commands and child processes on this machine. Default
    /// no.
    pub run_commands: bool,
    /// Folders of this machine below which the run settings of a tenant may allow its skills files. Default none.
    pub file_roots: Vec<PathBuf>,
    /// Bytes that all running skills hold together. Default 1 GiB.
    pub run_memory_bytes: usize,
    /// Of these, bytes that the running skills of one tenant hold. Default 256 MiB.
    pub tenant_run_memory_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            run_commands: false,
            file_roots: Vec::new(),
            run_memory_bytes: 1024 * MEBIBYTE,
            tenant_run_memory_bytes: 256 * MEBIBYTE,
        }
    }
}

impl Config {
    /// Checks that the path of a store is below one of the configured folders, also after links are followed.
    pub(crate) fn check_place(&self, path: &Path) -> Result<(), String> {
        let outside = || format!("{} is not below a folder of `workshop.roots`", path.display());
        let existing = path.ancestors().find_map(|part| part.canonicalize().ok());
        let real: PathBuf = existing.ok_or_else(outside)?;
        let is_below = |root: &PathBuf| {
            path.starts_with(root) && root.canonicalize().is_ok_and(|root| real.starts_with(root))
        };
        if self.roots.iter().any(is_below) {
            return Ok(());
        }
        match self.roots.iter().find(|root| path.starts_with(root) && !root.exists()) {
            Some(root) => {
                let root = root.display();
                Err(format!("`workshop.roots` names the folder {root}, which does not exist: create it"))
            }
            None => Err(outside()),
        }
    }

    /// Checks conditions on the settings that their types do not express.
    pub fn check(&self) -> Result<(), String> {
        for (name, roots) in [("roots", &self.roots), ("file_roots", &self.file_roots)] {
            if let Some(root) = roots.iter().find(|root| !root.is_absolute()) {
                return Err(format!("workshop.{name}: {} is not an absolute path", root.display()));
            }
        }
        let (tenant, server) = (self.tenant_run_memory_bytes, self.run_memory_bytes);
        if tenant < MEBIBYTE || server < tenant.saturating_mul(2) {
            return Err(
                "workshop.tenant_run_memory_bytes must be at least 1 MiB, and workshop.run_memory_bytes at \
                        least twice as large"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_below_a_root_that_does_not_exist_names_the_folder_to_create() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("skills");
        let config = Config { roots: vec![root.clone()], ..Config::default() };
        let refusal = config.check_place(&root.join("acme")).unwrap_err();
        assert!(refusal.starts_with("`workshop.roots` names the folder "), "{refusal}");
        std::fs::create_dir(&root).unwrap();
        assert_eq!(config.check_place(&root.join("acme")), Ok(()));
        assert!(config.check_place(Path::new("/etc/skills")).unwrap_err().contains("is not below a folder"));
    }
}
