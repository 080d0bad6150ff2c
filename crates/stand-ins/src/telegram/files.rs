//! Files people sent, for `getFile` and its download.

use std::collections::VecDeque;

use bytes::Bytes;

/// All files together stay under this.
const MOST_BYTES: usize = 64 << 20;
/// What the Bot API hands out at most.
pub(super) const MOST_DOWNLOAD: usize = 20 << 20;

pub(super) struct File {
    pub id: String,
    pub path: String,
    pub content: Bytes,
}

/// The newest files; older ones make room.
#[derive(Default)]
pub(super) struct Files {
    kept: VecDeque<File>,
    bytes: usize,
    count: u64,
}

impl Files {
    /// Keeps a file and returns its id.
    pub fn add(&mut self, name: &str, content: Bytes) -> String {
        self.count += 1;
        let name: String =
            name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).collect();
        let id = format!("stand-in-file-{}", self.count);
        let path = format!("documents/{}-{name}", self.count);
        self.bytes += content.len();
        self.kept.push_back(File { id: id.clone(), path, content });
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= oldest.content.len();
        }
        id
    }

    pub fn by_id(&self, id: &str) -> Option<&File> {
        self.kept.iter().find(|file| file.id == id)
    }

    pub fn by_path(&self, path: &str) -> Option<&File> {
        self.kept.iter().find(|file| file.path == path)
    }
}
