//! Sending of files to Slack (`send_media`): an upload in three steps, with the caption as the comment of the file.

use posthouse_wire::{Action, Outcome};
use relay::{EgressResult, PermittedAction};
use serde::de::IgnoredAny;
use serde_json::json;

use super::calls::SlackCalls;
use super::{SlackPlace, message};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::RepeatRule;
use crate::slack::api::WebApiCall;
use crate::slack::media::UploadAddress;
use crate::slack::{LABEL, MESSAGE_LENGTH, Slack};

/// Carries out one `send_media`. A caption that is too long for one message continues in messages after the file.
pub(in crate::slack) async fn send_media(
    slack: &Slack,
    bot: &OpenedBot,
    permitted: PermittedAction,
    media: StoredMedia,
) -> EgressResult {
    let mut calls = SlackCalls::new(slack, bot, &permitted);
    let Action::SendMedia { chat_id, content, reply_to, metadata, .. } = permitted.action else {
        return Outcome::unsupported(permitted.action.op()).into();
    };
    let outcome = match calls.place(&chat_id, &metadata, reply_to.as_ref()).await {
        Ok(place) => calls.send_file(&place, content.as_deref().unwrap_or_default(), media).await,
        Err(refusal) => refusal,
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

impl SlackCalls<'_> {
    /// The outcome names no message: Slack posts the file a moment later, and does not say as which.
    async fn send_file(&mut self, place: &SlackPlace, caption: &str, media: StoredMedia) -> Outcome {
        let (name, size) = (media.record.filename.clone(), media.record.size);
        let announced = vec![("filename", name.clone()), ("length", size.to_string())];
        let call = WebApiCall::form("files.getUploadURLExternal", announced);
        let address: UploadAddress = match self.ask(call, RepeatRule::Harmless).await {
            Ok(address) => address,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        let (slack, bot) = (self.slack, self.bot);
        let uploaded = self
            .calls
            .call("upload of a file", RepeatRule::Harmless, |left| slack.upload(bot, &address, &media, left));
        if let Err(failure) = uploaded.await {
            return Outcome::failed(failure.error(LABEL));
        }
        let mut captions = slack.chunks(bot, caption, MESSAGE_LENGTH).await.into_iter();
        let files = json!([{ "id": address.file_id, "title": name }]);
        let mut body = json!({ "files": files, "channel_id": place.channel });
        if let Some(comment) = captions.next() {
            body["initial_comment"] = comment.into();
        }
        if let Some(thread) = &place.thread {
            body["thread_ts"] = json!(thread);
        }
        let call = WebApiCall::json("files.completeUploadExternal", body);
        if let Err(failure) = self.ask::<IgnoredAny>(call, RepeatRule::IfNothingWasDone).await {
            return Outcome::failed(failure.error(LABEL));
        }
        for chunk in captions {
            if self.post(place, message(place, &chunk)).await.is_err() {
                // The file has arrived, so the action must not be repeated.
                return Outcome::failed("the file was sent, then its caption failed or timed out");
            }
        }
        Outcome::done()
    }
}
