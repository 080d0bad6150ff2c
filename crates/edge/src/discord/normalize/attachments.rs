//! Attachments of Discord messages: a description for the agent, and a reference with which the file can be fetched
//! later.

use posthouse_wire::event::Media;
use posthouse_wire::{BotId, MessageType};

use crate::discord::media::{ATTACHMENT_REFERENCE, AttachmentAddress, COMMAND_FILE_REFERENCE, CommandFiles};
use crate::discord::payload::{DiscordAttachment, DiscordMessage, InteractionData};

/// Flag of a message that is a voice message.
const VOICE_MESSAGE: u64 = 1 << 13;

/// Most files of one slash command. It can have 25 options, and few of them are files.
const MOST_OF_A_COMMAND: usize = 10;

pub(super) struct AttachedFile {
    pub message_type: MessageType,
    pub media: Media,
    pub reference: String,
}

/// The files of a message. Their URLs are signed, so none is copied.
pub(super) fn attached(message: &DiscordMessage<'_>) -> Vec<AttachedFile> {
    let is_voice = message.flags & VOICE_MESSAGE != 0;
    let files = message.attachments.iter().map(|file| {
        // It contains the message id, because Discord gives a new URL of a file only with its message.
        let reference =
            format!("{ATTACHMENT_REFERENCE}{}/{}/{}", &*message.channel_id, &*file.id, &*message.id);
        described(file, is_voice, reference)
    });
    files.collect()
}

/// The files that options of a slash command name. Discord gives their URLs only with the interaction, so `urls` keeps
/// them in memory.
pub(super) fn attached_to_command(
    bot: &BotId,
    data: &InteractionData<'_>,
    urls: &CommandFiles,
) -> Vec<AttachedFile> {
    let files = data.resolved.iter().flat_map(|resolved| resolved.attachments.values());
    let files = files.take(MOST_OF_A_COMMAND).filter_map(|file| {
        let url = file.url.as_deref()?;
        let named = AttachmentAddress {
            id: file.id.to_string(),
            url: url.to_owned(),
            filename: file.filename.as_deref().map(str::to_owned),
            content_type: file.content_type.as_deref().map(str::to_owned),
        };
        urls.keep(bot, named);
        Some(described(file, false, format!("{COMMAND_FILE_REFERENCE}{}", &*file.id)))
    });
    files.collect()
}

/// A file as the agent sees it.
fn described(file: &DiscordAttachment<'_>, is_voice: bool, reference: String) -> AttachedFile {
    let mime = file.content_type.as_deref().map(|mime| mime.split(';').next().unwrap_or(mime).trim());
    let (message_type, kind) = match mime.and_then(|mime| mime.split('/').next()) {
        Some("image") => (MessageType::Photo, "photo"),
        Some("video") => (MessageType::Video, "video"),
        Some("audio") if is_voice => (MessageType::Voice, "voice"),
        Some("audio") => (MessageType::Audio, "audio"),
        _ => (MessageType::Document, "document"),
    };
    let media = Media {
        kind: kind.to_owned(),
        mime: mime.map(str::to_owned),
        size: file.size,
        filename: file.filename.as_deref().map(str::to_owned),
        ..Media::default()
    };
    AttachedFile { message_type, media, reference }
}
