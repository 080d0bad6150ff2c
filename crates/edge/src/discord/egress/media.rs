//! Sending of files to Discord (`send_media`), with captions.

use http::Method;
use posthouse_wire::{Action, Outcome};
use relay::{EgressResult, PermittedAction};
use serde_json::json;

use super::calls::DiscordCalls;
use super::{CreatedMessage, message, snowflake};
use crate::bots::OpenedBot;
use crate::discord::api::DiscordCall;
use crate::discord::media::FileForm;
use crate::discord::{Discord, LABEL};
use crate::platform::StoredMedia;
use crate::platform_calls::RepeatRule;

/// Carries out one `send_media`. A caption that is too long for one message continues in messages after the file.
pub(in crate::discord) async fn send_media(
    discord: &Discord,
    bot: &OpenedBot,
    permitted: PermittedAction,
    media: StoredMedia,
) -> EgressResult {
    let mut calls = DiscordCalls::new(discord, bot, &permitted);
    let Action::SendMedia { chat_id, content, reply_to, metadata, .. } = permitted.action else {
        return Outcome::unsupported(permitted.action.op()).into();
    };
    let outcome = match calls.channel(&chat_id, &metadata).await {
        Ok(channel) => {
            let reply = reply_to.as_ref().and_then(|id| snowflake(id.as_str()));
            calls.send_file(channel, content.as_deref().unwrap_or_default(), reply, media).await
        }
        Err(refusal) => refusal,
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

impl DiscordCalls<'_> {
    async fn send_file(
        &mut self,
        channel: &str,
        caption: &str,
        reply: Option<&str>,
        media: StoredMedia,
    ) -> Outcome {
        let mut captions = self.discord.chunks(self.bot, caption).await.into_iter();
        let mut body = message(&captions.next().unwrap_or_default());
        body["attachments"] = json!([{ "id": 0, "filename": media.record.filename }]);
        body["nonce"] = self.next_nonce().into();
        body["enforce_nonce"] = true.into();
        if let Some(reply) = reply {
            body["message_reference"] = json!({ "message_id": reply, "fail_if_not_exists": false });
        }
        let form = FileForm { message: body, media };
        let path = format!("/channels/{channel}/messages");
        let call = DiscordCall::new(Method::POST, "POST /channels/ID/messages", path).of(channel).form(&form);
        let sent = match self.ask::<CreatedMessage>(call, RepeatRule::Harmless).await {
            Ok(sent) => sent,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        for chunk in captions {
            if self.create(channel, message(&chunk)).await.is_err() {
                // The file has arrived, so the action must not be repeated.
                return Outcome::failed("the file was sent, then its caption failed or timed out");
            }
        }
        Outcome::sent(sent.id.into())
    }
}
