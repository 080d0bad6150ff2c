//! Sending of files to Matrix (`send_media`): an upload, and a message with its address and caption.

use posthouse_wire::action::MediaKind;
use posthouse_wire::{Action, Outcome};
use relay::{EgressResult, PermittedAction};
use serde_json::json;

use super::calls::MatrixCalls;
use super::{MatrixPlace, no_chat, place};
use crate::bots::OpenedBot;
use crate::matrix::dialect::text_content;
use crate::matrix::{LABEL, Matrix};
use crate::platform::StoredMedia;
use crate::platform_calls::RepeatRule;

/// Carries out one `send_media`. A caption that is too long for one message continues in messages after the file.
pub(in crate::matrix) async fn send_media(
    matrix: &Matrix,
    bot: &OpenedBot,
    permitted: PermittedAction,
    media: StoredMedia,
) -> EgressResult {
    let mut calls = MatrixCalls::new(matrix, bot, &permitted);
    let Action::SendMedia { chat_id, media_kind, content, reply_to, metadata, .. } = permitted.action else {
        return Outcome::unsupported(permitted.action.op()).into();
    };
    let caption = content.unwrap_or_default();
    let outcome = match place(&chat_id, &metadata, reply_to.as_ref()) {
        Some(place) => calls.send_file(&place, media_kind, &caption, media).await,
        None => no_chat(),
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

impl MatrixCalls<'_> {
    async fn send_file(
        &mut self,
        place: &MatrixPlace,
        kind: MediaKind,
        caption: &str,
        media: StoredMedia,
    ) -> Outcome {
        // Before the upload, so that nothing is left behind.
        match self.room(&place.room).await {
            Ok(room) if room.is_encrypted => return super::calls::NotSent::Encrypted.outcome(0, 1),
            Ok(_) => {}
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        }
        let (matrix, bot) = (self.matrix, self.bot);
        let uploaded =
            self.calls.call("POST upload", RepeatRule::Harmless, |left| matrix.upload(bot, &media, left));
        let address = match uploaded.await {
            Ok(address) => address,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        let mut captions = self.contents(caption).await.into_iter();
        let (first, name) = (captions.next(), &media.record.filename);
        let has_caption = first.is_some();
        let mut content = first.unwrap_or_else(|| text_content(name, "m.text"));
        content["msgtype"] = message_type(kind).into();
        content["filename"] = json!(name);
        content["url"] = address.into();
        content["info"] = json!({ "mimetype": media.record.mime, "size": media.record.size });
        if !has_caption {
            // A file name is no Markdown.
            content.as_object_mut().map(|content| content.remove("formatted_body"));
            content.as_object_mut().map(|content| content.remove("format"));
        }
        if kind == MediaKind::Voice {
            content["org.matrix.msc3245.voice"] = json!({});
        }
        let event = match self.post(place, content).await {
            Ok(event) => event,
            Err(refusal) => return refusal.outcome(0, 1),
        };
        let after = MatrixPlace { reply_to: None, ..place.clone() };
        for caption in captions {
            if self.post(&after, caption).await.is_err() {
                // The file has arrived, so the action must not be repeated.
                return Outcome::failed("the file was sent, then its caption failed or timed out");
            }
        }
        Outcome::sent(event.into())
    }
}

fn message_type(kind: MediaKind) -> &'static str {
    match kind {
        MediaKind::Image => "m.image",
        MediaKind::Voice | MediaKind::Audio => "m.audio",
        MediaKind::Video => "m.video",
        MediaKind::Document => "m.file",
    }
}
