//! Files, questions with buttons, reactions, threads and drafts in a conversation. Not every platform carries them out:
//! [`Conversation::supports`] says which ones this chat has.

use posthouse_wire::action::{MediaKind, PromptKind, PromptOption, RenameGuard};
use posthouse_wire::{Action, MessageId, PromptId, ThreadId};

use super::{Conversation, Failed, SentMessages, judged_with};

/// A file to send: one that the agent has uploaded, or one at a public URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMedia {
    kind: MediaKind,
    url: String,
    caption: Option<String>,
    filename: Option<String>,
}

impl OutgoingMedia {
    pub fn new(kind: MediaKind, url: impl Into<String>) -> Self {
        Self { kind, url: url.into(), caption: None, filename: None }
    }

    /// The text that is shown with the file.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = Some(caption.into());
        self
    }

    /// The name under which people get the file.
    #[must_use]
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.filename = Some(filename.into());
        self
    }
}

impl Conversation {
    /// Whether the platform of this chat carries out this op, such as `send_media` or `react`.
    pub fn supports(&self, op: &str) -> bool {
        self.descriptor().supported_ops.iter().any(|supported| supported == op)
    }

    /// Sends a file to this chat.
    ///
    /// ```no_run
    /// # use posthouse_agent::{Conversation, Failed, OutgoingMedia};
    /// # use posthouse_agent::wire::action::MediaKind;
    /// # async fn example(conversation: Conversation) -> Result<(), Failed> {
    /// let chart = OutgoingMedia::new(MediaKind::Image, "https://charts.example/today.png").caption("Today");
    /// conversation.send_media(chart).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_media(&self, media: OutgoingMedia) -> Result<SentMessages, Failed> {
        let send = Action::SendMedia {
            chat_id: self.0.chat_id.clone(),
            media_kind: media.kind,
            source_url: media.url,
            content: media.caption,
            filename: media.filename,
            reply_to: self.0.answering.clone(),
            metadata: self.0.metadata.clone(),
        };
        let outcome = self.act("send_media", send).await?;
        Ok(SentMessages(outcome.message_id.into_iter().collect()))
    }

    /// Asks a question with buttons. A press arrives as a message whose event has a `prompt_response` with this id.
    ///
    /// ```no_run
    /// # use posthouse_agent::{Conversation, Failed, Message};
    /// # use posthouse_agent::wire::action::{PromptKind, PromptOption};
    /// # async fn example(message: Message, conversation: Conversation) -> Result<(), Failed> {
    /// if let Some(answer) = &message.event.prompt_response {
    ///     conversation.reply(&format!("You chose {}.", answer.option_id)).await?;
    ///     return Ok(());
    /// }
    /// let button = |id: &str, label: &str| PromptOption { id: id.into(), label: label.to_owned(), style: None };
    /// let options = vec![button("yes", "Yes"), button("no", "No")];
    /// conversation.prompt(PromptKind::Choice, "deploy-7", "Deploy now?", options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn prompt(
        &self,
        kind: PromptKind,
        id: impl Into<PromptId>,
        text: &str,
        options: Vec<PromptOption>,
    ) -> Result<SentMessages, Failed> {
        let prompt = Action::Prompt {
            chat_id: self.0.chat_id.clone(),
            prompt_kind: kind,
            prompt_id: id.into(),
            content: text.to_owned(),
            options,
            reply_to: self.0.answering.clone(),
            metadata: self.0.metadata.clone(),
        };
        let outcome = self.act("prompt", prompt).await?;
        Ok(SentMessages(outcome.message_id.into_iter().collect()))
    }

    /// Adds the agent's reaction to a message.
    pub async fn react(&self, to: &MessageId, emoji: &str) -> Result<(), Failed> {
        self.set_reaction(to, emoji, false).await
    }

    /// Removes the agent's reaction from a message.
    pub async fn remove_reaction(&self, from: &MessageId, emoji: &str) -> Result<(), Failed> {
        self.set_reaction(from, emoji, true).await
    }

    async fn set_reaction(&self, message: &MessageId, emoji: &str, remove: bool) -> Result<(), Failed> {
        let react = Action::React {
            chat_id: self.0.chat_id.clone(),
            message_id: message.clone(),
            emoji: emoji.to_owned(),
            remove,
            metadata: self.0.metadata.clone(),
        };
        self.act("react", react).await.map(drop)
    }

    /// Creates a thread in this chat, under a message if one is given. Messages in it have a session of their own.
    pub async fn create_thread(&self, name: &str, under: Option<&MessageId>) -> Result<ThreadId, Failed> {
        let create = Action::ThreadCreate {
            chat_id: self.0.chat_id.clone(),
            thread_name: name.to_owned(),
            message_id: under.cloned(),
            metadata: self.0.metadata.clone(),
        };
        let outcome = self.act("thread_create", create).await?;
        judged_with("thread_create", outcome, |outcome| outcome.thread_id.clone())
    }

    /// Renames a thread. With a guard, a name that a person has given stays.
    pub async fn rename_thread(
        &self,
        thread: &ThreadId,
        name: &str,
        guard: RenameGuard,
    ) -> Result<(), Failed> {
        let rename = Action::ThreadRename {
            chat_id: self.0.chat_id.clone(),
            thread_id: thread.clone(),
            thread_name: name.to_owned(),
            guard,
            metadata: self.0.metadata.clone(),
        };
        self.act("thread_rename", rename).await.map(drop)
    }

    /// Shows the beginning of an answer that is still being written. The next call with the same number replaces it.
    /// The last one, with `is_final`, becomes a message. [`stream`](Self::stream) does this by edits, on every platform.
    pub async fn draft(&self, number: i64, text: &str, is_final: bool) -> Result<SentMessages, Failed> {
        let draft = Action::Draft {
            chat_id: self.0.chat_id.clone(),
            draft_id: number,
            content: text.to_owned(),
            is_final,
            metadata: self.0.metadata.clone(),
        };
        let outcome = self.act("draft", draft).await?;
        Ok(SentMessages(outcome.message_id.into_iter().collect()))
    }

    /// Shows a typing indicator with a text, such as "reading the logs", where the platform can.
    pub async fn typing_with(&self, status: &str) -> Result<(), Failed> {
        self.show_typing(Some(status.to_owned())).await
    }

    /// Removes the typing indicator. Most platforms remove it by themselves when the agent sends something.
    pub async fn clear_typing(&self) -> Result<(), Failed> {
        self.show_typing(Some(String::new())).await
    }

    pub(super) async fn show_typing(&self, content: Option<String>) -> Result<(), Failed> {
        let (chat_id, metadata) = (self.0.chat_id.clone(), self.0.metadata.clone());
        self.act("typing", Action::Typing { chat_id, content, metadata }).await.map(drop)
    }
}
