//! Files of skills: reading and writing below the folders that the operator allows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ledger::FileThreads;
use skill::{FileEncoding, FileFault, RunLimits};

/// Links that are followed on the way to one file.
const LINKS: usize = 40;

/// The folders below which skills may read and write.
#[derive(Clone, Debug, Default)]
pub struct FileAccess {
    roots: Vec<PathBuf>,
    /// The folder from which relative paths are taken.
    folder: PathBuf,
    threads: Arc<FileThreads>,
}

impl FileAccess {
    /// Without a folder in `roots`, no file can be read or written.
    pub fn new(roots: Vec<PathBuf>, folder: PathBuf) -> Self {
        Self { roots, folder, threads: Arc::default() }
    }

    /// The same files, on the threads of a tenant.
    pub fn on(self, threads: Arc<FileThreads>) -> Self {
        Self { threads, ..self }
    }

    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    pub async fn read(&self, path: &str, encoding: FileEncoding) -> Result<String, FileFault> {
        self.work(path, move |real| {
            let mut content = Vec::new();
            // One byte more than allowed tells the executor that the file is too large.
            let limit = RunLimits::default().standard_output as u64 + 1;
            open_to_read(&real)?.take(limit).read_to_end(&mut content)?;
            Ok(match encoding {
                FileEncoding::Utf8 => String::from_utf8_lossy(&content).into_owned(),
                FileEncoding::Base64 => STANDARD.encode(&content),
            })
        })
        .await
    }

    pub async fn write(&self, path: &str, content: &str) -> Result<(), FileFault> {
        let content = content.to_owned();
        self.work(path, move |real| {
            if let Some(folder) = real.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).custom_flags(no_links());
            regular(options.open(&real)?)?.write_all(content.as_bytes())
        })
        .await
    }

    /// Does work with the real path on one of the threads. Looking for the path may block too.
    async fn work<T: Send + 'static>(
        &self,
        path: &str,
        work: impl FnOnce(PathBuf) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FileFault> {
        let (those, path) = (self.clone(), path.to_owned());
        let failed = |why: &dyn std::fmt::Display| FileFault::Failed(why.to_string());
        let work = move || {
            let real = those.real_path(&path)?;
            work(real).map_err(|error| failed(&error))
        };
        self.threads.work(work).await.unwrap_or_else(|lost| Err(failed(&lost)))
    }

    /// The path after links are followed and `..` is applied, if it is below an allowed folder.
    fn real_path(&self, path: &str) -> Result<PathBuf, FileFault> {
        if path.contains('\0') {
            return Err(FileFault::Failed("the path contains a NUL character".to_owned()));
        }
        let real = canonical(&self.folder.join(path)).ok_or(FileFault::NotAllowed)?;
        let is_below = |root: &PathBuf| canonical(root).is_some_and(|root| real.starts_with(root));
        if self.roots.iter().any(is_below) { Ok(real) } else { Err(FileFault::NotAllowed) }
    }
}

/// Follows links component by component, as far as the path exists; the rest is taken as it is written.
fn canonical(path: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::new();
    let mut links = 0;
    let mut rest: Vec<PathBuf> = parts(path);
    while let Some(part) = rest.pop() {
        match part.components().next()? {
            Component::RootDir => real.push("/"),
            Component::CurDir => {}
            Component::ParentDir => drop(real.pop()),
            Component::Prefix(_) => return None,
            Component::Normal(name) => {
                let next = real.join(name);
                match fs::read_link(&next) {
                    Ok(to) => {
                        links += 1;
                        if links > LINKS {
                            return None;
                        }
                        if to.is_absolute() {
                            real = PathBuf::new();
                        }
                        rest.extend(parts(&to));
                    }
                    Err(_) => real = next,
                }
            }
        }
    }
    real.is_absolute().then_some(real)
}

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

/// A link in place of the file would be one that appeared after the path was checked. Pipes must not block.
fn no_links() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    flags.bits().cast_signed()
}

fn open_to_read(path: &Path) -> io::Result<File> {
    regular(OpenOptions::new().read(true).custom_flags(no_links()).open(path)?)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn shown(result: Result<String, FileFault>) -> String {
        match result {
            Ok(content) => content,
            Err(FileFault::NotAllowed) => "not allowed".to_owned(),
            Err(FileFault::Failed(why)) => why,
        }
    }

    #[tokio::test]
    async fn files_are_read_and_written_only_below_an_allowed_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("allowed");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("outside"), "secret").unwrap();
        symlink(folder.path(), root.join("out")).unwrap();
        symlink(folder.path().join("new"), root.join("dangling")).unwrap();
        let access = FileAccess::new(vec![root.clone()], "/".into());
        let within = |name: &str| root.join(name).display().to_string();
        access.write(&within("deep/er/note"), "héllo").await.unwrap();
        assert_eq!(shown(access.read(&within("deep/../deep/er/note"), FileEncoding::Utf8).await), "héllo");
        assert_eq!(shown(access.read(&within("deep/er/note"), FileEncoding::Base64).await), "aMOpbGxv");
        for path in ["../outside", "out/outside", "deep/../../outside", "dangling"] {
            assert_eq!(shown(access.read(&within(path), FileEncoding::Utf8).await), "not allowed", "{path}");
            assert!(matches!(access.write(&within(path), "x").await, Err(FileFault::NotAllowed)), "{path}");
        }
        assert!(!folder.path().join("new").exists());
        let none = FileAccess::default();
        assert_eq!(shown(none.read(&within("deep/er/note"), FileEncoding::Utf8).await), "not allowed");
    }

    #[tokio::test]
    async fn a_pipe_or_a_folder_is_refused_and_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let access = FileAccess::new(vec![folder.path().to_owned()], folder.path().to_owned());
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            rustix::fs::Dev::default(),
        )
        .unwrap();
        for path in ["pipe", "."] {
            let read = shown(access.read(path, FileEncoding::Utf8).await);
            assert!(read.contains("not a regular file"), "{path}: {read}");
        }
    }

    #[test]
    fn files_of_skills_do_not_use_the_shared_blocking_pool() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let (end, ended) = std::sync::mpsc::channel::<()>();
            let waiting = tokio::task::spawn_blocking(move || ended.recv());
            let access = FileAccess::new(vec![folder.path().to_owned()], folder.path().to_owned());
            access.write("note", "kept").await.unwrap();
            assert_eq!(shown(access.read("note", FileEncoding::Utf8).await), "kept");
            drop(end);
            let _ = waiting.await;
        });
    }
}
