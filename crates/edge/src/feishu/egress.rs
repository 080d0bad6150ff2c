//! Sending actions of agents as calls of Feishu's Open API, each within its deadline.
//!
//! Feishu finds a message by its id alone, in whatever chat it is. Every action that names a message or a thread is
//! therefore carried out only if that is in the chat for which the action is permitted.

mod calls;
mod media;
mod prompts;
mod reactions;

use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, MessageId, Outcome};
use relay::{EgressResult, PermittedAction};

use super::api::is_path_part;
use super::post_text::{chunks, plain_content, post_content};
use super::{Feishu, LABEL};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, RepeatRule};
pub(super) use calls::{FeishuCalls, FeishuTarget};
pub(super) use media::send_media;
pub(super) use prompts::{PRESSED, close as close_prompt};

const NO_CHAT: &str = "chat not found";
const NO_MESSAGE: &str = "message to edit not found";
/// Codes for a rich text or a card that Feishu cannot show.
const NOT_SHOWN: [i64; 3] = [230001, 230054, 230099];

/// Carries out one action.
pub(super) async fn perform(feishu: &Feishu, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
    let mut calls = FeishuCalls::new(feishu, bot, &permitted);
    let outcome = match permitted.action {
        Action::Send { chat_id, content, reply_to, metadata } => {
            let expects_edits = metadata.expect_edits == Some(true);
            match calls.target(&chat_id, &metadata, reply_to.as_ref()).await {
                Ok(target) if expects_edits => calls.send_growing(&target, &content).await,
                Ok(target) => {
                    let chunks = calls.chunks(&content).await;
                    calls.send(&target, &chunks).await
                }
                Err(refusal) => refusal,
            }
        }
        Action::Edit { chat_id, message_id, content, metadata } => {
            calls.edit(&chat_id, &message_id, &content, &metadata).await
        }
        Action::GetChatInfo { chat_id } => calls.chat_info(&chat_id).await,
        Action::Prompt { chat_id, prompt_id, content, options, reply_to, metadata, .. } => {
            match calls.target(&chat_id, &metadata, reply_to.as_ref()).await {
                Ok(target) => calls.prompt(&target, (&prompt_id, &options), &content).await,
                Err(refusal) => refusal,
            }
        }
        Action::React { chat_id, message_id, emoji, remove, .. } => {
            calls.react(&chat_id, &message_id, (&emoji, remove)).await
        }
        Action::ThreadCreate { chat_id, thread_name, message_id, .. } => {
            calls.create_thread(&chat_id, &thread_name, message_id.as_ref()).await
        }
        other => Outcome::unsupported(other.op()),
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// The outcome of a failed action. After a part was sent, the whole must not be sent again. Stock gateways repeat every
/// failure except one with `timed out`.
fn failed(failure: &CallFailure, sent: usize, of: usize) -> Outcome {
    if sent == 0 {
        return Outcome::failed(failure.error(LABEL));
    }
    let cause = failure.cause(LABEL);
    Outcome::failed(format!("only {sent} of {of} messages were sent, then it failed or timed out: {cause}"))
}

fn is_not_shown(failure: &CallFailure) -> bool {
    matches!(failure, CallFailure::Refused(refused) if NOT_SHOWN.contains(&refused.code))
}

impl FeishuCalls<'_> {
    /// Texts for one message each.
    async fn chunks(&self, content: &str) -> Vec<String> {
        self.feishu.split_limits.run(&self.bot.id, content, chunks).await
    }

    /// Sends all chunks in order. The outcome names the last message. An edit of it replaces all of them.
    async fn send(&mut self, target: &FeishuTarget, chunks: &[String]) -> Outcome {
        let mut sent: Vec<String> = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            match self.post_text(target, chunk).await {
                Ok(message) => sent.push(message),
                Err(failure) => return failed(&failure, sent.len(), chunks.len()),
            }
        }
        match sent.last() {
            Some(last) => {
                self.remember(last, &sent);
                Outcome::sent(last.as_str().into())
            }
            None => Outcome::failed("message text is empty"),
        }
    }

    /// Sends a text that the agent is going to edit while it writes. It becomes a card, which takes many more edits.
    async fn send_growing(&mut self, target: &FeishuTarget, content: &str) -> Outcome {
        let chunks = self.chunks(content).await;
        let [only] = chunks.as_slice() else { return self.send(target, &chunks).await };
        let (card, content) = match self.new_card(only).await {
            Ok(made) => made,
            // The app may lack the permission for cards. A rich text takes 20 edits.
            Err(CallFailure::Refused(_)) => return self.send(target, &chunks).await,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        match self.post(target, "interactive", &content).await {
            Ok(message) => {
                self.keep_card(&message, card);
                Outcome::sent(message.into())
            }
            Err(failure) if is_not_shown(&failure) => self.send(target, &chunks).await,
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    /// Sends one text: as a rich text, or as a plain one if Feishu cannot show that.
    async fn post_text(&mut self, target: &FeishuTarget, text: &str) -> Result<String, CallFailure> {
        match self.post(target, "post", &post_content(text)).await {
            Err(failure) if is_not_shown(&failure) => self.post(target, "text", &plain_content(text)).await,
            result => result,
        }
    }

    /// Replaces the text of a message. A text that is too long for one message continues in new messages after it,
    /// which later edits of the same message change too.
    async fn edit(
        &mut self,
        chat: &ChatId,
        message_id: &MessageId,
        content: &str,
        metadata: &Metadata,
    ) -> Outcome {
        let edited = message_id.as_str();
        let target = match self.target(chat, metadata, None).await {
            Ok(target) => target,
            Err(refusal) => return refusal,
        };
        if let Err(refusal) = self.check_in_chat(chat, edited).await {
            return refusal;
        }
        let chunks = self.chunks(content).await;
        if chunks.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let existing = self.recall(edited);
        let mut messages: Vec<String> = Vec::with_capacity(chunks.len());
        let mut end = Ok(());
        for (at, chunk) in chunks.iter().enumerate() {
            let written = match existing.get(at) {
                Some(message) => self.update(message, chunk).await.map(|()| message.clone()),
                None => self.post_text(&target, chunk).await,
            };
            match written {
                Ok(message) => messages.push(message),
                Err(failure) => {
                    end = Err(failure);
                    break;
                }
            }
        }
        let written = messages.len();
        // New messages exist even if the rest failed, so the next edit must know them.
        messages.extend(existing.iter().skip(written).cloned());
        if end.is_ok() {
            for surplus in messages.drain(chunks.len().min(messages.len())..) {
                // It may be recalled already. Nothing can be done about it.
                let _ = self.recall_message(&surplus).await;
            }
        }
        self.remember(edited, &messages);
        match end {
            Ok(()) => Outcome::sent(message_id.clone()),
            // As long as no new message was sent, the whole edit can be repeated.
            Err(failure) if written <= existing.len() => Outcome::failed(failure.error(LABEL)),
            Err(failure) => failed(&failure, written, chunks.len()),
        }
    }

    /// Replaces the text of one message of the bot: of a card, or of a rich text.
    async fn update(&mut self, message: &str, text: &str) -> Result<(), CallFailure> {
        if self.feishu.cards.has(&self.bot.id, message) {
            let card = self.card_of(message).await?;
            return self.write_card(&card, text).await;
        }
        match self.put_text(message, "post", &post_content(text)).await {
            Err(failure) if is_not_shown(&failure) => {}
            result => return result,
        }
        // It is no rich text: a card of an earlier run of the server, or a plain text.
        match self.card_of(message).await {
            Ok(card) => self.write_card(&card, text).await,
            Err(CallFailure::Refused(_)) => self.put_text(message, "text", &plain_content(text)).await,
            Err(failure) => Err(failure),
        }
    }

    async fn chat_info(&mut self, chat: &ChatId) -> Outcome {
        let Some(id) = Some(chat.as_str()).filter(|id| is_path_part(id)) else {
            return Outcome::failed(NO_CHAT);
        };
        let (feishu, bot) = (self.feishu, self.bot);
        if let Some(known) = feishu.directory.chat(&bot.id, id) {
            return Outcome::info(known.into());
        }
        let asked =
            self.calls.call("GET chats", RepeatRule::Harmless, |left| feishu.look_up_chat(bot, id, left));
        match asked.await {
            Ok(found) => Outcome::info(found.into()),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    /// A thread of Feishu is the messages below another one, and has no name. The name is its first message; without a
    /// message below which it could begin, it is the message above too.
    async fn create_thread(&mut self, chat: &ChatId, name: &str, under: Option<&MessageId>) -> Outcome {
        let target = match self.target(chat, &Metadata::default(), None).await {
            Ok(target) => target,
            Err(refusal) => return refusal,
        };
        let text = format!("**{}**", super::post_text::without_tags(name.trim()));
        let root = match under {
            Some(under) => match self.check_in_chat(chat, under.as_str()).await {
                Ok(()) => under.as_str().to_owned(),
                Err(refusal) => return refusal,
            },
            None => match self.post_text(&target, &text).await {
                Ok(message) => message,
                Err(failure) => return Outcome::failed(failure.error(LABEL)),
            },
        };
        let target = FeishuTarget { answered: Some(root.clone()), in_thread: true, ..target };
        match self.post_text(&target, &text).await {
            Ok(message) => {
                let place = self.feishu.directory.place(&self.bot.id, &message);
                let thread = place.and_then(|place| place.thread).unwrap_or(root);
                Outcome::thread(thread.as_str().into())
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }
}
