//! Actions of applications, as calls of WeCom's API.

use posthouse_wire::action::{MediaKind, PromptOption};
use posthouse_wire::{ChatId, MessageId, Outcome, PromptId, Secret, TenantId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{EMPTY, MALFORMED_PROMPT, NO_CHAT, failed, task_id};
use crate::bots::OpenedBot;
use crate::light_markup::LightMarkup;
use crate::platform::StoredMedia;
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};
use crate::split::{Unit, measure, split};
use crate::wecom::api::WeComCall;
use crate::wecom::cards::{LONGEST_QUESTION, card};
use crate::wecom::media::WeComUpload;
use crate::wecom::{AGENT, APP_BYTES, CORP, LABEL, WeCom};

/// With this check WeCom drops a message that equals one of the last seconds, so that a repeated call is harmless. The
/// time is as short as an action may last, because an agent may well say the same twice.
const SAME_MESSAGE_SECONDS: u32 = 25;

pub(super) struct AppCalls<'a> {
    pub wecom: &'a WeCom,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    pub tenant: TenantId,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct AppMessageSent {
    msgid: String,
    /// People to whom it was not sent.
    invaliduser: Option<String>,
    /// With it the buttons of a card can be changed once.
    response_code: Option<String>,
}

#[derive(Deserialize)]
struct AppUpload {
    media_id: String,
}

/// Texts for one message each.
fn chunks(content: &str) -> Vec<String> {
    split(&LightMarkup::PLAIN.convert(content), APP_BYTES, Unit::Utf8Bytes)
}

/// The kind of message for a file. WeCom accepts only some types and sizes as pictures, recordings and videos.
fn message_kind(kind: MediaKind, mime: &str, size: i64) -> &'static str {
    match (kind, mime) {
        (MediaKind::Image, "image/jpeg" | "image/png") if size <= 10 << 20 => "image",
        (MediaKind::Audio | MediaKind::Voice, "audio/amr") if size <= 2 << 20 => "voice",
        (MediaKind::Video, "video/mp4") if size <= 10 << 20 => "video",
        _ => "file",
    }
}

fn text(content: &str) -> Value {
    json!({ "msgtype": "text", "text": { "content": content } })
}

impl AppCalls<'_> {
    /// The person of a chat, whose id also names the company. `None` for an id that no chat has.
    pub fn person<'c>(&self, chat: &'c ChatId) -> Option<&'c str> {
        let (corp, person) = chat.as_str().split_once(':')?;
        // User ids are unique in one company only, and the calls are made with the token of this company.
        let is_own = self.bot.setting(CORP) == Some(corp);
        // `touser` is a list, and `@all` is everybody.
        let is_one = (1..=64).contains(&person.len()) && !person.contains('|') && person != "@all";
        (is_own && is_one).then_some(person)
    }

    /// The messages that a text becomes.
    async fn texts(&self, content: &str) -> Vec<Value> {
        let chunks = self.wecom.split_limits.run(&self.bot.id, content, chunks).await;
        chunks.iter().map(|chunk| text(chunk)).collect()
    }

    pub async fn send(&mut self, chat: &ChatId, content: &str) -> Outcome {
        let messages = self.texts(content).await;
        self.send_all(chat, messages).await
    }

    /// Sends messages in order. The outcome names the last one.
    async fn send_all(&mut self, chat: &ChatId, messages: Vec<Value>) -> Outcome {
        let Some(person) = self.person(chat) else { return Outcome::failed(NO_CHAT) };
        let (count, mut last) = (messages.len(), None);
        for (sent, message) in messages.iter().enumerate() {
            // A part that equals an earlier one would be dropped.
            let repeat = match messages[..sent].contains(message) {
                true => RepeatRule::IfRefused,
                false => RepeatRule::Harmless,
            };
            match self.post(person, message.clone(), repeat).await {
                Ok(id) => last = Some(id),
                Err(failure) => return failed(&failure, sent, count),
            }
        }
        last.map_or_else(|| Outcome::failed(EMPTY), Outcome::sent)
    }

    async fn post(
        &mut self,
        person: &str,
        mut body: Value,
        repeat: RepeatRule,
    ) -> Result<MessageId, CallFailure> {
        let agent: Option<u64> = self.bot.setting(AGENT).and_then(|agent| agent.parse().ok());
        let agent = agent.ok_or_else(|| CallFailure::Unreached("the bot has no agent_id".to_owned()))?;
        body["touser"] = person.into();
        body["agentid"] = agent.into();
        if repeat == RepeatRule::Harmless {
            body["enable_duplicate_check"] = 1.into();
            body["duplicate_check_interval"] = SAME_MESSAGE_SECONDS.into();
        }
        // The id of a card stands for its message, so that a press is recognised as the answer.
        let card = body["template_card"]["task_id"].as_str().map(str::to_owned);
        let call = WeComCall::post("message/send", body).for_tenant(&self.tenant);
        let (wecom, bot) = (self.wecom, self.bot);
        let sent: AppMessageSent =
            self.calls.call(call.name, repeat, |left| wecom.call(bot, call.clone(), left)).await?;
        if sent.invaliduser.is_some_and(|invalid| !invalid.is_empty()) {
            let words = "chat not found: the person does not exist or cannot see the application".to_owned();
            return Err(CallFailure::Refused(CallRefusal::new(RefusalKind::Gone, 81_013, words)));
        }
        let id = card.unwrap_or(sent.msgid);
        if let Some(code) = sent.response_code.filter(|code| !code.is_empty()) {
            wecom.cards.note(&bot.id, &id, Secret::new(code));
        }
        Ok(id.as_str().into())
    }

    /// Sends the question. The buttons are below its last message, which the outcome names.
    pub async fn prompt(
        &mut self,
        chat: &ChatId,
        (prompt, options): (&PromptId, &[PromptOption]),
        content: &str,
    ) -> Outcome {
        let convert = |text: &str| LightMarkup::PLAIN.convert(text);
        let question = self.wecom.split_limits.run(&self.bot.id, content, convert).await;
        let question = question.trim();
        if question.is_empty() {
            return Outcome::failed(EMPTY);
        }
        let is_short = measure(question, Unit::Chars) <= LONGEST_QUESTION;
        let title = if is_short { question } else { "?" };
        let Some(card) = card(prompt, options, title, &task_id()) else {
            return Outcome::failed(MALFORMED_PROMPT);
        };
        let mut messages = Vec::new();
        if !is_short {
            messages.extend(self.texts(content).await);
        }
        messages.push(json!({ "msgtype": "template_card", "template_card": card }));
        self.send_all(chat, messages).await
    }

    /// Uploads the file and sends it. A caption follows as a message of its own.
    pub async fn send_file(
        &mut self,
        chat: &ChatId,
        kind: MediaKind,
        caption: &str,
        media: StoredMedia,
    ) -> Outcome {
        let Some(person) = self.person(chat) else { return Outcome::failed(NO_CHAT) };
        let kind = message_kind(kind, &media.record.mime, media.record.size);
        let form = WeComUpload { media };
        let call = WeComCall::upload("media/upload", kind, &form).for_tenant(&self.tenant);
        let (wecom, bot) = (self.wecom, self.bot);
        let uploaded = self
            .calls
            .call(call.name, RepeatRule::Harmless, |left| wecom.call::<AppUpload>(bot, call.clone(), left))
            .await;
        let uploaded = match uploaded {
            Ok(uploaded) => uploaded,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        let message = json!({ "msgtype": kind, kind: { "media_id": uploaded.media_id } });
        let sent = match self.post(person, message, RepeatRule::Harmless).await {
            Ok(sent) => sent,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        let words = self.texts(caption).await;
        if !words.is_empty() && !self.send_all(chat, words).await.success {
            // The file has arrived, so the action must not be repeated.
            return Outcome::failed("the file was sent, then its caption failed or timed out");
        }
        Outcome::sent(sent)
    }
}
