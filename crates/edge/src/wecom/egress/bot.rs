//! Actions of AI bots: commands on the long connection, or answers in a passive stream.

use std::time::Duration;

use posthouse_time::Moment;
use posthouse_wire::action::PromptOption;
use posthouse_wire::{ChatId, Outcome, PromptId};
use serde_json::{Value, json};

use super::{EMPTY, MALFORMED_PROMPT, failed, task_id};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallsWithDeadline, RepeatRule};
use crate::split::{Unit, measure, split};
use crate::wecom::cards::{LONGEST_QUESTION, card};
use crate::wecom::passive_streams::StreamResult;
use crate::wecom::{ANSWER_BYTES, BOT_CHARS, WeCom, uses_long_connection};

const SEND: &str = "aibot_send_msg";
/// Time in which WeCom asks for an answer. It asks about every second.
const FETCHED_WITHIN: Duration = Duration::from_secs(15);

pub(super) struct BotCalls<'a> {
    pub wecom: &'a WeCom,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    /// When a text was added to a stream.
    pub posted: Option<Moment>,
}

fn markdown(content: &str) -> Value {
    json!({ "msgtype": "markdown", "markdown": { "content": content } })
}

impl BotCalls<'_> {
    /// The messages that a text becomes.
    async fn texts(&self, content: &str) -> Vec<Value> {
        let fit = |text: &str| split(text, BOT_CHARS, Unit::Chars);
        let chunks = self.wecom.split_limits.run(&self.bot.id, content, fit).await;
        chunks.iter().map(|chunk| markdown(chunk)).collect()
    }

    pub async fn send(&mut self, chat: &ChatId, content: &str, is_last: bool) -> Outcome {
        if content.trim().is_empty() {
            return Outcome::failed(EMPTY);
        }
        if !uses_long_connection(self.bot) {
            return self.answer(chat, content, is_last).await;
        }
        let messages = self.texts(content).await;
        self.send_all(chat, messages).await
    }

    /// Sends messages in order. WeCom does not say which ids they get.
    async fn send_all(&mut self, chat: &ChatId, messages: Vec<Value>) -> Outcome {
        let count = messages.len();
        for (sent, mut body) in messages.into_iter().enumerate() {
            body["chatid"] = chat.as_str().into();
            let (wecom, bot) = (self.wecom, self.bot);
            let posted = self
                .calls
                .call(SEND, RepeatRule::IfRefused, |left| {
                    wecom.connections.command(&bot.id, SEND, body.clone(), left)
                })
                .await;
            if let Err(failure) = posted {
                return failed(&failure, sent, count);
            }
        }
        Outcome::done()
    }

    /// Adds to the answer that WeCom fetches.
    async fn answer(&mut self, chat: &ChatId, content: &str, is_last: bool) -> Outcome {
        let (streams, limit) = (&self.wecom.streams, self.calls.left().min(FETCHED_WITHIN));
        let added = self.wecom.timepiece.now();
        match streams.add(&self.bot.id, chat, content.trim(), is_last, limit).await {
            StreamResult::Fetched(id) => {
                self.posted = Some(added);
                Outcome::sent(id.as_str().into())
            }
            StreamResult::TooLong => Outcome::failed(format!(
                "the message is too long: the answers to one message have at most {ANSWER_BYTES} bytes"
            )),
            StreamResult::NoStream => Outcome::failed(
                "forbidden: an AI bot with callbacks can only answer a message of the last minutes, and once; with a \
                 long connection it can write at any time",
            ),
            StreamResult::NotFetched => Outcome::failed("WeCom did not fetch the answer"),
        }
    }

    /// Sends the question. The buttons are below its last message.
    pub async fn prompt(
        &mut self,
        chat: &ChatId,
        (prompt, options): (&PromptId, &[PromptOption]),
        content: &str,
    ) -> Outcome {
        let question = content.trim();
        if question.is_empty() {
            return Outcome::failed(EMPTY);
        }
        if !uses_long_connection(self.bot) {
            return Outcome::failed("forbidden: an AI bot needs a long connection to ask with buttons");
        }
        let is_short = measure(question, Unit::Chars) <= LONGEST_QUESTION;
        let title = if is_short { question } else { "?" };
        let task = task_id();
        let Some(card) = card(prompt, options, title, &task) else {
            return Outcome::failed(MALFORMED_PROMPT);
        };
        let mut messages = Vec::new();
        if !is_short {
            messages.extend(self.texts(question).await);
        }
        messages.push(json!({ "msgtype": "template_card", "template_card": card }));
        match self.send_all(chat, messages).await {
            // The id of the card stands for the message, so that a press is recognised as the answer.
            sent if sent.success => Outcome::sent(task.as_str().into()),
            failed => failed,
        }
    }
}
