//! Media: the rows of files that travel between agents and chats. The bytes are in files beside the ledger.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, MediaFile, MediaId, TenantId};

use crate::Fault;

/// Number of keys that one file can have at a time. A new key beyond it replaces the oldest.
pub const KEYS_OF_A_FILE: u32 = 8;

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRecord {
    pub id: MediaId,
    /// The name under which its bytes are on the disk.
    pub file: MediaFile,
    pub tenant: TenantId,
    /// The agent that may get it.
    pub instance: InstanceId,
    pub mime: String,
    /// The name that people see. It is safe in a header.
    pub filename: String,
    pub size: i64,
}

/// A key in a URL that opens a file.
#[derive(Clone, Debug)]
pub struct MediaKey {
    pub media: MediaId,
    /// The key itself is known only to whoever got the URL.
    pub hash: String,
}

/// The rows of files.
#[async_trait]
pub trait MediaRecords: Send + Sync {
    /// Stores the row of a file whose bytes are on the disk. It ends at `until`. A row with the same id is replaced, and
    /// its file deleted. False, with nothing stored, when there is no such agent of this tenant any more.
    async fn keep_media(&self, media: MediaRecord, until: Moment) -> Result<bool, Fault>;
    /// Whether the tenant has another agent than this one, which also needs room for files.
    async fn shares_media(&self, tenant: &TenantId, agent: &InstanceId) -> Result<bool, Fault>;
    /// The file with this id, unless it has ended.
    async fn media(&self, id: &MediaId) -> Result<Option<MediaRecord>, Fault>;
    /// The file that this key opens now.
    async fn media_of_key(&self, key: &MediaKey) -> Result<Option<MediaRecord>, Fault>;
    /// Stores keys for files of this agent, and makes the files last until `until` at least, by which the keys end. Keys
    /// for files that it does not have are ignored. Earlier keys stay valid.
    async fn add_media_keys(&self, of: &InstanceId, keys: Vec<MediaKey>, until: Moment) -> Result<(), Fault>;
    /// Deletes the row of a file of this agent. Repeating it is harmless.
    async fn remove_media(&self, of: &InstanceId, id: &MediaId) -> Result<(), Fault>;
    /// Files on the disk whose row is gone.
    async fn files_to_delete(&self, at_most: u32) -> Result<Vec<MediaFile>, Fault>;
    /// Reports that these files were deleted from the disk. Repeating it is harmless.
    async fn files_deleted(&self, files: Vec<MediaFile>) -> Result<(), Fault>;
    /// Those of the files that no row names.
    async fn files_without_row(&self, files: Vec<MediaFile>) -> Result<Vec<MediaFile>, Fault>;
}
