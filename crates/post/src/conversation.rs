//! Platform `post`: what agents say to programs. Its chats are conversations with programs.

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use ledger::{BotRef, Exchange, ExchangeState, NewReply, ReplyKind};
use posthouse_wire::action::Metadata;
use posthouse_wire::{
    Action, ChatId, ChatInfo, CorrelationId, Descriptor, EntryId, InstanceId, MessageId, Outcome,
};
use relay::{Carried, Egress, Order};

use crate::streamed::joined;
use crate::{Fault, Post};

/// The platform name of conversations with programs.
pub const PLATFORM: &str = "post";
/// Its only bot, shared by all agents.
pub(crate) const BOT: &str = "post";
const PREFIX: &str = "post-";
/// Name prefix of conversations that consist of one question.
const QUESTION: &str = "x-";
/// The longest conversation name.
const LONGEST_NAME: usize = 80;
/// The longest text of one message, in bytes.
pub(crate) const LONGEST_TEXT: usize = 256 * 1024;
/// The message length advertised to agents, in characters.
const ADVERTISED_LENGTH: u32 = 32_000;

/// The advertised operations. `edit` is accepted too, but not advertised.
const OPS: [&str; 3] = ["send", "typing", "get_chat_info"];

/// The bot as which programs speak to agents.
pub(crate) fn bot_ref() -> BotRef {
    BotRef { platform: PLATFORM.into(), bot: BOT.into() }
}

/// The name of the conversation for a session or a sender.
pub(crate) fn name(of: &str) -> String {
    let mut plain: String = of.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    // The prefix is reserved for questions: an answer must not be taken from another conversation.
    if plain.starts_with(QUESTION) {
        plain.insert(0, '_');
    }
    if plain.len() <= LONGEST_NAME { plain } else { hashed(of, &plain) }
}

/// The name of the conversation of a question. Two questions never share one; two senders may.
pub(crate) fn question(correlation: &CorrelationId) -> String {
    let of = correlation.as_str();
    if of.chars().all(is_plain) && of.len() + QUESTION.len() <= LONGEST_NAME {
        return format!("{QUESTION}{of}");
    }
    format!("{QUESTION}{}", hashed(of, &name(of)))
}

/// The chat id of a conversation.
pub(crate) fn chat(name: &str) -> ChatId {
    format!("{PREFIX}{name}").into()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// `plain` cut to length, with a hash suffix that keeps it distinct from names with the same beginning.
fn hashed(of: &str, plain: &str) -> String {
    const HASH: usize = 16;
    let kept: String = plain.chars().take(LONGEST_NAME - QUESTION.len() - HASH - 1).collect();
    let hash = hex::encode(digest(&SHA256, of.as_bytes()));
    format!("{kept}-{}", &hash[..HASH])
}

#[async_trait]
impl Egress for Post {
    async fn descriptor(&self, of: &BotRef) -> Option<Descriptor> {
        (*of == bot_ref()).then(|| {
            let mut descriptor = Descriptor::new(PLATFORM, "Programs");
            descriptor.max_message_length = ADVERTISED_LENGTH;
            descriptor.markdown_dialect = "markdown".to_owned();
            descriptor.supported_ops = OPS.map(str::to_owned).to_vec();
            descriptor
        })
    }

    fn is_built_in(&self, identity: &BotRef) -> bool {
        identity.platform == PLATFORM
    }

    fn everyones(&self) -> Option<BotRef> {
        Some(bot_ref())
    }

    /// Repeats are harmless: only the first answer counts, and a repeated message is better than a lost one.
    fn may_repeat(&self, identity: &BotRef) -> bool {
        self.is_built_in(identity)
    }

    async fn carry(&self, order: Order) -> Carried {
        let posted = Some(self.0.timepiece.now());
        let outcome = match self.hear(&order).await {
            Ok(outcome) => outcome,
            Err(fault) => {
                tracing::error!(%fault, "could not store an agent's message to a program");
                Outcome::failed("network: the server could not store this message and did nothing")
            }
        };
        Carried { outcome, posted }
    }
}

/// A message of an agent in a conversation.
struct Words<'a> {
    by: &'a InstanceId,
    chat: &'a ChatId,
    /// Without the cursor of an unfinished text.
    text: &'a str,
    /// The agent is still writing it.
    unfinished: bool,
    metadata: &'a Metadata,
    message: MessageId,
}

impl<'a> Words<'a> {
    fn of(
        order: &'a Order,
        chat: &'a ChatId,
        text: &'a str,
        metadata: &'a Metadata,
        message: MessageId,
    ) -> Self {
        let begun = order.unfinished();
        let (text, unfinished) = (begun.unwrap_or(text), begun.is_some());
        Self { by: &order.instance, chat, text, unfinished, metadata, message }
    }

    /// Whether this may be the rest of an unfinished message. Stock agents mark the last message of a turn with
    /// `notify`, and the first message of a text that they stream with `expect_edits`.
    fn may_continue(&self) -> bool {
        !self.unfinished && self.metadata.notify == Some(true) && self.metadata.expect_edits != Some(true)
    }
}

impl Post {
    async fn hear(&self, order: &Order) -> Result<Outcome, Fault> {
        match &order.action {
            Action::Send { chat_id, content, reply_to, metadata } => {
                let message = MessageId::new(order.id.as_str());
                let words = Words::of(order, chat_id, content, metadata, message);
                match self.begun_before(&words, reply_to.as_ref()).await? {
                    Some((first, begun)) => self.finishes(words, first, &begun).await,
                    None => self.said(words, reply_to.as_ref()).await,
                }
            }
            // The agent streams its text by edits: the last edit counts.
            Action::Edit { chat_id, message_id, content, metadata } => {
                let words = Words::of(order, chat_id, content, metadata, message_id.clone());
                if self.is_begun_answer(&words).await? {
                    // The last edit is not marked as such. A stock agent whose edit is refused sends the rest as a
                    // message, and marks that as the answer.
                    return Ok(Outcome::failed("an answer to a program cannot be edited"));
                }
                self.says_anew(words).await
            }
            Action::Typing { chat_id, content, .. } => {
                if content.as_deref() != Some("") && asks(chat_id) {
                    self.0.writing.typed(&order.instance, chat_id, self.0.timepiece.instant());
                }
                Ok(Outcome::done())
            }
            Action::GetChatInfo { chat_id } => {
                let name = chat_id.as_str().strip_prefix(PREFIX).unwrap_or(chat_id.as_str());
                Ok(Outcome::info(ChatInfo { name: name.to_owned(), kind: "dm".to_owned() }))
            }
            other => Ok(Outcome::failed(format!("unsupported op: {}", other.op()))),
        }
    }

    async fn said(&self, words: Words<'_>, reply_to: Option<&MessageId>) -> Result<Outcome, Fault> {
        let Some((question, reply)) = self.heard(&words).await? else { return Ok(too_long()) };
        let kept = self.0.receipts.said(words.by, words.chat, named(reply_to).as_ref(), reply).await;
        self.told_of(question, kept.map(drop))?;
        Ok(Outcome::sent(words.message))
    }

    /// The unfinished message of this agent in this conversation, if `words` may be the rest of it.
    async fn begun_before(
        &self,
        words: &Words<'_>,
        reply_to: Option<&MessageId>,
    ) -> Result<Option<(MessageId, String)>, Fault> {
        if !words.may_continue() {
            return Ok(None);
        }
        Ok(self.0.receipts.unfinished(words.by, words.chat, named(reply_to).as_ref()).await?)
    }

    /// Joins the rest to the unfinished message. Both become one message under the id of the first.
    async fn finishes(&self, rest: Words<'_>, first: MessageId, begun: &str) -> Result<Outcome, Fault> {
        let (text, message) = (joined(begun, rest.text), rest.message.clone());
        let outcome = self.says_anew(Words { text: &text, message: first, ..rest }).await?;
        Ok(if outcome.success { Outcome::sent(message) } else { outcome })
    }

    /// Whether this edits an unfinished answer of a stock agent. An agent with our SDK names the question instead.
    async fn is_begun_answer(&self, words: &Words<'_>) -> Result<bool, Fault> {
        if words.metadata.correlation_id.is_some() || self.question_of(words).await?.is_none() {
            return Ok(false);
        }
        let begun = self.0.receipts.unfinished(words.by, words.chat, None).await?;
        Ok(begun.is_some_and(|(message, _)| message == words.message))
    }

    async fn says_anew(&self, words: Words<'_>) -> Result<Outcome, Fault> {
        let Some((question, reply)) = self.heard(&words).await? else { return Ok(too_long()) };
        let kept = self.amended(&words, question.is_some(), reply).await;
        let found = *kept.as_ref().unwrap_or(&true);
        self.told_of(question, kept.map(drop))?;
        Ok(match found {
            true => Outcome::sent(words.message),
            false => Outcome::failed("not_found: there is no such message in this conversation"),
        })
    }

    /// Stores an edit in place of the message. False if there is no such message: its receipt is unknown then, except
    /// for an answer, which has a conversation of its own.
    async fn amended(
        &self,
        words: &Words<'_>,
        answers: bool,
        reply: NewReply,
    ) -> Result<bool, ledger::Fault> {
        let receipts = &self.0.receipts;
        // An answer that already counts is not changed.
        let counts = matches!(reply.what, ReplyKind::Said | ReplyKind::Answer);
        if counts && receipts.amended(words.by, words.chat, reply.clone()).await? {
            return Ok(true);
        }
        if answers {
            receipts.said(words.by, words.chat, None, reply).await?;
        }
        Ok(answers)
    }

    /// Records the message as the answer if it is one, and returns the reply to store. `None` if it is too long.
    async fn heard(&self, words: &Words<'_>) -> Result<Option<(Option<Exchange>, NewReply)>, Fault> {
        if words.text.len() > LONGEST_TEXT {
            return Ok(None);
        }
        let now = self.0.timepiece.now();
        let question = self.question_of(words).await?;
        self.note_writing(words, question.as_ref());
        let question = question.filter(|exchange| !words.unfinished && answers(exchange, words.metadata));
        let what = match &question {
            Some(exchange) => self.answered(exchange, words.text, now.millis()).await?,
            None => ReplyKind::Said,
        };
        let (message, text) = (words.message.clone(), words.text.to_owned());
        Ok(Some((question, NewReply { at: now, what, message, text, unfinished: words.unfinished })))
    }

    /// Remembers an unfinished answer, to notice when the agent stops writing it.
    fn note_writing(&self, words: &Words<'_>, question: Option<&Exchange>) {
        let Some(question) = question else { return };
        if words.unfinished && question.state == ExchangeState::Open {
            let name = (question.tenant.clone(), question.correlation.clone());
            self.0.writing.showed(words.by, words.chat, name, self.0.timepiece.instant());
            self.0.asked.notify_one();
        } else if !words.unfinished && answers(question, words.metadata) {
            self.0.writing.forget(words.by, words.chat);
        }
    }

    /// Wakes the waiting callers. The receipt is written first, so that they find the answer there; they are woken even
    /// if that failed.
    fn told_of(&self, question: Option<Exchange>, kept: Result<(), ledger::Fault>) -> Result<(), Fault> {
        let Some(exchange) = question else { return Ok(kept?) };
        self.0.waiting.tell(&exchange.tenant, &exchange.correlation);
        if let Err(fault) = kept {
            // The answer itself is stored with the question.
            tracing::error!(%fault, "could not store an answer with its receipt");
        }
        Ok(())
    }

    /// The question of this chat, if it was put to this agent.
    async fn question_of(&self, words: &Words<'_>) -> Result<Option<Exchange>, Fault> {
        if !asks(words.chat) {
            return Ok(None);
        }
        Ok(self.0.exchanges.exchange_in(words.by, words.chat).await?)
    }
}

/// Whether this chat belongs to a question.
fn asks(chat: &ChatId) -> bool {
    chat.as_str().strip_prefix(PREFIX).is_some_and(|name| name.starts_with(QUESTION))
}

/// The entry that an agent replies to.
fn named(reply_to: Option<&MessageId>) -> Option<EntryId> {
    reply_to.map(|entry| EntryId::new(entry.as_str()))
}

fn too_long() -> Outcome {
    Outcome::failed(format!("too long: at most {LONGEST_TEXT} bytes"))
}

/// Whether a message is the answer. An agent with our SDK echoes the correlation id. A stock agent does not; of all
/// messages of a turn it marks only the answer with `notify`.
fn answers(exchange: &Exchange, metadata: &Metadata) -> bool {
    match &metadata.correlation_id {
        Some(echoed) => *echoed == exchange.correlation,
        None => metadata.notify == Some(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_named_after_its_session_or_sender() {
        assert_eq!(chat(&name("kitchen")), "post-kitchen");
        assert_eq!(name("night shift/2"), "night-shift-2");
        assert_eq!(name("x-q-1"), "_x-q-1");
        let long = name(&"x".repeat(200));
        assert!(long.len() <= LONGEST_NAME && long != name(&"x".repeat(201)));
    }

    #[test]
    fn two_questions_never_share_a_conversation() {
        assert_eq!(question(&"q-1".into()), "x-q-1");
        assert_ne!(question(&"a:b".into()), question(&"a-b".into()));
        let (one, other) = ("y".repeat(128), format!("{}z", "y".repeat(127)));
        assert_ne!(question(&one.as_str().into()), question(&other.as_str().into()));
        assert!(question(&one.as_str().into()).len() <= LONGEST_NAME);
    }
}
