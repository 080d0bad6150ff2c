//! Attachments of incoming messages: fetched before their message is handed over (contract section 17.5), or early, as
//! soon as it is stored, if their references end soon (`early`).
//!
//! A stock gateway downloads attachments on its reader, so a file that is not here yet would stall it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use ledger::{BotRef, Entry, MediaKey, MediaRecord};
use posthouse_wire::event::Media;
use posthouse_wire::{Event, InstanceId, MediaId, MessageType, TenantId};

use super::filename::UNKNOWN_TYPE;
use super::placeholders::placeholder;
use super::{AttachmentFile, AttachmentOwner, MEDIA_LIFE, MediaNotKept, MediaStore, media_in_url};
use crate::egress::{Egress, NotFetched};
use crate::metrics::ReasonLabel;
use crate::{Fault, Metrics};

/// Longest time for which a message waits for its attachments.
pub const FETCHED_WITHIN: Duration = Duration::from_secs(20);

/// An event whose attachments are here or described in words, ready for the wire. It contains keys, so it is never
/// stored.
pub(crate) type PreparedEvent = Bytes;

/// Fetches the attachments of one agent's messages.
#[derive(Clone)]
pub(crate) struct AttachmentFetcher {
    pub store: MediaStore,
    pub egress: Arc<dyn Egress>,
    pub tenant: TenantId,
    pub metrics: Arc<Metrics>,
}

/// An attachment with its place in the event.
struct Attachment<'a> {
    id: MediaId,
    reference: &'a str,
    media: Media,
}

impl MediaStore {
    /// Gives each attachment of an event an id, and the URL under which the agent will get it. The bytes are fetched when
    /// the event is handed over, unless its platform asks for them early.
    pub(crate) fn name_attachments(&self, event: &mut Event, count: usize) {
        event.media.resize_with(count, Media::default);
        event.media_urls = event
            .media
            .iter_mut()
            .map(|media| media.url.insert(self.url(&MediaId::mint())).clone())
            .collect();
    }
}

impl AttachmentFetcher {
    /// The event with its attachments. `None` for an event that cannot be read; it is delivered as it is.
    pub async fn prepare(&self, entry: &Entry) -> Option<PreparedEvent> {
        let mut event: Event = serde_json::from_slice(&entry.event).ok()?;
        let Some(bot) = event.bot_id.clone() else { return self.give_up(entry) };
        let on = BotRef { platform: event.source.platform.clone(), bot };
        let media = std::mem::take(&mut event.media);
        let urls = std::mem::take(&mut event.media_urls);
        let attachments =
            urls.iter().zip(&entry.references).zip(media).filter_map(|((url, reference), media)| {
                Some(Attachment { id: media_in_url(url)?, reference, media })
            });
        let attachments: Vec<Attachment<'_>> = attachments.collect();
        let fetched =
            join_all(attachments.iter().map(|attachment| self.fetched(entry, &on, attachment))).await;
        self.describe(&entry.instance, &mut event, attachments, fetched).await;
        Some(Bytes::from(event.to_json()))
    }

    /// The event of which nothing could be fetched.
    pub fn give_up(&self, entry: &Entry) -> Option<PreparedEvent> {
        let mut event: Event = serde_json::from_slice(&entry.event).ok()?;
        event.media_urls.clear();
        let media = std::mem::take(&mut event.media);
        without_files(&mut event, &media);
        self.metrics.attachments.get_or_create(&ReasonLabel { why: "too_slow" }).inc();
        Some(Bytes::from(event.to_json()))
    }

    /// Puts the fetched files into the agent's event with new keys, and words for the others.
    async fn describe(
        &self,
        agent: &InstanceId,
        event: &mut Event,
        attachments: Vec<Attachment<'_>>,
        fetched: Vec<Option<MediaRecord>>,
    ) {
        let (mut keys, mut missing) = (Vec::new(), Vec::new());
        for (Attachment { id, mut media, .. }, record) in attachments.into_iter().zip(fetched) {
            let Some(record) = record else {
                missing.push(media);
                continue;
            };
            let key = MediaId::mint();
            let url = format!("{}?k={key}", self.store.url(&id));
            keys.push(MediaKey { media: id, hash: identity::fingerprint(key.as_str()) });
            media.size = u64::try_from(record.size).ok();
            // What came may be something else than what was announced.
            if is_perceived(&media.kind) && is_document(&record.mime) {
                media.kind = "document".to_owned();
                media.filename = Some(record.filename);
                event.message_type = MessageType::Document;
            }
            media.mime = Some(record.mime);
            media.url = Some(url.clone());
            event.media_urls.push(url);
            event.media.push(media);
        }
        let until = self.store.0.timepiece.now() + MEDIA_LIFE;
        if let Err(fault) = self.store.0.records.add_media_keys(agent, keys, until).await {
            tracing::error!(%fault, "could not store the keys of attachments");
        }
        without_files(event, &missing);
    }

    async fn fetched(&self, entry: &Entry, on: &BotRef, attachment: &Attachment<'_>) -> Option<MediaRecord> {
        let (record, why) = match self.fetch(entry, on, attachment).await {
            Ok(record) => (Some(record), "fetched"),
            Err(NotFetched::Gone) => (None, "gone"),
            Err(NotFetched::NoAnswer) => (None, "no_answer"),
            Err(NotFetched::NotKept(MediaNotKept::TooLarge)) => (None, "too_large"),
            Err(NotFetched::NotKept(MediaNotKept::NoRoom | MediaNotKept::NoRoomForAgent)) => {
                (None, "no_room")
            }
            Err(NotFetched::NotKept(MediaNotKept::Fault(fault))) => {
                tracing::error!(%fault, "could not store an attachment");
                (None, "fault")
            }
            Err(NotFetched::NotKept(_)) => (None, "refused"),
        };
        self.metrics.attachments.get_or_create(&ReasonLabel { why }).inc();
        record
    }

    async fn fetch(
        &self,
        entry: &Entry,
        on: &BotRef,
        attachment: &Attachment<'_>,
    ) -> Result<MediaRecord, NotFetched> {
        let Attachment { id, reference, media } = attachment;
        let (tenant, instance) = (self.tenant.clone(), entry.instance.clone());
        let owner = AttachmentOwner { tenant, instance, entry: entry.id.clone() };
        // It may be here: fetched early, or for an earlier delivery of the same entry.
        let mut unfetched = match self.store.begin_attachment(&owner, id, media).await? {
            AttachmentFile::Stored(record) => return Ok(record),
            AttachmentFile::Missing(unfetched) => unfetched,
        };
        let fetched = self.egress.fetch_media(on, reference, &mut unfetched.writer).await?;
        unfetched.keep_for_delivery(fetched).await
    }
}

/// Whether attachments of this kind are shown or played.
fn is_perceived(kind: &str) -> bool {
    matches!(kind, "photo" | "image" | "video" | "audio" | "voice")
}

/// Whether a file of this type can neither be shown as a picture nor played. An unknown type may be anything.
fn is_document(mime: &str) -> bool {
    mime != UNKNOWN_TYPE && !["image/", "audio/", "video/"].iter().any(|kind| mime.starts_with(kind))
}

/// Describes missing attachments if the message has no text of its own.
fn without_files(event: &mut Event, missing: &[Media]) {
    if event.text.trim().is_empty() && !missing.is_empty() {
        event.text = missing.iter().map(placeholder).collect::<Vec<_>>().join(" ");
    }
    if event.media_urls.is_empty() && event.message_type != MessageType::Command {
        event.message_type = MessageType::Text;
    }
}

/// The parts of an album as one event: all attachments, and the first text. A part is its prepared event, with the stored
/// one.
pub(crate) fn merged(parts: &[(PreparedEvent, Bytes)]) -> Option<PreparedEvent> {
    let read = |part: &Bytes| serde_json::from_slice::<Event>(part).ok();
    let texts = parts.iter().filter_map(|(_, stored)| Some(read(stored)?.text));
    let caption = texts.into_iter().find(|text| !text.trim().is_empty());
    let mut parts = parts.iter().map(|(prepared, _)| read(prepared));
    let mut whole = parts.next()??;
    for part in parts {
        let part = part?;
        if whole.text.trim().is_empty() {
            whole.text = part.text;
        }
        whole.media.extend(part.media);
        whole.media_urls.extend(part.media_urls);
        // A stock gateway judges all files by the one type of the message.
        if part.message_type != whole.message_type {
            whole.message_type = MessageType::Document;
        }
    }
    if whole.media_urls.is_empty() {
        whole.message_type = MessageType::Text;
    }
    // What a person wrote is worth more than the description of an attachment that could not be fetched.
    whole.text = caption.unwrap_or(whole.text);
    serde_json::to_vec(&whole).ok().map(Bytes::from)
}

impl From<Fault> for NotFetched {
    fn from(fault: Fault) -> Self {
        NotFetched::NotKept(MediaNotKept::Fault(fault))
    }
}
