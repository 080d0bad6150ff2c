//! Attachments of WhatsApp messages: a description for the agent, and a reference with which the file can be fetched.

use posthouse_wire::MessageType;
use posthouse_wire::event::Media;

use crate::bots::OpenedBot;
use crate::whatsapp::media::MEDIA_REFERENCE;
use crate::whatsapp::number_of;
use crate::whatsapp::payload::WhatsAppMessage;

pub(super) struct WhatsAppAttachment {
    pub message_type: MessageType,
    pub caption: String,
    pub media: Media,
    pub reference: String,
}

/// The file of a message, if it is a message with a file.
pub(super) fn attached(bot: &OpenedBot, message: &WhatsAppMessage<'_>) -> Option<WhatsAppAttachment> {
    let (message_type, kind, file) = match &*message.kind {
        "image" => (MessageType::Photo, "photo", message.image.as_ref()?),
        "video" => (MessageType::Video, "video", message.video.as_ref()?),
        "document" => (MessageType::Document, "document", message.document.as_ref()?),
        "sticker" => (MessageType::Sticker, "sticker", message.sticker.as_ref()?),
        "audio" => match message.audio.as_ref()? {
            recording if recording.voice => (MessageType::Voice, "voice", recording),
            audio => (MessageType::Audio, "audio", audio),
        },
        _ => return None,
    };
    // A recording has the type `audio/ogg; codecs=opus`.
    let mime = file.mime_type.as_deref().map(|mime| mime.split(';').next().unwrap_or(mime).trim());
    Some(WhatsAppAttachment {
        message_type,
        caption: file.caption.as_deref().unwrap_or_default().to_owned(),
        media: Media {
            kind: kind.to_owned(),
            mime: mime.map(str::to_owned),
            filename: file.filename.as_deref().map(str::to_owned),
            ..Media::default()
        },
        reference: format!("{MEDIA_REFERENCE}{}/{}", number_of(bot), &*file.id),
    })
}
