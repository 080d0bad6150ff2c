//! Key files: written so that they survive power loss, refused if every user of the machine can read them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Makes writes survive power loss. A test records the calls instead.
pub trait Disk {
    /// Returns after the bytes of this file are on the disk.
    fn sync_file(&self, path: &Path, file: &File) -> io::Result<()>;
    /// Returns after the names in this folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The real disk.
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn sync_file(&self, _path: &Path, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

/// Creates a folder that only its owner can enter, with missing parents. Their names survive power loss.
/// False if it already existed.
pub fn create_folder_durably(folder: &Path, disk: &dyn Disk) -> anyhow::Result<bool> {
    let folder =
        std::path::absolute(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let missing: Vec<PathBuf> =
        folder.ancestors().take_while(|above| !above.exists()).map(Path::to_owned).collect();
    let create = || {
        folder.parent().map_or(Ok(()), fs::create_dir_all)?;
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(false),
            made => made.map(|()| true),
        }
    };
    let made = create().with_context(|| format!("cannot create {}", folder.display()))?;
    for new in missing {
        if let Some(parent) = new.parent() {
            disk.sync_folder(parent).with_context(|| format!("cannot write {}", parent.display()))?;
        }
    }
    Ok(made)
}

/// Writes a new file that only its owner can read. Once this returns, the file and its name survive power
/// loss. An existing file is never overwritten.
pub fn write_durably(path: &Path, text: &str, disk: &dyn Disk) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let mut file = OpenOptions::new().write(true).mode(0o600).create_new(true).open(path)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| disk.sync_file(path, &file));
        let written = written.and_then(|()| disk.sync_folder(folder));
        if written.is_err() {
            // Half a key would prevent writing a whole one.
            let _ = fs::remove_file(path);
        }
        written
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// The text of a key file, and a warning if its permissions are too wide.
pub struct KeyFile {
    pub text: String,
    pub warning: Option<String>,
}

/// Reads a key file. A file that every user of the machine can read or write is refused. A file that its
/// group can read only causes a warning, because Kubernetes mounts secrets with mode 0440.
pub fn read_key_file(path: &Path) -> anyhow::Result<KeyFile> {
    let mut file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let about = file.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    let mode = about.mode() & 0o777;
    let shown = path.display();
    let mut warning = None;
    // The permissions of pipes and terminals say nothing about the key.
    if about.is_file() {
        if mode & 0o007 != 0 {
            bail!(
                "{shown} is open to every user of this machine (mode {mode:04o}): run `chmod 600 {shown}`, and \
                 replace the key if others may have read it"
            );
        }
        if mode & 0o070 != 0 {
            warning = Some(format!(
                "{shown} is open to its group (mode {mode:04o}): run `chmod 600 {shown}` unless the group is meant to \
                 read it"
            ));
        }
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("cannot read {shown}"))?;
    Ok(KeyFile { text, warning })
}

#[cfg(test)]
pub mod tests {
    use std::os::unix::fs::PermissionsExt;

    use parking_lot::Mutex;

    use super::*;

    /// Records what was synced, and how long the file was at that time.
    #[derive(Default)]
    pub struct Recorder(pub Mutex<Vec<String>>);

    impl Disk for Recorder {
        fn sync_file(&self, path: &Path, file: &File) -> io::Result<()> {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.0.lock().push(format!("file {name} with {} bytes", file.metadata()?.len()));
            Ok(())
        }

        fn sync_folder(&self, folder: &Path) -> io::Result<()> {
            let mut names: Vec<_> = fs::read_dir(folder)?
                .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                .collect::<Result<_, _>>()?;
            names.sort();
            self.0.lock().push(format!("folder with {}", names.join(", ")));
            Ok(())
        }
    }

    #[test]
    fn a_key_is_synced_whole_and_then_its_folder() {
        let home = tempfile::tempdir().unwrap();
        let recorder = Recorder::default();
        let folder = home.path().join("srv/post");
        assert!(create_folder_durably(&folder, &recorder).unwrap());
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700, "the ledger lies in it");
        assert!(!create_folder_durably(&folder, &SystemDisk).unwrap(), "it was there already");
        write_durably(&home.path().join("srv/post/vault.key"), "k1:abc\n", &recorder).unwrap();
        assert_eq!(
            *recorder.0.lock(),
            ["folder with post", "folder with srv", "file vault.key with 7 bytes", "folder with vault.key"]
        );
        assert_eq!(fs::metadata(home.path().join("srv/post/vault.key")).unwrap().mode() & 0o777, 0o600);
        let again = write_durably(&home.path().join("srv/post/vault.key"), "k2:def\n", &SystemDisk);
        assert!(again.is_err(), "a key is never written over");
    }

    #[test]
    fn a_world_readable_key_file_is_refused_with_the_remedy_and_a_group_readable_one_warned_about() {
        let home = tempfile::tempdir().unwrap();
        let key = home.path().join("vault.key");
        write_durably(&key, "k1:abc\n", &SystemDisk).unwrap();
        let read_with = |mode| {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            read_key_file(&key)
        };
        for refused in [0o644, 0o604, 0o602, 0o444] {
            let words = read_with(refused).map(|_| ()).unwrap_err().to_string();
            let remedy = format!("run `chmod 600 {}`", key.display());
            assert!(words.contains("every user of this machine") && words.contains(&remedy), "{words}");
        }
        for warned in [0o640, 0o440] {
            let read = read_with(warned).unwrap();
            assert_eq!(read.text, "k1:abc\n");
            assert!(read.warning.unwrap().contains("open to its group"));
        }
        for quiet in [0o600, 0o400] {
            assert!(read_with(quiet).unwrap().warning.is_none());
        }
    }
}
