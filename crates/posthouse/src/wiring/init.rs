//! `init`: creates a server folder with its configuration, vault key and admin token.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use identity::AdminToken;
use ledger::{Ledger, Location};
use posthouse_time::Timepiece;
use posthouse_wire::Secret;
use vault::MasterKeys;

use super::ADMIN;
use crate::key_files::{self, Disk, SystemDisk};

/// Creates a server folder: configuration, vault key and admin token. They survive power loss once this
/// returns. If it fails, it leaves nothing behind.
pub async fn init(dir: &Path) -> anyhow::Result<CreatedFiles> {
    init_on(dir, &SystemDisk).await
}

async fn init_on(dir: &Path, disk: &(dyn Disk + Sync)) -> anyhow::Result<CreatedFiles> {
    if dir.join("posthouse.toml").exists() {
        bail!("{} is already a server folder", dir.display());
    }
    let mut made = CreatedFiles::default();
    match fill(dir, disk, &mut made).await {
        Ok(()) => Ok(made),
        Err(error) => {
            made.remove();
            Err(error)
        }
    }
}

/// The files that [`init`] itself created. Another process may be running `init` in the same folder.
#[derive(Default)]
pub struct CreatedFiles {
    files: Vec<PathBuf>,
    folder: Option<PathBuf>,
}

impl CreatedFiles {
    /// Removes the files, and the folder if it is empty then.
    pub fn remove(self) {
        for file in self.files {
            let _ = fs::remove_file(file);
        }
        if let Some(folder) = self.folder {
            let _ = fs::remove_dir(folder);
        }
    }

    fn write(&mut self, path: PathBuf, text: &str, disk: &dyn Disk) -> anyhow::Result<()> {
        key_files::write_durably(&path, text, disk)?;
        self.files.push(path);
        Ok(())
    }
}

/// Files that a running server creates besides those of `init`.
const OPENED: [&str; 5] = ["ledger.db", "ledger.db-wal", "ledger.db-shm", "house.lock", "house.url"];

async fn fill(dir: &Path, disk: &(dyn Disk + Sync), made: &mut CreatedFiles) -> anyhow::Result<()> {
    if key_files::create_folder_durably(dir, disk)? {
        made.folder = Some(dir.to_owned());
    }
    let token = Secret::new(format!("pha_{}", vault::random_hex(32)?.expose()));
    // First, because only one process can create it: the second one fails here.
    made.write(dir.join("vault.key"), MasterKeys::generate()?.expose(), disk)?;
    made.write(dir.join("admin.token"), &format!("{}\n", token.expose()), disk)?;
    let opened =
        OPENED.map(|name| dir.join(name)).into_iter().filter(|path| !path.exists()).collect::<Vec<_>>();
    let ledger = Ledger::open(Location::Folder(dir.to_owned()), Timepiece::wall()).await?;
    made.files.extend(opened);
    ledger.facts().set_fact(ADMIN, &AdminToken::hash(&token)).await?;
    drop(ledger);
    // Last, so that a folder that contains it is complete.
    made.write(dir.join("posthouse.toml"), crate::config::FRESH, disk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_files::tests::Recorder;

    /// Another process that ran `init` in the same folder a moment earlier.
    struct Rival(PathBuf);

    impl Disk for Rival {
        fn sync_file(&self, _path: &Path, _file: &fs::File) -> std::io::Result<()> {
            Ok(())
        }

        fn sync_folder(&self, _folder: &Path) -> std::io::Result<()> {
            ["vault.key", "admin.token", "ledger.db", "house.lock"]
                .iter()
                .try_for_each(|name| fs::write(self.0.join(name), "the rival's"))
        }
    }

    #[tokio::test]
    async fn two_processes_that_create_one_server_folder_leave_the_first_s_keys_alone() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("new");
        assert!(init_on(&dir, &Rival(dir.clone())).await.is_err());
        for name in ["vault.key", "admin.token", "ledger.db", "house.lock"] {
            assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), "the rival's", "{name}");
        }
    }

    #[tokio::test]
    async fn init_syncs_every_key_file_and_its_folder() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("house");
        let recorder = Recorder::default();
        init_on(&dir, &recorder).await.unwrap();
        let synced = recorder.0.lock().clone();
        for name in ["vault.key", "admin.token", "posthouse.toml"] {
            let length = fs::metadata(dir.join(name)).unwrap().len();
            let whole = synced.iter().position(|call| *call == format!("file {name} with {length} bytes"));
            let whole = whole.unwrap_or_else(|| panic!("{name} was not synced whole: {synced:?}"));
            let named = synced[whole..].iter().any(|call| call.starts_with("folder") && call.contains(name));
            assert!(named, "the folder was not synced after {name}: {synced:?}");
        }
        assert_eq!(synced[0], "folder with house", "the name of the new folder itself");
    }
}
