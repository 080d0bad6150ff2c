//! Prompts as messages with an inline keyboard.

use posthouse_wire::action::{Metadata, PromptOption};
use posthouse_wire::{ChatId, MessageId, Outcome, PromptId, PromptToken};
use serde::Serialize;

use super::{IgnoredResult, TelegramCalls, failed, place};
use crate::bots::OpenedBot;
use crate::telegram::{COURTESY, LABEL, Telegram};

/// Buttons in one row.
const IN_A_ROW: usize = 2;

/// The buttons below a message.
#[derive(Clone, Debug, Serialize)]
pub(super) struct InlineKeyboard {
    inline_keyboard: Vec<Vec<InlineButton>>,
}

#[derive(Clone, Debug, Serialize)]
struct InlineButton {
    text: String,
    callback_data: String,
}

#[derive(Serialize)]
struct EditMessageReplyMarkup {
    chat_id: i64,
    message_id: i64,
}

impl InlineKeyboard {
    /// `None` if a payload does not fit.
    fn of(prompt: &PromptId, options: &[PromptOption]) -> Option<Self> {
        let button = |option: &PromptOption| {
            let token = PromptToken { prompt: prompt.clone(), option: option.id.clone() };
            Some(InlineButton { text: option.label.clone(), callback_data: token.encode()? })
        };
        let buttons: Vec<InlineButton> = options.iter().map(button).collect::<Option<_>>()?;
        Some(Self { inline_keyboard: buttons.chunks(IN_A_ROW).map(<[InlineButton]>::to_vec).collect() })
    }
}

impl TelegramCalls<'_> {
    /// Sends the question. The buttons are below its last message, which the outcome names.
    pub(super) async fn prompt(
        &mut self,
        chat_id: &ChatId,
        (prompt, options): (&PromptId, &[PromptOption]),
        content: &str,
        reply_to: Option<&MessageId>,
        metadata: &Metadata,
    ) -> Outcome {
        let place = match place(chat_id, metadata) {
            Ok(place) => place,
            Err(error) => return Outcome::failed(error),
        };
        let Some(keyboard) = InlineKeyboard::of(prompt, options) else {
            return Outcome::failed("malformed prompt: an id does not fit into a button");
        };
        let chunks = self.chunks(content).await;
        let Some((last, before)) = chunks.split_last() else {
            return Outcome::failed("message text is empty");
        };
        let reply = reply_to.and_then(|id| id.as_str().parse().ok());
        let begun = self.say(place, before, &[], reply).await;
        if let Err(failure) = begun.end {
            return failed(&failure, begun.messages.len(), chunks.len());
        }
        self.keyboard = Some(keyboard);
        let asked =
            self.say(place, std::slice::from_ref(last), &[], reply.filter(|_| before.is_empty())).await;
        self.keyboard = None;
        let sent = begun.messages.len() + asked.messages.len();
        match (asked.end, asked.messages.last()) {
            (Ok(()), Some(message)) => Outcome::sent(message.to_string().into()),
            (Ok(()), None) => Outcome::failed("message text is empty"),
            (Err(failure), _) => failed(&failure, sent, chunks.len()),
        }
    }
}

/// Takes the buttons away from a message.
pub(in crate::telegram) async fn close(
    telegram: &Telegram,
    bot: &OpenedBot,
    chat: &ChatId,
    message: &MessageId,
) {
    let (Ok(chat_id), Ok(message_id)) = (chat.as_str().parse(), message.as_str().parse()) else { return };
    let params = EditMessageReplyMarkup { chat_id, message_id };
    let closed = telegram.call::<IgnoredResult>(bot, "editMessageReplyMarkup", &params, COURTESY).await;
    if let Err(failure) = closed {
        tracing::debug!(bot.id = %bot.id, "could not take the buttons of a prompt away: {}", failure.cause(LABEL));
    }
}
