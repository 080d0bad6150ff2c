//! Attachments: a description for the agent, and a reference with which the file can be fetched later.

use posthouse_wire::MessageType;
use posthouse_wire::event::Media;

use crate::telegram::media::FILE_REFERENCE;
use crate::telegram::update::{TelegramFile, TelegramMessage};

/// One attachment.
pub(super) struct TelegramAttachment {
    pub message_type: MessageType,
    /// The description for the agent. The handle that the agent can open is minted at delivery.
    pub media: Media,
    /// The file's id for this bot. It stays inside the server.
    pub reference: String,
}

/// The attachment of a message. A message has at most one; an album is several messages.
pub(super) fn attached(message: &TelegramMessage<'_>) -> Option<TelegramAttachment> {
    // Telegram offers the same picture in several sizes; the largest is used.
    let photo =
        message.photo.iter().max_by_key(|size| (size.width.saturating_mul(size.height), size.file_size));
    // An animation is also set as a document, for clients that do not know animations.
    let (message_type, file, mime) = if let Some(file) = photo {
        (MessageType::Photo, file, Some("image/jpeg"))
    } else if let Some(file) = &message.animation {
        (MessageType::Video, file, Some("video/mp4"))
    } else if let Some(file) = message.video.as_ref().or(message.video_note.as_ref()) {
        (MessageType::Video, file, Some("video/mp4"))
    } else if let Some(file) = &message.voice {
        (MessageType::Voice, file, Some("audio/ogg"))
    } else if let Some(file) = &message.audio {
        (MessageType::Audio, file, Some("audio/mpeg"))
    } else if let Some(file) = &message.sticker {
        (MessageType::Sticker, file, Some(sticker_mime(file)))
    } else {
        (MessageType::Document, message.document.as_ref()?, None)
    };
    let media = Media {
        url: None,
        kind: kind(message_type).to_owned(),
        mime: file.mime_type.as_deref().or(mime).map(str::to_owned),
        size: file.file_size,
        filename: file.file_name.as_deref().map(str::to_owned),
        caption: file.emoji.as_deref().map(str::to_owned),
    };
    Some(TelegramAttachment { message_type, media, reference: format!("{FILE_REFERENCE}{}", &*file.file_id) })
}

fn sticker_mime(sticker: &TelegramFile<'_>) -> &'static str {
    match (sticker.is_video, sticker.is_animated) {
        (true, _) => "video/webm",
        (_, true) => "application/x-tgsticker",
        _ => "image/webp",
    }
}

fn kind(of: MessageType) -> &'static str {
    match of {
        MessageType::Photo => "photo",
        MessageType::Video => "video",
        MessageType::Voice => "voice",
        MessageType::Audio => "audio",
        MessageType::Sticker => "sticker",
        _ => "document",
    }
}
