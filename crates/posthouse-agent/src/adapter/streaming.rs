//! Streaming answers: a message that is edited while its text is being written.

use std::time::Duration;

use posthouse_time::Instant;
use posthouse_wire::MessageId;

use super::{Conversation, Failed, SentMessages, chunks};

/// Shortest pause between edits of a growing message. Platforms limit edits more tightly than sends.
const EVERY: Duration = Duration::from_millis(800);

/// An answer in progress. If the platform can edit, one message grows; otherwise each segment is a message
/// of its own. If this is dropped without [`finish`](Self::finish), the text that was shown last stays.
pub struct Streaming {
    conversation: Conversation,
    every: Duration,
    edits: bool,
    /// Text of the current message that no finished piece holds.
    text: String,
    /// The current message, and the part of `text` that it shows.
    shown: Option<(MessageId, String)>,
    last: Option<Instant>,
    reply_to: Option<MessageId>,
    sent: SentMessages,
}

impl Streaming {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self {
            edits: conversation.descriptor().supports_edit,
            reply_to: conversation.answering(),
            conversation,
            every: EVERY,
            text: String::new(),
            shown: None,
            last: None,
            sent: SentMessages::default(),
        }
    }

    /// Sets the shortest pause between edits. Default: 800 ms.
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause;
        self
    }

    /// Appends text to the answer.
    pub async fn push(&mut self, text: &str) -> Result<(), Failed> {
        self.text.push_str(text);
        if !self.edits || self.text.trim().is_empty() {
            return Ok(());
        }
        let now = self.conversation.timepiece().instant();
        if self.last.is_some_and(|last| now.since(last) < self.every) {
            return Ok(());
        }
        self.last = Some(now);
        self.show(false).await
    }

    /// Ends a segment: later text starts a new message.
    pub async fn segment(&mut self) -> Result<(), Failed> {
        let outcome = self.show(true).await;
        self.text.clear();
        self.shown = None;
        self.last = None;
        outcome
    }

    /// Shows the complete text and returns the messages that carry it.
    pub async fn finish(mut self) -> Result<SentMessages, Failed> {
        self.segment().await?;
        Ok(self.sent)
    }

    /// Updates the current message. Pieces that are full stay as they are.
    async fn show(&mut self, last: bool) -> Result<(), Failed> {
        if self.text.trim().is_empty() {
            return Ok(());
        }
        let mut pieces = chunks(&self.text, &self.conversation.descriptor());
        let growing = pieces.pop().unwrap_or_default();
        for full in pieces {
            self.put(full, true).await?;
            self.shown = None;
        }
        self.text.clone_from(&growing);
        self.put(growing, last).await
    }

    async fn put(&mut self, piece: String, last: bool) -> Result<(), Failed> {
        match &mut self.shown {
            Some((_, shown)) if *shown == piece => Ok(()),
            Some((message, shown)) => match self.conversation.edit(message, &piece).await {
                Ok(()) => {
                    *shown = piece;
                    Ok(())
                }
                // Only the last edit must succeed. A later edit replaces a failed one.
                Err(failed) if last => Err(failed),
                Err(_) => Ok(()),
            },
            None => {
                let message =
                    self.conversation.send_piece(piece.clone(), self.reply_to.take(), !last).await?;
                if let Some(message) = message {
                    self.sent.0.push(message.clone());
                    self.shown = Some((message, piece));
                } else {
                    // Without an id nothing can be edited: the sent text stays, and each further segment is
                    // a message of its own.
                    self.edits = false;
                    self.text.clear();
                }
                Ok(())
            }
        }
    }
}
