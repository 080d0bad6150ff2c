//! Transcript of what took effect, with separate records of refused calls and of deliveries.

use std::{borrow::Cow, collections::VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// An update arrived from a person (it was injected).
    Received,
    /// A bot wrote a message.
    Sent,
    /// A bot changed a message of its own.
    Edited,
    /// A bot deleted a message.
    Deleted,
    /// A bot showed that it is typing, or similar.
    Action,
    /// A bot reacted to a message.
    Reaction,
    /// A bot answered a pressed button.
    CallbackAnswered,
    /// A bot opened a forum topic.
    TopicCreated,
    /// A bot renamed a forum topic.
    TopicRenamed,
    /// A bot changed or removed the buttons of a message.
    ButtonsChanged,
    /// A bot showed a preview of a message.
    Draft,
    /// A call was refused. Never in the transcript.
    Refused,
}

/// One event. It never contains a token; `bot` is the bot's id.
#[derive(Clone, Debug, Serialize)]
pub struct TranscriptRow {
    /// Grows by one per row; gaps do not occur until rows are evicted.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The bot's id.
    pub bot: i64,
    /// What happened.
    pub kind: RowKind,
    /// The Bot API method, or for `Received` the update's kind (`message`, `callback_query`, ...).
    pub method: Cow<'static, str>,
    /// The chat.
    pub chat: Option<i64>,
    /// The message that it created or changed.
    pub message_id: Option<i64>,
    /// For `Received`.
    pub update_id: Option<i64>,
    /// The forum topic, if any.
    pub thread_id: Option<i64>,
    /// The message it replies to, if any.
    pub reply_to: Option<i64>,
    /// The text after parsing; for `Action`, the action; for `Refused`, the description.
    pub text: Option<String>,
    /// The update, or the parameters of the call as received.
    pub raw: Box<RawValue>,
}

impl TranscriptRow {
    pub(super) fn new(
        bot: i64,
        kind: RowKind,
        method: impl Into<Cow<'static, str>>,
        raw: Box<RawValue>,
    ) -> TranscriptRow {
        TranscriptRow {
            seq: 0,
            at_ms: super::moment::unix_ms(),
            bot,
            kind,
            method: method.into(),
            chat: None,
            message_id: None,
            update_id: None,
            thread_id: None,
            reply_to: None,
            text: None,
            raw,
        }
    }
}

/// Filter for rows. The default matches all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only this bot's.
    pub bot: Option<i64>,
    /// Only in this chat.
    pub chat: Option<i64>,
    /// Only of these kinds; empty means all.
    pub kinds: Vec<RowKind>,
    /// Only rows whose text contains this.
    pub text: Option<String>,
    /// Only rows later than this `seq`.
    pub after: Option<u64>,
}

impl Filter {
    /// All rows of one chat.
    #[must_use]
    pub fn chat(chat: i64) -> Filter {
        Filter { chat: Some(chat), ..Filter::default() }
    }

    /// Messages of bots in one chat.
    #[must_use]
    pub fn sent(chat: i64) -> Filter {
        Filter { kinds: vec![RowKind::Sent], ..Filter::chat(chat) }
    }

    /// Adds the condition that the text contains this.
    #[must_use]
    pub fn saying(self, text: &str) -> Filter {
        Filter { text: Some(text.to_owned()), ..self }
    }

    /// Whether a row matches.
    #[must_use]
    pub fn wants(&self, row: &TranscriptRow) -> bool {
        self.bot.is_none_or(|bot| bot == row.bot)
            && self.chat.is_none_or(|chat| Some(chat) == row.chat)
            && (self.kinds.is_empty() || self.kinds.contains(&row.kind))
            && self.after.is_none_or(|after| row.seq > after)
            && self.text.as_ref().is_none_or(|text| row.text.as_ref().is_some_and(|said| said.contains(text)))
    }
}

/// The last items, up to a fixed number.
pub(super) struct LatestItems<T> {
    kept: VecDeque<T>,
    most: usize,
}

impl<T> LatestItems<T> {
    pub fn new(most: usize) -> LatestItems<T> {
        LatestItems { kept: VecDeque::new(), most: most.max(1) }
    }

    /// Adds an item and returns the oldest if it had to be dropped.
    pub fn push(&mut self, one: T) -> Option<T> {
        self.kept.push_back(one);
        if self.kept.len() > self.most { self.kept.pop_front() } else { None }
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.kept.iter()
    }

    pub fn clear(&mut self) {
        self.kept.clear();
    }
}

/// One attempt to deliver an update to a webhook.
#[derive(Clone, Debug, Serialize)]
pub struct WebhookAttempt {
    /// When it began, milliseconds since 1970.
    pub at_ms: i64,
    /// How long it took.
    pub took_ms: i64,
    /// The bot's id.
    pub bot: i64,
    /// Which update.
    pub update_id: i64,
    /// 1 for the first.
    pub attempt: u32,
    /// Whether a fault asked for this repetition although the update already had its 2xx.
    pub duplicate: bool,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// Why there was no answer.
    pub error: Option<String>,
}

/// An update that the receiver has taken over.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Confirmed {
    /// The bot's id.
    pub bot: i64,
    /// Which update.
    pub update_id: i64,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// `webhook` (answered with 2xx) or `offset` (confirmed by a later getUpdates).
    pub by: &'static str,
}

/// State of updates.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Deliveries {
    /// Every webhook attempt, in the order in which they ended.
    pub attempts: Vec<WebhookAttempt>,
    /// Every confirmed update, in order, once each.
    pub confirmed: Vec<Confirmed>,
    /// Number of waiting updates, over all selected bots.
    pub pending: usize,
}
