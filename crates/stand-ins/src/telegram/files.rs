//! Files that people sent, for `getFile` and its download.

use std::collections::VecDeque;

use bytes::Bytes;

/// Limit of the total size of all files.
const MOST_BYTES: usize = 64 << 20;
/// Largest file that the Bot API serves.
pub(super) const MOST_DOWNLOAD: usize = 20 << 20;

pub(super) struct SentFile {
    pub id: String,
    pub path: String,
    pub content: Bytes,
}

/// The newest files. Older ones make room.
#[derive(Default)]
pub(super) struct Files {
    kept: VecDeque<SentFile>,
    bytes: usize,
    count: u64,
}

impl Files {
    /// Stores a file and returns its id.
    pub fn add(&mut self, name: &str, content: Bytes) -> String {
        self.count += 1;
        let name: String =
            name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).collect();
        let id = format!("stand-in-file-{}", self.count);
        let path = format!("documents/{}-{name}", self.count);
        self.bytes += content.len();
        self.kept.push_back(SentFile { id: id.clone(), path, content });
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= oldest.content.len();
        }
        id
    }

    pub fn by_id(&self, id: &str) -> Option<&SentFile> {
        self.kept.iter().find(|file| file.id == id)
    }

    pub fn by_path(&self, path: &str) -> Option<&SentFile> {
        self.kept.iter().find(|file| file.path == path)
    }
}
