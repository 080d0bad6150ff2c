//! An answer that grows while it is written.

use std::time::Duration;

use posthouse_time::Moment;
use posthouse_wire::MessageId;

use super::{Conversation, Failed, Sent, chunks};

/// How often a growing message is edited at most. Platforms limit edits more tightly than sends.
const EVERY: Duration = Duration::from_millis(800);

/// Where the platform can edit, one message grows; where it cannot, each segment is a message of its own.
/// Dropped without [`finish`](Self::finish), what was shown last stays.
pub struct Streaming {
    conversation: Conversation,
    every: Duration,
    edits: bool,
    /// Text of the message under way that no finished piece holds.
    text: String,
    /// The message under way, and how much of `text` it shows.
    shown: Option<(MessageId, String)>,
    last: Option<Moment>,
    reply_to: Option<MessageId>,
    sent: Sent,
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
            sent: Sent::default(),
        }
    }

    /// How often the message is edited at most; 800 ms unless said.
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause;
        self
    }

    /// Adds to the answer.
    pub async fn push(&mut self, text: &str) -> Result<(), Failed> {
        self.text.push_str(text);
        if !self.edits || self.text.trim().is_empty() {
            return Ok(());
        }
        let now = self.conversation.timepiece().now();
        if self.last.is_some_and(|last| now.since(last) < self.every) {
            return Ok(());
        }
        self.last = Some(now);
        self.show(false).await
    }

    /// Ends a segment: what follows is a new message.
    pub async fn segment(&mut self) -> Result<(), Failed> {
        let outcome = self.show(true).await;
        self.text.clear();
        self.shown = None;
        self.last = None;
        outcome
    }

    /// Shows everything, exactly. Returns the messages that the answer became.
    pub async fn finish(mut self) -> Result<Sent, Failed> {
        self.segment().await?;
        Ok(self.sent)
    }

    /// Brings the message under way up to date. Pieces that are full are left behind as they are.
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
                // A lost step on the way does not matter, the last one does.
                Err(failed) if last => Err(failed),
                Err(_) => Ok(()),
            },
            None => {
                let message = self.conversation.send_piece(piece.clone(), self.reply_to.take()).await?;
                if let Some(message) = message {
                    self.sent.0.push(message.clone());
                    self.shown = Some((message, piece));
                } else {
                    // No id means nothing to edit: what is said is said, and each further segment is a
                    // message of its own.
                    self.edits = false;
                    self.text.clear();
                }
                Ok(())
            }
        }
    }
}
