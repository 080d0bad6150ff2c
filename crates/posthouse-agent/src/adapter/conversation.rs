//! Conversation: sends answers to the chat that a message came from.

mod newer_ops;

use std::sync::Arc;

use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{
    Action, CapabilityKind, ChatId, ChatInfo, CorrelationId, Descriptor, MessageId, Outcome, Platform,
    SessionKey,
};

use super::{Message, Streaming, chunks};
use crate::transport::{Fault, RelayTransport, Tag};
pub use newer_ops::OutgoingMedia;

/// One chat, seen from one message in it. Cheap to clone.
#[derive(Clone)]
pub struct Conversation(Arc<ChatContext>);

struct ChatContext {
    transport: Arc<dyn RelayTransport>,
    timepiece: Timepiece,
    session: SessionKey,
    chat_id: ChatId,
    platform: Platform,
    tag: Tag,
    metadata: Metadata,
    answering: Option<MessageId>,
    /// Id of the question, if a program waits for its answer.
    question: Option<CorrelationId>,
}

/// Ids of the messages that carry a text, in order. There is more than one if the text was too long for
/// one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentMessages(pub Vec<MessageId>);

/// The server reports that the action failed, or that its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} failed: {error}")]
pub struct Failed {
    pub op: &'static str,
    pub error: String,
    pub code: Option<String>,
}

impl Conversation {
    pub(super) fn of(
        message: &Message,
        session: SessionKey,
        transport: &Arc<dyn RelayTransport>,
        timepiece: &Timepiece,
    ) -> Self {
        let event = &message.event;
        let source = &event.source;
        // Only a platform that the server described is named in the tag. Without a tag, the server uses its
        // own record of the chat.
        let tag = match transport.descriptors().of(&source.platform) {
            Some(_) => Tag { platform: Some(source.platform.clone()), bot_id: event.bot_id.clone() },
            None => Tag::default(),
        };
        // The scope, or otherwise the author, as the contract's client remembers them (section 9.3).
        let user_id = if source.scope_id.is_some() { None } else { source.user_id.clone() };
        let metadata = Metadata {
            scope_id: source.scope_id.clone(),
            user_id,
            thread_id: source.thread_id.clone(),
            profile: source.profile.clone(),
            ..Metadata::default()
        };
        Self(Arc::new(ChatContext {
            transport: transport.clone(),
            timepiece: timepiece.clone(),
            session,
            chat_id: source.chat_id.clone().unwrap_or_else(|| ChatId::new("")),
            platform: source.platform.clone(),
            tag,
            metadata,
            answering: event.message_id.clone(),
            question: question(message),
        }))
    }

    pub fn session(&self) -> &SessionKey {
        &self.0.session
    }

    pub fn chat_id(&self) -> &ChatId {
        &self.0.chat_id
    }

    pub fn timepiece(&self) -> &Timepiece {
        &self.0.timepiece
    }

    /// Capabilities of this chat's platform. If the server did not describe the platform, as for chats with
    /// programs, only the contract's defaults apply; optional capabilities such as editing are off.
    pub fn descriptor(&self) -> Arc<Descriptor> {
        let platform = &self.0.platform;
        let known = self.0.transport.descriptors().of(platform).cloned();
        known.unwrap_or_else(|| Arc::new(Descriptor::new(platform.clone(), platform.as_str())))
    }

    /// Answers the message, and quotes it if the platform can. A long text is split at the platform's
    /// limit.
    pub async fn reply(&self, text: &str) -> Result<SentMessages, Failed> {
        self.send(text, self.0.answering.clone()).await
    }

    /// Answers the question of a program, in one piece of any length: the program waits for one answer, and
    /// no platform's limit applies. The first answer counts. If the message is not a question, this is
    /// [`reply`](Self::reply). A `reply` never counts as the answer to a question.
    pub async fn answer(&self, text: &str) -> Result<SentMessages, Failed> {
        let Some(question) = &self.0.question else { return self.reply(text).await };
        let metadata = Metadata { correlation_id: Some(question.clone()), ..self.0.metadata.clone() };
        let answer = Action::Send {
            chat_id: self.0.chat_id.clone(),
            content: text.to_owned(),
            reply_to: self.0.answering.clone(),
            metadata,
        };
        let outcome = self.act("send", answer).await?;
        Ok(SentMessages(outcome.message_id.into_iter().collect()))
    }

    /// Sends a message to this chat without quoting.
    pub async fn say(&self, text: &str) -> Result<SentMessages, Failed> {
        self.send(text, None).await
    }

    async fn send(&self, text: &str, mut reply_to: Option<MessageId>) -> Result<SentMessages, Failed> {
        let mut sent = SentMessages::default();
        for piece in chunks(text, &self.descriptor()) {
            sent.0.extend(self.send_piece(piece, reply_to.take(), false).await?);
        }
        Ok(sent)
    }

    /// Sends one message, with a flag that says whether it will be edited.
    pub(super) async fn send_piece(
        &self,
        content: String,
        reply_to: Option<MessageId>,
        grows: bool,
    ) -> Result<Option<MessageId>, Failed> {
        let (chat_id, mut metadata) = (self.0.chat_id.clone(), self.0.metadata.clone());
        metadata.expect_edits = grows.then_some(true);
        let outcome = self.act("send", Action::Send { chat_id, content, reply_to, metadata }).await?;
        Ok(outcome.message_id)
    }

    pub(super) fn answering(&self) -> Option<MessageId> {
        self.0.answering.clone()
    }

    /// Replaces the text of one of the agent's messages.
    pub async fn edit(&self, message: &MessageId, text: &str) -> Result<(), Failed> {
        let (chat_id, metadata) = (self.0.chat_id.clone(), self.0.metadata.clone());
        let edit = Action::Edit { chat_id, message_id: message.clone(), content: text.to_owned(), metadata };
        self.act("edit", edit).await.map(drop)
    }

    /// Shows a typing indicator.
    pub async fn typing(&self) -> Result<(), Failed> {
        self.show_typing(None).await
    }

    /// Uses a capability that the server stores for this session.
    pub async fn follow_up(
        &self,
        kind: impl Into<CapabilityKind>,
        text: &str,
    ) -> Result<SentMessages, Failed> {
        let follow_up = Action::FollowUp {
            session_key: self.0.session.clone(),
            kind: kind.into(),
            content: text.to_owned(),
            metadata: self.0.metadata.clone(),
        };
        let outcome = judged("follow_up", self.0.transport.send_follow_up(follow_up).await)?;
        Ok(SentMessages(outcome.message_id.into_iter().collect()))
    }

    /// This chat's name and kind.
    pub async fn chat_info(&self) -> Result<ChatInfo, Fault> {
        self.0.transport.get_chat_info(&self.0.chat_id, &self.0.tag).await
    }

    /// Starts an answer that is shown while it is being written.
    pub fn stream(&self) -> Streaming {
        Streaming::new(self.clone())
    }

    async fn act(&self, op: &'static str, action: Action) -> Result<Outcome, Failed> {
        judged(op, self.0.transport.send_outbound(action, &self.0.tag).await)
    }
}

/// The id of the question, if a program waits for an answer and gave an id.
fn question(message: &Message) -> Option<CorrelationId> {
    let posted = message.posted().filter(|posted| posted.expects_reply)?;
    posted.meta.as_ref()?.correlation_id.clone()
}

/// What a successful outcome must contain.
fn judged_with<T>(
    op: &'static str,
    outcome: Outcome,
    part: impl FnOnce(&Outcome) -> Option<T>,
) -> Result<T, Failed> {
    let missing = || Failed { op, error: "the server's answer is incomplete".to_owned(), code: None };
    part(&outcome).ok_or_else(missing)
}

fn judged(op: &'static str, outcome: Outcome) -> Result<Outcome, Failed> {
    if outcome.success {
        return Ok(outcome);
    }
    let error = outcome.error.unwrap_or_else(|| "no reason given".to_owned());
    Err(Failed { op, error, code: outcome.code })
}
