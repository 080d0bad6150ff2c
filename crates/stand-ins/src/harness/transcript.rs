//! Transcript of what took effect, and of refused calls.

use std::{borrow::Cow, collections::VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One event on the platform. It never contains a credential.
#[derive(Clone, Debug, Serialize)]
pub struct PlatformRow {
    /// Grows with every row.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Id of the bot, app, phone number or account.
    pub account: String,
    /// `received` (a person acted), `sent`, `edited`, `deleted`, `refused`, and others that each platform names.
    pub kind: Cow<'static, str>,
    /// The API call, or the kind of event.
    pub call: Cow<'static, str>,
    /// The chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// The message that it created or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The thread, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The message it replies to, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The text; of a refused call, the body of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The event, or the parameters of the call, without credentials.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub raw: Value,
}

impl PlatformRow {
    pub(crate) fn new(
        account: impl Into<String>,
        kind: impl Into<Cow<'static, str>>,
        call: impl Into<Cow<'static, str>>,
    ) -> PlatformRow {
        PlatformRow {
            seq: 0,
            at_ms: 0,
            account: account.into(),
            kind: kind.into(),
            call: call.into(),
            chat: None,
            message_id: None,
            thread_id: None,
            reply_to: None,
            text: None,
            raw: Value::Null,
        }
    }

    pub(crate) fn chat(self, chat: impl Into<String>) -> PlatformRow {
        PlatformRow { chat: Some(chat.into()), ..self }
    }

    pub(crate) fn message(self, id: impl Into<String>) -> PlatformRow {
        PlatformRow { message_id: Some(id.into()), ..self }
    }

    pub(crate) fn text(self, text: impl Into<String>) -> PlatformRow {
        PlatformRow { text: Some(text.into()), ..self }
    }

    pub(crate) fn raw(self, raw: Value) -> PlatformRow {
        PlatformRow { raw, ..self }
    }
}

/// Filter for rows. The default matches all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RowFilter {
    /// Only of this account.
    pub account: Option<String>,
    /// Only in this chat.
    pub chat: Option<String>,
    /// Only of these kinds, separated by commas.
    pub kind: Option<String>,
    /// Only of this call.
    pub call: Option<String>,
    /// Only rows whose text contains this.
    pub text: Option<String>,
    /// Only rows later than this `seq`.
    pub after: Option<u64>,
}

impl RowFilter {
    /// Rows of this kind.
    #[must_use]
    pub fn kind(kind: &str) -> RowFilter {
        RowFilter { kind: Some(kind.to_owned()), ..RowFilter::default() }
    }

    /// Messages of bots in one chat.
    #[must_use]
    pub fn sent(chat: &str) -> RowFilter {
        RowFilter::kind("sent").in_chat(chat)
    }

    /// Adds the condition that the row is about this chat.
    #[must_use]
    pub fn in_chat(self, chat: &str) -> RowFilter {
        RowFilter { chat: Some(chat.to_owned()), ..self }
    }

    /// Adds the condition that the text contains this.
    #[must_use]
    pub fn saying(self, text: &str) -> RowFilter {
        RowFilter { text: Some(text.to_owned()), ..self }
    }

    /// Adds the condition that the row is later than this one.
    #[must_use]
    pub fn after(self, seq: u64) -> RowFilter {
        RowFilter { after: Some(seq), ..self }
    }

    /// Whether a row matches.
    #[must_use]
    pub fn wants(&self, row: &PlatformRow) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.account, Some(&row.account))
            && is(&self.chat, row.chat.as_deref())
            && is(&self.call, Some(&row.call))
            && self.kind.as_ref().is_none_or(|kinds| kinds.split(',').any(|kind| kind == row.kind))
            && self.after.is_none_or(|after| row.seq > after)
            && self.text.as_ref().is_none_or(|text| row.text.as_ref().is_some_and(|said| said.contains(text)))
    }
}

/// The latest rows, up to a fixed number.
pub(super) struct Rows {
    kept: VecDeque<PlatformRow>,
    most: usize,
}

impl Rows {
    pub fn new(most: usize) -> Rows {
        Rows { kept: VecDeque::new(), most: most.max(1) }
    }

    pub fn push(&mut self, row: PlatformRow) {
        self.kept.push_back(row);
        if self.kept.len() > self.most {
            self.kept.pop_front();
        }
    }

    pub fn find(&self, filter: &RowFilter) -> Vec<PlatformRow> {
        self.kept.iter().filter(|row| filter.wants(row)).cloned().collect()
    }

    pub fn clear(&mut self) {
        self.kept.clear();
    }
}
