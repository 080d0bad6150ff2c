//! Writing a file in pieces, with its limits.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use ledger::MediaRecord;
use posthouse_wire::{EntryId, InstanceId, MediaFile, MediaId, TenantId};

use super::detected_type::{FIRST_BYTES, contradicting};
use super::filename::filename_of_type;
use super::files::UnfinishedFile;
use super::transfer_places::TransferPlace;
use super::{LARGEST_MEDIA, MediaStore, PLACE_WITHIN, safe_filename, safe_type};
use crate::Fault;

/// What a new file is.
#[derive(Clone, Debug)]
pub struct NewMedia {
    pub id: MediaId,
    /// Type and name as the peer gave them.
    pub mime: Option<String>,
    pub filename: Option<String>,
    pub life: Duration,
}

/// Reason why a file was not stored.
#[derive(Debug, thiserror::Error)]
pub enum MediaNotKept {
    #[error("the file is empty")]
    Empty,
    #[error("too long: the file is larger than 25 MiB")]
    TooLarge,
    /// The tenant's files take up all the bytes that they may.
    #[error("the tenant's limit for files is reached")]
    NoRoom,
    /// The agent's files take up its share of those bytes. Other agents of the tenant need the rest.
    #[error("the agent's share of the tenant's limit for files is reached")]
    NoRoomForAgent,
    #[error("too many files are being transferred")]
    Busy,
    #[error("the agent was removed")]
    AgentRemoved,
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<ledger::Fault> for MediaNotKept {
    fn from(fault: ledger::Fault) -> Self {
        MediaNotKept::Fault(fault.into())
    }
}

impl From<std::io::Error> for MediaNotKept {
    fn from(error: std::io::Error) -> Self {
        MediaNotKept::Fault(Fault::Disk(error.to_string()))
    }
}

/// The agent that may get a file, and its tenant. The bytes count for both.
#[derive(Clone)]
struct MediaOwner {
    tenant: TenantId,
    agent: InstanceId,
    /// Whether the tenant has other agents, which also need room.
    shares: bool,
}

/// A file that is being written. Dropping it deletes what was written.
pub struct MediaWriter {
    store: MediaStore,
    owner: MediaOwner,
    name: MediaFile,
    file: Option<UnfinishedFile>,
    size: u64,
    /// Its first bytes, which show what it is.
    start: Vec<u8>,
    /// The message that the file came with.
    entry: Option<EntryId>,
    /// Held until the file has its row or is deleted.
    _place: TransferPlace,
}

impl MediaStore {
    /// Begins a file that this agent may get. `expected` is its size as far as it is known.
    pub async fn begin(
        &self,
        tenant: &TenantId,
        agent: &InstanceId,
        expected: Option<u64>,
    ) -> Result<MediaWriter, MediaNotKept> {
        let expected = expected.unwrap_or(1);
        if expected > LARGEST_MEDIA {
            return Err(MediaNotKept::TooLarge);
        }
        let shares = self.0.records.shares_media(tenant, agent).await?;
        let owner = MediaOwner { tenant: tenant.clone(), agent: agent.clone(), shares };
        self.check_room(&owner, expected)?;
        let place = self.0.uploads.take(tenant, PLACE_WITHIN).await.ok_or(MediaNotKept::Busy)?;
        let (folder, name) = (self.0.folder.clone(), MediaFile::mint());
        let created = name.clone();
        let file = self.0.threads.run(move || folder.create(&created)).await??;
        Ok(MediaWriter {
            store: self.clone(),
            owner,
            name,
            file: Some(file),
            size: 0,
            start: Vec::new(),
            entry: None,
            _place: place,
        })
    }

    /// Checks that so many bytes more fit, beside those that are being written. An agent that is not the only one of its
    /// tenant may hold as much as stays free for the others, so however much one holds, the others get some.
    fn check_room(&self, owner: &MediaOwner, bytes: u64) -> Result<(), MediaNotKept> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX / 4);
        let storage = self.0.usage.media_of_tenant(&owner.tenant);
        let held = self.0.usage.media_of_agent(&owner.agent);
        let unfinished = self.0.unfinished.lock();
        let free = storage.limit - storage.used - unfinished.of_tenant(&owner.tenant) - bytes;
        if free < 0 {
            return Err(MediaNotKept::NoRoom);
        }
        match owner.shares && held + unfinished.of_agent(&owner.agent) + bytes > free {
            true => Err(MediaNotKept::NoRoomForAgent),
            false => Ok(()),
        }
    }
}

impl MediaWriter {
    /// The same for a file that came with this message.
    pub fn of_entry(mut self, entry: &EntryId) -> Self {
        self.entry = Some(entry.clone());
        self
    }

    pub fn entry(&self) -> Option<&EntryId> {
        self.entry.as_ref()
    }

    /// The tenant and the agent whose file it is.
    pub fn owner(&self) -> (&TenantId, &InstanceId) {
        (&self.owner.tenant, &self.owner.agent)
    }

    /// Number of bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends the bytes of a stored file of the same tenant. `None` if they are no longer stored.
    pub async fn copy_from(&mut self, id: &MediaId) -> Result<Option<MediaRecord>, MediaNotKept> {
        let store = self.store.clone();
        let Some(record) = store.find(id).await?.filter(|record| record.tenant == self.owner.tenant) else {
            return Ok(None);
        };
        let Some(mut reader) = store.open(&record).await? else { return Ok(None) };
        while let Some(piece) = reader.next().await {
            self.write(piece?).await?;
        }
        Ok(Some(record))
    }

    /// Appends a piece. After an error nothing more can be written.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), MediaNotKept> {
        if piece.is_empty() {
            return Ok(());
        }
        let length = piece.len() as u64;
        if self.size + length > LARGEST_MEDIA {
            return Err(MediaNotKept::TooLarge);
        }
        self.store.check_room(&self.owner, length)?;
        self.size += length;
        let missing = FIRST_BYTES.saturating_sub(self.start.len());
        self.start.extend_from_slice(&piece[..missing.min(piece.len())]);
        self.count_unfinished(length as i64);
        let mut file = self.file.take().ok_or_else(|| Fault::Disk("an earlier write failed".to_owned()))?;
        let writing = move || file.file.write_all(&piece).map(|()| file);
        self.file = Some(self.store.0.threads.run(writing).await??);
        Ok(())
    }

    /// Makes the file durable and stores its row. From then on it has its id. A picture, recording or video that is
    /// something else gets its real type and an extension of it.
    pub async fn keep(mut self, new: NewMedia) -> Result<MediaRecord, MediaNotKept> {
        if self.size == 0 {
            return Err(MediaNotKept::Empty);
        }
        let file = self.file.take().ok_or_else(|| Fault::Disk("an earlier write failed".to_owned()))?;
        let NewMedia { id, mime, filename, life } = new;
        let declared = safe_type(mime.as_deref());
        let filename = filename.as_deref().unwrap_or_default();
        let (mime, filename) = match contradicting(&declared, &self.start) {
            Some(actual) => (actual.to_owned(), filename_of_type(filename, actual)),
            None => (declared.clone(), safe_filename(filename, &declared)),
        };
        let record = MediaRecord {
            id,
            file: self.name.clone(),
            tenant: self.owner.tenant.clone(),
            instance: self.owner.agent.clone(),
            filename,
            mime,
            size: self.size as i64,
        };
        let state = &self.store.0;
        state.finishing.lock().insert(self.name.clone());
        let (folder, name) = (state.folder.clone(), self.name.clone());
        let kept = async {
            state.threads.run(move || folder.finish(file, &name)).await??;
            Ok(state.records.keep_media(record.clone(), state.timepiece.now() + life).await?)
        };
        let kept: Result<bool, MediaNotKept> = kept.await;
        if !matches!(kept, Ok(true)) {
            let (folder, name) = (state.folder.clone(), self.name.clone());
            state.threads.send(move || drop(folder.delete(&name)));
        }
        match kept? {
            true => Ok(record),
            false => Err(MediaNotKept::AgentRemoved),
        }
    }

    fn count_unfinished(&self, change: i64) {
        self.store.0.unfinished.lock().count(&self.owner.tenant, &self.owner.agent, change);
    }
}

impl Drop for MediaWriter {
    fn drop(&mut self) {
        self.count_unfinished(-(self.size as i64));
        self.store.0.finishing.lock().remove(&self.name);
        if let Some(file) = self.file.take() {
            // Deleting blocks.
            self.store.0.threads.send(move || drop(file));
        }
    }
}
