//! Sending files: the method for each kind, and captions.

use posthouse_wire::action::{MediaKind, Metadata};
use posthouse_wire::{Action, ChatId, MessageId, Outcome, Secret};
use relay::{EgressResult, PermittedAction};

use super::{Destination, ReplyParameters, SentMessage, TelegramCalls, place};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::{CallFailure, CallRefusal};
use crate::telegram::markdown::to_markdown_v2;
use crate::telegram::media::MediaForm;
use crate::telegram::{LABEL, Telegram};

/// The longest caption, in UTF-16 units.
const CAPTION: usize = 1024;
/// The largest picture that Telegram shows as one. A larger one is sent as a document.
const LARGEST_PHOTO: i64 = 10 * 1024 * 1024;

/// The method of a kind of file, and the field for the file.
type SendMethod = (&'static str, &'static str);

const PHOTO: SendMethod = ("sendPhoto", "photo");
const VOICE: SendMethod = ("sendVoice", "voice");
const AUDIO: SendMethod = ("sendAudio", "audio");
const VIDEO: SendMethod = ("sendVideo", "video");
const DOCUMENT: SendMethod = ("sendDocument", "document");

/// Carries out one `send_media`.
pub(in crate::telegram) async fn send_media(
    telegram: &Telegram,
    bot: &OpenedBot,
    permitted: PermittedAction,
    media: StoredMedia,
    business: Option<&Secret>,
) -> EgressResult {
    let mut calls = TelegramCalls::new(telegram, bot, &permitted, business);
    let Action::SendMedia { chat_id, media_kind, content, reply_to, metadata, .. } = permitted.action else {
        return Outcome::unsupported(permitted.action.op()).into();
    };
    let file =
        FileToSend { chat: &chat_id, kind: media_kind, reply_to: reply_to.as_ref(), metadata: &metadata };
    let outcome = calls.send_file(file, content.as_deref().unwrap_or_default(), media).await;
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// A file with its destination.
struct FileToSend<'a> {
    chat: &'a ChatId,
    kind: MediaKind,
    reply_to: Option<&'a MessageId>,
    metadata: &'a Metadata,
}

fn method_of(kind: MediaKind, media: &StoredMedia) -> SendMethod {
    let (mime, size) = (media.record.mime.as_str(), media.record.size);
    match kind {
        // As a photo, an animated picture would lose its movement.
        MediaKind::Image if mime.starts_with("image/") && mime != "image/gif" && size <= LARGEST_PHOTO => {
            PHOTO
        }
        MediaKind::Voice if matches!(mime, "audio/ogg" | "audio/opus") => VOICE,
        MediaKind::Voice | MediaKind::Audio if mime.starts_with("audio/") => AUDIO,
        MediaKind::Video if mime.starts_with("video/") => VIDEO,
        _ => DOCUMENT,
    }
}

impl TelegramCalls<'_> {
    /// Sends the file. A caption that is too long for one follows as a message of its own.
    async fn send_file(&mut self, file: FileToSend<'_>, caption: &str, media: StoredMedia) -> Outcome {
        let place = match place(file.chat, file.metadata) {
            Ok(place) => place,
            Err(error) => return Outcome::failed(error),
        };
        let fits = caption.encode_utf16().count() <= CAPTION;
        let reply = file.reply_to.and_then(|id| id.as_str().parse().ok());
        let (method, name) = method_of(file.kind, &media);
        let mut fields = fields(place, reply);
        let business = self.business_connection().map(str::to_owned);
        fields.extend(business.map(|connection| ("business_connection_id", connection)));
        let mut form = MediaForm { fields, name, media };
        let sent = self.send_captioned(method, &mut form, if fits { caption } else { "" }).await;
        let sent = match sent {
            // Telegram shows only some pictures and recordings as such. As a document it takes every file.
            Err(CallFailure::Refused(CallRefusal { code: 400, .. })) if method != DOCUMENT.0 => {
                form.name = DOCUMENT.1;
                self.send_captioned(DOCUMENT.0, &mut form, if fits { caption } else { "" }).await
            }
            sent => sent,
        };
        match sent {
            Ok(message) if fits => Outcome::sent(message.to_string().into()),
            Ok(message) => {
                let text = self.send(file.chat, caption, None, file.metadata).await;
                // The file has arrived, so the whole must not be sent again.
                match text.success {
                    true => Outcome::sent(message.to_string().into()),
                    false => Outcome::failed("the file was sent, then its caption failed or timed out"),
                }
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    /// Sends the form with a caption: as markup, or as plain text if Telegram cannot parse the markup.
    async fn send_captioned(
        &mut self,
        method: &'static str,
        form: &mut MediaForm,
        caption: &str,
    ) -> Result<i64, CallFailure> {
        let plain = form.fields.len();
        if !caption.trim().is_empty() {
            form.fields.push(("caption", to_markdown_v2(caption)));
            form.fields.push(("parse_mode", "MarkdownV2".to_owned()));
        }
        let sent = self.send_to_chat(method, form).await;
        form.fields.truncate(plain);
        match sent {
            Err(CallFailure::Refused(refused)) if refused.says("can't parse entities") => {
                form.fields.push(("caption", caption.to_owned()));
                let sent = self.send_to_chat(method, form).await;
                form.fields.truncate(plain);
                sent
            }
            sent => sent,
        }
    }

    /// Sends the form, to the new id of the group if it has got one.
    async fn send_to_chat(&mut self, method: &'static str, form: &mut MediaForm) -> Result<i64, CallFailure> {
        let sent = match self.send_form::<SentMessage>(method, form).await {
            Err(CallFailure::Refused(CallRefusal { moved_to: Some(to), .. })) => {
                if let Some((_, chat)) = form.fields.iter_mut().find(|(name, _)| *name == "chat_id") {
                    *chat = to;
                }
                self.send_form::<SentMessage>(method, form).await
            }
            sent => sent,
        };
        sent.map(|sent| sent.message_id)
    }
}

fn fields(place: Destination, reply: Option<i64>) -> Vec<(&'static str, String)> {
    let reply = reply.map(|message_id| ReplyParameters { message_id, allow_sending_without_reply: true });
    let reply = reply.and_then(|reply| serde_json::to_string(&reply).ok());
    let mut fields = vec![("chat_id", place.chat.to_string())];
    fields.extend(place.topic.map(|topic| ("message_thread_id", topic.to_string())));
    fields.extend(reply.map(|reply| ("reply_parameters", reply)));
    fields
}
