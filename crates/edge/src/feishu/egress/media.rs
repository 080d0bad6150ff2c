//! Sending of files to Feishu (`send_media`): an upload, then a message that names it, then the caption.

use http::Method;
use posthouse_wire::action::MediaKind;
use posthouse_wire::{Action, Outcome};
use relay::{EgressResult, PermittedAction};
use serde::Deserialize;
use serde_json::json;

use super::calls::{FeishuCalls, FeishuTarget};
use crate::bots::OpenedBot;
use crate::feishu::api::{FeishuBody, FeishuCall};
use crate::feishu::media::{FeishuUpload, LARGEST_FILE, UploadKind};
use crate::feishu::{Feishu, LABEL};
use crate::platform::StoredMedia;
use crate::platform_calls::RepeatRule;

#[derive(Deserialize)]
struct UploadedKey {
    image_key: Option<String>,
    file_key: Option<String>,
}

/// Carries out one `send_media`.
pub(in crate::feishu) async fn send_media(
    feishu: &Feishu,
    bot: &OpenedBot,
    permitted: PermittedAction,
    media: StoredMedia,
) -> EgressResult {
    let mut calls = FeishuCalls::new(feishu, bot, &permitted);
    let Action::SendMedia { chat_id, media_kind, content, reply_to, metadata, .. } = permitted.action else {
        return Outcome::unsupported(permitted.action.op()).into();
    };
    let outcome = match calls.target(&chat_id, &metadata, reply_to.as_ref()).await {
        Ok(target) => calls.send_file(&target, media_kind, &content.unwrap_or_default(), media).await,
        Err(refusal) => refusal,
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

impl FeishuCalls<'_> {
    /// The outcome names the file's message. Feishu shows no caption with a file, so that it follows.
    async fn send_file(
        &mut self,
        target: &FeishuTarget,
        kind: MediaKind,
        caption: &str,
        media: StoredMedia,
    ) -> Outcome {
        let (mime, size) = (media.record.mime.clone(), media.record.size);
        if size > LARGEST_FILE {
            return Outcome::failed("the file is too large: Feishu takes files of up to 30 MB");
        }
        let form = UploadKind::of(kind, &mime, size);
        let upload = FeishuUpload { media, form };
        let call =
            FeishuCall::new("POST files", Method::POST, form.path().to_owned(), FeishuBody::Upload(&upload));
        let uploaded: UploadedKey = match self.ask(call, RepeatRule::Harmless).await {
            Ok(uploaded) => uploaded,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        let content = match (form, uploaded.image_key, uploaded.file_key) {
            (UploadKind::Image, Some(key), _) => json!({ "image_key": key }),
            (UploadKind::File(_), _, Some(key)) => json!({ "file_key": key }),
            _ => return Outcome::failed("Feishu took the file and did not say under which key"),
        };
        let sent = match self.post(target, form.message_type(), &content.to_string()).await {
            Ok(sent) => sent,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        let captions = self.chunks(caption).await;
        if !captions.is_empty() && !self.send(target, &captions).await.success {
            // The file has arrived, so the action must not be repeated.
            return Outcome::failed("the file was sent, then its caption failed or timed out");
        }
        Outcome::sent(sent.into())
    }
}
