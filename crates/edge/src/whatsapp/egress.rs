//! Sending actions of agents as calls of WhatsApp's Graph API, each within its deadline.

mod calls;
mod media;
mod prompts;

use posthouse_wire::{Action, ChatId, ChatInfo, MessageId, Outcome};
use relay::{EgressResult, PermittedAction};
use serde_json::{Value, json};

use super::{LABEL, MESSAGE_LENGTH, WhatsApp};
use crate::bots::OpenedBot;
use crate::light_markup::LightMarkup;
use crate::platform_calls::{CallFailure, RepeatRule};
use crate::split::{Unit, split};
use calls::WhatsAppCalls;
pub(super) use media::send_media;

/// The error for a chat id that no chat has.
const NO_CHAT: &str = "chat not found";

/// Carries out one action.
pub(super) async fn perform(
    whatsapp: &WhatsApp,
    bot: &OpenedBot,
    permitted: PermittedAction,
) -> EgressResult {
    let mut calls = WhatsAppCalls::new(whatsapp, bot, &permitted);
    let outcome = match permitted.action {
        Action::Send { chat_id, content, reply_to, .. } => {
            calls.send(&chat_id, &content, reply_to.as_ref()).await
        }
        // The typing sign ends by itself, so that there is nothing to clear.
        Action::Typing { content: Some(content), .. } if content.is_empty() => Outcome::done(),
        Action::Typing { chat_id, .. } => calls.type_on(&chat_id).await,
        Action::GetChatInfo { chat_id } => calls.chat_info(&chat_id),
        Action::Prompt { chat_id, prompt_id, content, options, reply_to, .. } => {
            calls.prompt(&chat_id, (&prompt_id, &options), &content, reply_to.as_ref()).await
        }
        Action::React { chat_id, message_id, emoji, remove, .. } => {
            calls.react(&chat_id, &message_id, if remove { "" } else { &emoji }).await
        }
        other => Outcome::unsupported(other.op()),
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// A message to a person, without its content. A number and a business-scoped id have different fields: WhatsApp loses a
/// message with an id in the place of a number. `None` for an id that no chat has.
fn to_person(chat: &ChatId) -> Option<Value> {
    let id = chat.as_str();
    let field = match id.split_once('.') {
        _ if (5..=20).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_digit()) => "to",
        Some((country, rest)) if is_country(country) && is_scoped(rest) => "recipient",
        _ => return None,
    };
    Some(json!({ "messaging_product": "whatsapp", "recipient_type": "individual", field: id }))
}

fn is_country(code: &str) -> bool {
    code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn is_scoped(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
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

impl WhatsAppCalls<'_> {
    /// Texts for one message each, in WhatsApp's markup.
    async fn chunks(&self, content: &str) -> Vec<String> {
        let fit = |text: &str| split(&LightMarkup::WHATSAPP.convert(text), MESSAGE_LENGTH, Unit::Chars);
        self.whatsapp.split_limits.run(&self.bot.id, content, fit).await
    }

    /// Sends all chunks in order. The outcome names the last message.
    pub(super) async fn send(
        &mut self,
        chat: &ChatId,
        content: &str,
        reply_to: Option<&MessageId>,
    ) -> Outcome {
        let bodies = self.chunks(content).await.iter().map(|chunk| text_content(chunk)).collect();
        self.send_all(chat, bodies, reply_to).await
    }

    /// Sends messages with these contents in order. The first one replies to a message.
    pub(super) async fn send_all(
        &mut self,
        chat: &ChatId,
        contents: Vec<Value>,
        reply_to: Option<&MessageId>,
    ) -> Outcome {
        let Some(person) = to_person(chat) else { return Outcome::failed(NO_CHAT) };
        let count = contents.len();
        let mut reply = reply_to;
        let mut last = None;
        for (sent, content) in contents.into_iter().enumerate() {
            match self.post(&person, content, reply.take()).await {
                Ok(id) => last = Some(id),
                Err(failure) => return failed(&failure, sent, count),
            }
        }
        match last {
            Some(id) => Outcome::sent(id),
            None => Outcome::failed("message text is empty"),
        }
    }

    /// Shows that the agent is typing. The sign belongs to the person's last message, which is marked as read with it.
    async fn type_on(&mut self, chat: &ChatId) -> Outcome {
        let Some(contact) = self.whatsapp.contacts.get(&self.bot.id, chat.as_str()) else {
            return Outcome::failed(
                "WhatsApp shows typing only below a message, and this person has not written lately",
            );
        };
        let body = json!({
            "messaging_product": "whatsapp", "status": "read", "message_id": contact.message,
            "typing_indicator": { "type": "text" },
        });
        self.done(body, RepeatRule::Never).await
    }

    async fn react(&mut self, chat: &ChatId, message: &MessageId, emoji: &str) -> Outcome {
        let Some(mut body) = to_person(chat) else { return Outcome::failed(NO_CHAT) };
        body["type"] = "reaction".into();
        body["reaction"] = json!({ "message_id": message, "emoji": emoji });
        self.done(body, RepeatRule::Harmless).await
    }

    fn chat_info(&self, chat: &ChatId) -> Outcome {
        if to_person(chat).is_none() {
            return Outcome::failed(NO_CHAT);
        }
        let known = self.whatsapp.contacts.get(&self.bot.id, chat.as_str()).and_then(|contact| contact.name);
        let name = known.unwrap_or_else(|| chat.to_string());
        Outcome::info(ChatInfo { name, kind: "dm".to_owned() })
    }
}

fn text_content(text: &str) -> Value {
    json!({ "type": "text", "text": { "body": text, "preview_url": false } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_business_scoped_id_have_different_fields() {
        let field = |chat: &str| {
            let person = to_person(&chat.into())?;
            ["to", "recipient"].into_iter().find(|field| person[field] == chat)
        };
        assert_eq!(field("15551230000"), Some("to"));
        assert_eq!(field("US.13491208655302741918"), Some("recipient"));
        for nobody in ["", "1", "+15551230000", "US.", "us.5", "US.a/b", "15551230000/media", "USA.5"] {
            assert_eq!(field(nobody), None, "{nobody}");
        }
    }
}
