//! Sending of files to WhatsApp (`send_media`): an upload, then a message that names it.

use posthouse_wire::action::MediaKind;
use posthouse_wire::{Action, ChatId, MessageId, Outcome};
use relay::{EgressResult, PermittedAction};
use serde::Deserialize;
use serde_json::{Value, json};

use super::calls::WhatsAppCalls;
use super::{NO_CHAT, text_content, to_person};
use crate::bots::OpenedBot;
use crate::light_markup::LightMarkup;
use crate::platform::StoredMedia;
use crate::platform_calls::RepeatRule;
use crate::split::{Unit, measure};
use crate::whatsapp::api::GraphCall;
use crate::whatsapp::media::UploadForm;
use crate::whatsapp::{LABEL, WhatsApp, number_of};

/// The longest caption, in characters.
const LONGEST_CAPTION: usize = 1024;
/// The largest picture, and the largest recording or video. A larger one is sent as a document.
const LARGEST_IMAGE: i64 = 5 * 1024 * 1024;
const LARGEST_RECORDING: i64 = 16 * 1024 * 1024;

#[derive(Deserialize)]
struct WhatsAppUpload {
    id: String,
}

/// Carries out one `send_media`.
pub(in crate::whatsapp) async fn send_media(
    whatsapp: &WhatsApp,
    bot: &OpenedBot,
    permitted: PermittedAction,
    media: StoredMedia,
) -> EgressResult {
    let mut calls = WhatsAppCalls::new(whatsapp, bot, &permitted);
    let Action::SendMedia { chat_id, media_kind, content, reply_to, .. } = permitted.action else {
        return Outcome::unsupported(permitted.action.op()).into();
    };
    let caption = content.unwrap_or_default();
    let outcome = calls.send_file(&chat_id, media_kind, &caption, reply_to.as_ref(), media).await;
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// The kind of message for a file. WhatsApp shows only some types as pictures, recordings and videos.
fn message_kind(kind: MediaKind, mime: &str, size: i64) -> &'static str {
    match (kind, mime) {
        (MediaKind::Image, "image/jpeg" | "image/png") if size <= LARGEST_IMAGE => "image",
        (
            MediaKind::Audio | MediaKind::Voice,
            "audio/aac" | "audio/amr" | "audio/mpeg" | "audio/mp4" | "audio/ogg",
        ) if size <= LARGEST_RECORDING => "audio",
        (MediaKind::Video, "video/mp4" | "video/3gpp") if size <= LARGEST_RECORDING => "video",
        _ => "document",
    }
}

impl WhatsAppCalls<'_> {
    /// Sends the file. A caption that cannot be with it follows as a message of its own.
    async fn send_file(
        &mut self,
        chat: &ChatId,
        kind: MediaKind,
        caption: &str,
        reply_to: Option<&MessageId>,
        media: StoredMedia,
    ) -> Outcome {
        let Some(person) = to_person(chat) else { return Outcome::failed(NO_CHAT) };
        let kind = message_kind(kind, &media.record.mime, media.record.size);
        let filename = media.record.filename.clone();
        let form = UploadForm { media };
        let call = GraphCall::upload("POST media", format!("/{}/media", number_of(self.bot)), &form);
        let uploaded = match self.ask::<WhatsAppUpload>(call, RepeatRule::Harmless).await {
            Ok(uploaded) => uploaded,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        let mut file = json!({ "id": uploaded.id });
        if kind == "document" {
            file["filename"] = filename.into();
        }
        let split_limits = &self.whatsapp.split_limits;
        let convert = |text: &str| LightMarkup::WHATSAPP.convert(text);
        let words = split_limits.run(&self.bot.id, caption, convert).await;
        let is_beside = kind != "audio" && measure(&words, Unit::Chars) <= LONGEST_CAPTION;
        if is_beside && !words.trim().is_empty() {
            file["caption"] = words.into();
        }
        let sent = match self.post(&person, json!({ "type": kind, kind: file }), reply_to).await {
            Ok(sent) => sent,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        if !is_beside {
            let chunks = self.chunks(caption).await;
            let rest: Vec<Value> = chunks.iter().map(|chunk| text_content(chunk)).collect();
            if !rest.is_empty() && !self.send_all(chat, rest, None).await.success {
                // The file has arrived, so the action must not be repeated.
                return Outcome::failed("the file was sent, then its caption failed or timed out");
            }
        }
        Outcome::sent(sent)
    }
}
