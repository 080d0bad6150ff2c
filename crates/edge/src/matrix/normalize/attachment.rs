//! Attachments of Matrix messages: a description for the agent, and the address with which the file can be fetched.

use posthouse_wire::MessageType;
use posthouse_wire::event::Media;

use crate::matrix::ids::media_parts;
use crate::matrix::payload::MessageContent;

pub(super) struct MatrixAttachment {
    pub message_type: MessageType,
    pub caption: String,
    pub media: Media,
    pub reference: String,
}

/// The file of a message, if it is a message with a file that is not encrypted.
pub(super) fn attached(kind: &str, content: &MessageContent<'_>) -> Option<MatrixAttachment> {
    let (message_type, kind) = match (kind, content.msgtype.as_deref()) {
        ("m.sticker", _) => (MessageType::Sticker, "sticker"),
        (_, Some("m.image")) => (MessageType::Photo, "photo"),
        (_, Some("m.video")) => (MessageType::Video, "video"),
        (_, Some("m.audio")) if content.voice.is_some() => (MessageType::Voice, "voice"),
        (_, Some("m.audio")) => (MessageType::Audio, "audio"),
        (_, Some("m.file")) => (MessageType::Document, "document"),
        _ => return None,
    };
    let address = content.url.as_deref().filter(|address| media_parts(address).is_some())?;
    let (body, filename) = (content.body.as_deref(), content.filename.as_deref());
    // With a file name of its own, the body is a caption. Without one, it is the file name.
    let caption = body.filter(|body| filename.is_some_and(|name| name != *body) || kind == "sticker");
    let info = content.info.as_ref();
    Some(MatrixAttachment {
        message_type,
        caption: caption.unwrap_or_default().to_owned(),
        media: Media {
            kind: kind.to_owned(),
            mime: info.and_then(|info| info.mimetype.as_deref()).map(str::to_owned),
            size: info.and_then(|info| info.size.as_ref()).and_then(serde_json::Number::as_u64),
            filename: filename.or(body).filter(|_| kind != "sticker").map(str::to_owned),
            ..Media::default()
        },
        reference: address.to_owned(),
    })
}
