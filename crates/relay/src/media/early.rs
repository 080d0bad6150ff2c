//! Attachments whose reference ends early: fetched as soon as their message is stored, not when it is handed over.

use std::time::Duration;

use ledger::MediaRecord;
use posthouse_wire::event::Media;
use posthouse_wire::{EntryId, InstanceId, MediaId, TenantId};
use tokio::sync::OwnedMutexGuard;

use super::transfer_places::TransferPlace;
use super::{FETCHED_WITHIN, LARGEST_MEDIA, MEDIA_LIFE, MediaNotKept, MediaStore, MediaWriter, NewMedia};
use crate::egress::{FetchedMedia, NotFetched};

/// Lifetime of a file that was fetched early. An agent that sleeps longer gets words instead of it.
pub const EARLY_MEDIA_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// An attachment of a stored message.
#[derive(Clone, Debug)]
pub struct NamedAttachment {
    pub id: MediaId,
    /// The platform's reference to it.
    pub reference: String,
    pub media: Media,
}

/// The message that an attachment came with, and who may get it.
#[derive(Clone, Debug)]
pub struct AttachmentOwner {
    pub tenant: TenantId,
    pub instance: InstanceId,
    pub entry: EntryId,
}

/// What is known about the file of an attachment.
pub enum AttachmentFile {
    /// It was fetched earlier.
    Stored(MediaRecord),
    Missing(Box<UnfetchedAttachment>),
}

/// A file to be fetched. Whoever else wants it waits until it is here, or until this is dropped.
pub struct UnfetchedAttachment {
    pub writer: MediaWriter,
    id: MediaId,
    media: Media,
    _place: TransferPlace,
    _turn: OwnedMutexGuard<()>,
}

impl MediaStore {
    /// Looks for the file of an attachment. If it is not here, this takes a place of its tenant to fetch it.
    pub async fn begin_attachment(
        &self,
        owner: &AttachmentOwner,
        id: &MediaId,
        media: &Media,
    ) -> Result<AttachmentFile, NotFetched> {
        // A message may be handed over while its attachments are still being fetched early.
        let turn = self.0.being_fetched.get_with_by_ref(id.as_str(), Default::default).lock_owned().await;
        if let Some(record) = self.find(id).await.map_err(MediaNotKept::Fault)? {
            return Ok(AttachmentFile::Stored(record));
        }
        if media.size.is_some_and(|size| size > LARGEST_MEDIA) {
            return Err(MediaNotKept::TooLarge.into());
        }
        let place = self.0.fetches.take(&owner.tenant, FETCHED_WITHIN).await.ok_or(NotFetched::NoAnswer)?;
        let writer = self.begin(&owner.tenant, &owner.instance, media.size).await?;
        Ok(AttachmentFile::Missing(Box::new(UnfetchedAttachment {
            writer: writer.of_entry(&owner.entry),
            id: id.clone(),
            media: media.clone(),
            _place: place,
            _turn: turn,
        })))
    }
}

impl UnfetchedAttachment {
    /// Stores the fetched file until its message is handed over.
    pub async fn keep_early(self, fetched: FetchedMedia) -> Result<MediaRecord, NotFetched> {
        self.keep(fetched, EARLY_MEDIA_LIFE).await
    }

    /// Stores the fetched file of a message that is handed over now.
    pub(crate) async fn keep_for_delivery(self, fetched: FetchedMedia) -> Result<MediaRecord, NotFetched> {
        self.keep(fetched, MEDIA_LIFE).await
    }

    async fn keep(self, fetched: FetchedMedia, life: Duration) -> Result<MediaRecord, NotFetched> {
        let new = NewMedia {
            id: self.id,
            mime: self.media.mime.or(fetched.mime),
            filename: self.media.filename.or(fetched.filename),
            life,
        };
        Ok(self.writer.keep(new).await?)
    }
}
