//! Drafts: previews of an answer that is still being written. Telegram shows them in private chats only.

use posthouse_wire::action::Metadata;
use posthouse_wire::{ChatId, Outcome};
use serde::Serialize;

use super::{IgnoredResult, TelegramCalls, place};
use crate::platform_calls::{CallFailure, RepeatRule};
use crate::split::{Unit, split};
use crate::telegram::markdown::to_markdown_v2;
use crate::telegram::{LABEL, MESSAGE_LENGTH};

#[derive(Serialize)]
struct SendMessageDraft<'a> {
    chat_id: i64,
    draft_id: i64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i64>,
}

impl TelegramCalls<'_> {
    /// Shows a preview, or posts the answer if this is the final text. A repeated final returns the message of the
    /// first.
    pub(super) async fn draft(
        &mut self,
        chat_id: &ChatId,
        draft_id: i64,
        content: &str,
        is_final: bool,
        metadata: &Metadata,
    ) -> Outcome {
        let place = match place(chat_id, metadata) {
            Ok(place) => place,
            Err(error) => return Outcome::failed(error),
        };
        if is_final {
            let key = (self.bot.id.clone(), place.chat, draft_id);
            if let Some(posted) = self.telegram.finals.get(&key) {
                return Outcome::sent(posted);
            }
            let outcome = self.send(chat_id, content, None, metadata).await;
            if let Some(message) = outcome.message_id.clone().filter(|_| outcome.success) {
                self.telegram.finals.insert(key, message);
            }
            return outcome;
        }
        // Ids of groups and channels are negative.
        if place.chat < 0 {
            return Outcome::failed("drafts are shown in private chats only");
        }
        let chunks = self.chunks(content).await;
        // A preview shows the beginning of a long text. An empty one shows nothing.
        let Some(first) = chunks.first() else { return Outcome::done() };
        let (chat_id, message_thread_id) = (place.chat, place.topic);
        let text = to_markdown_v2(first);
        let params = SendMessageDraft {
            chat_id,
            draft_id,
            text: &text,
            parse_mode: Some("MarkdownV2"),
            message_thread_id,
        };
        let shown = match self.ask::<IgnoredResult>("sendMessageDraft", &params, RepeatRule::Never).await {
            // An unfinished text may end inside its markup.
            Err(CallFailure::Refused(refused)) if refused.says("can't parse entities") => {
                let plain = split(first, MESSAGE_LENGTH, Unit::Utf16);
                let text = plain.first().map_or("", String::as_str);
                let params =
                    SendMessageDraft { chat_id, draft_id, text, parse_mode: None, message_thread_id };
                self.ask::<IgnoredResult>("sendMessageDraft", &params, RepeatRule::Never).await
            }
            shown => shown,
        };
        match shown {
            Ok(_) => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }
}
