//! Media: files that travel between agents and chats. The bytes are files beside the ledger, and the ledger has a row for
//! each.
//!
//! A body is never in memory as a whole: it passes in pieces, and the disk's pace holds up its sender. A file appears
//! with its row, and both are durable, before anybody gets its id.

mod attachments;
mod cleaning;
mod detected_type;
mod disk_threads;
mod early;
mod filename;
mod files;
mod placeholders;
mod reader;
mod sources;
mod transfer_places;
mod unfinished_bytes;
mod writer;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use errand::Errand;
use ledger::{MediaKey, MediaRecord, MediaRecords, Usage};
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use posthouse_wire::{InstanceId, MediaFile, MediaId};

use self::disk_threads::DiskThreads;
use self::files::MediaFolder;
use self::transfer_places::TransferPlaces;
use self::unfinished_bytes::UnfinishedBytes;
use crate::Fault;
pub use attachments::FETCHED_WITHIN;
pub(crate) use attachments::{AttachmentFetcher, PreparedEvent, merged};
pub use early::{AttachmentFile, AttachmentOwner, EARLY_MEDIA_LIFE, NamedAttachment, UnfetchedAttachment};
pub(crate) use filename::name_in_header;
pub use filename::{safe_filename, safe_type, type_of_name};
pub use reader::MediaReader;
pub use sources::{FileNotAvailable, MediaSource};
pub use writer::{MediaNotKept, MediaWriter, NewMedia};

/// The largest file, in bytes (relay contract section 20).
pub const LARGEST_MEDIA: u64 = 25 * 1024 * 1024;
/// Lifetime of a file that an agent uploaded, and of an attachment after its hand-over.
pub const MEDIA_LIFE: Duration = Duration::from_secs(3600);
/// Transfers at a time, and those of one tenant. Each holds one piece of its file in memory.
const UPLOADS: usize = 64;
const DOWNLOADS: usize = 128;
const OF_A_TENANT: usize = 8;
/// Attachments fetched from platforms at a time, and those of one tenant.
const FETCHES: usize = 32;
const FETCHES_OF_A_TENANT: usize = 4;
/// Longer than a fetch takes with its wait for a place.
const FETCHED_FORGOTTEN: Duration = Duration::from_secs(120);
/// Time for which a new transfer waits for a place.
const PLACE_WITHIN: Duration = Duration::from_secs(5);

/// Dependencies of the store.
pub struct MediaParts {
    pub records: Arc<dyn MediaRecords>,
    pub usage: Arc<dyn Usage>,
    /// The folder of the files. It is created with the first file.
    pub folder: PathBuf,
    /// The public URL of this server, under which agents get files.
    pub public_url: String,
}

/// The files of all tenants. A cheap handle to clone.
#[derive(Clone)]
pub struct MediaStore(Arc<StoreState>);

struct StoreState {
    records: Arc<dyn MediaRecords>,
    usage: Arc<dyn Usage>,
    threads: DiskThreads,
    folder: MediaFolder,
    uploads: TransferPlaces,
    downloads: TransferPlaces,
    fetches: TransferPlaces,
    /// Attachments that are being fetched, by id.
    being_fetched: Cache<String, Arc<tokio::sync::Mutex<()>>>,
    /// Bytes of files that are being written, which have no row yet.
    unfinished: Mutex<UnfinishedBytes>,
    /// Files that are in their place and get their row now.
    finishing: Mutex<HashSet<MediaFile>>,
    public_url: String,
    errand: Errand,
    timepiece: Timepiece,
}

impl MediaStore {
    pub(crate) fn new(parts: MediaParts, errand: Errand, timepiece: Timepiece) -> Self {
        let MediaParts { records, usage, folder, public_url } = parts;
        Self(Arc::new(StoreState {
            records,
            usage,
            threads: DiskThreads::default(),
            folder: MediaFolder::new(folder),
            uploads: TransferPlaces::new(UPLOADS, OF_A_TENANT, timepiece.clone()),
            downloads: TransferPlaces::new(DOWNLOADS, OF_A_TENANT, timepiece.clone()),
            fetches: TransferPlaces::new(FETCHES, FETCHES_OF_A_TENANT, timepiece.clone()),
            being_fetched: Cache::builder().max_capacity(10_000).time_to_idle(FETCHED_FORGOTTEN).build(),
            unfinished: Mutex::default(),
            finishing: Mutex::default(),
            public_url,
            errand,
            timepiece,
        }))
    }

    /// The stored file with this id.
    pub async fn find(&self, id: &MediaId) -> Result<Option<MediaRecord>, Fault> {
        Ok(self.0.records.media(id).await?)
    }

    /// The stored file that this key opens.
    pub(crate) async fn find_by_key(&self, id: &MediaId, key: &str) -> Result<Option<MediaRecord>, Fault> {
        let key = MediaKey { media: id.clone(), hash: identity::fingerprint(key) };
        Ok(self.0.records.media_of_key(&key).await?)
    }

    /// Deletes a file of this agent before its time.
    pub async fn remove(&self, of: &InstanceId, id: &MediaId) -> Result<(), Fault> {
        Ok(self.0.records.remove_media(of, id).await?)
    }

    /// The URL under which an agent gets a file.
    pub(crate) fn url(&self, id: &MediaId) -> String {
        format!("{}/relay/media/{id}", self.0.public_url)
    }
}

/// The id in a URL of this server's media. The host is not compared: a gateway uses the address that it connects to,
/// which need not be the public one.
pub fn media_in_url(url: &str) -> Option<MediaId> {
    let path = url.split(['?', '#']).next()?;
    let (before, id) = path.rsplit_once('/')?;
    before.ends_with("/relay/media").then(|| MediaId::read(id)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_under_any_host() {
        let id = MediaId::mint();
        for url in [
            format!("https://c.example/relay/media/{id}"),
            format!("http://127.0.0.1:7678/base/relay/media/{id}?k=1"),
            format!("/relay/media/{id}"),
        ] {
            assert_eq!(media_in_url(&url).as_ref(), Some(&id), "{url}");
        }
        for url in [
            format!("https://c.example/media/{id}"),
            "https://c.example/relay/media/abc".to_owned(),
            String::new(),
        ] {
            assert_eq!(media_in_url(&url), None, "{url}");
        }
    }
}
