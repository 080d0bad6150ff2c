//! Files of Slack messages: a description for the agent, and a reference with which the file can be fetched later.

use posthouse_wire::MessageType;
use posthouse_wire::event::Media;

use crate::slack::media::FILE_REFERENCE;
use crate::slack::payload::MessageFile;

/// Files that have no content any more, or never had one here.
const WITHOUT_CONTENT: [&str; 3] = ["tombstone", "hidden_by_limit", "external"];

pub(super) struct SharedAttachment {
    pub message_type: MessageType,
    pub media: Media,
    pub reference: String,
}

/// The files of a message. Their addresses are not copied, because some of them need no token.
pub(super) fn attached(files: &[MessageFile<'_>], team: &str) -> Vec<SharedAttachment> {
    let has_content =
        |file: &&MessageFile<'_>| file.mode.as_deref().is_none_or(|mode| !WITHOUT_CONTENT.contains(&mode));
    let described = files.iter().filter(has_content).map(|file| {
        let mime = file.mimetype.as_deref().filter(|mime| !mime.is_empty());
        let is_clip = file.subtype.as_deref() == Some("slack_audio");
        let (message_type, kind) = match mime.and_then(|mime| mime.split('/').next()) {
            Some("image") => (MessageType::Photo, "photo"),
            Some("audio" | "video") if is_clip => (MessageType::Voice, "voice"),
            Some("video") => (MessageType::Video, "video"),
            Some("audio") => (MessageType::Audio, "audio"),
            _ => (MessageType::Document, "document"),
        };
        SharedAttachment {
            message_type,
            media: Media {
                kind: kind.to_owned(),
                mime: mime.map(str::to_owned),
                size: file.size,
                filename: file.name.as_deref().map(str::to_owned),
                ..Media::default()
            },
            reference: format!("{FILE_REFERENCE}{team}/{}", &*file.id),
        }
    });
    described.collect()
}
