//! What an agent says back: platform `post`, whose chats are conversations with programs and on nobody's
//! screen.

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use ledger::{Exchange, Identity, NewReply, ReplyKind};
use posthouse_wire::action::Metadata;
use posthouse_wire::{
    Action, ChatId, ChatInfo, CorrelationId, Descriptor, EntryId, InstanceId, MessageId, Outcome,
};
use relay::{Carried, Egress, Order};

use crate::{Fault, Post};

/// The platform that programs speak on.
pub const PLATFORM: &str = "post";
/// Its one bot, which every agent has.
pub(crate) const BOT: &str = "post";
const PREFIX: &str = "post-";
/// Conversations that are one question each.
const QUESTION: &str = "x-";
/// The longest conversation name.
const LONGEST_NAME: usize = 80;
/// The longest thing an agent may say at once.
pub(crate) const LONGEST_TEXT: usize = 256 * 1024;
/// What agents are told to keep their messages to.
const ADVERTISED_LENGTH: u32 = 32_000;

/// What can be done in a conversation with a program. An edit is understood as well, and never asked for.
const OPS: [&str; 3] = ["send", "typing", "get_chat_info"];

/// The identity under which programs speak.
pub(crate) fn identity() -> Identity {
    Identity { platform: PLATFORM.into(), bot: BOT.into() }
}

/// The name of a conversation: of a session, or of a sender.
pub(crate) fn name(of: &str) -> String {
    let mut plain: String = of.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    // Nobody but a question goes by such a name, or its answer could be taken from somebody else's talk.
    if plain.starts_with(QUESTION) {
        plain.insert(0, '_');
    }
    if plain.len() <= LONGEST_NAME { plain } else { hashed(of, &plain) }
}

/// The name of the conversation that one question is. Unlike senders, two questions never share one.
pub(crate) fn question(correlation: &CorrelationId) -> String {
    let of = correlation.as_str();
    if of.chars().all(is_plain) && of.len() + QUESTION.len() <= LONGEST_NAME {
        return format!("{QUESTION}{of}");
    }
    format!("{QUESTION}{}", hashed(of, &name(of)))
}

/// The chat that carries a conversation.
pub(crate) fn chat(name: &str) -> ChatId {
    format!("{PREFIX}{name}").into()
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Cut, with enough of a hash to tell it from others that begin alike.
fn hashed(of: &str, plain: &str) -> String {
    const HASH: usize = 16;
    let kept: String = plain.chars().take(LONGEST_NAME - QUESTION.len() - HASH - 1).collect();
    let hash = hex::encode(digest(&SHA256, of.as_bytes()));
    format!("{kept}-{}", &hash[..HASH])
}

#[async_trait]
impl Egress for Post {
    async fn descriptor(&self, of: &Identity) -> Option<Descriptor> {
        (*of == identity()).then(|| {
            let mut descriptor = Descriptor::new(PLATFORM, "Programs");
            descriptor.max_message_length = ADVERTISED_LENGTH;
            descriptor.markdown_dialect = "markdown".to_owned();
            descriptor.supported_ops = OPS.map(str::to_owned).to_vec();
            descriptor
        })
    }

    fn is_built_in(&self, identity: &Identity) -> bool {
        identity.platform == PLATFORM
    }

    fn everyones(&self) -> Option<Identity> {
        Some(identity())
    }

    /// The first answer wins whoever repeats it, and talk that stands there twice is better than none.
    fn may_repeat(&self, identity: &Identity) -> bool {
        self.is_built_in(identity)
    }

    async fn carry(&self, order: Order) -> Carried {
        let posted = Some(self.0.timepiece.now());
        let outcome = match self.hear(&order).await {
            Ok(outcome) => outcome,
            Err(fault) => {
                tracing::error!(%fault, "could not keep what an agent said to a program");
                Outcome::failed("network: the house could not keep this and did nothing")
            }
        };
        Carried { outcome, posted }
    }
}

/// Something that an agent says in a conversation.
struct Words<'a> {
    by: &'a InstanceId,
    chat: &'a ChatId,
    text: &'a str,
    metadata: &'a Metadata,
    message: MessageId,
}

impl Post {
    async fn hear(&self, order: &Order) -> Result<Outcome, Fault> {
        match &order.action {
            Action::Send { chat_id, content, reply_to, metadata } => {
                let message = MessageId::new(order.id.as_str());
                let words = Words { by: &order.instance, chat: chat_id, text: content, metadata, message };
                self.said(words, reply_to.as_ref()).await
            }
            // An agent that writes its answer by and by: what it says last is what it says.
            Action::Edit { chat_id, message_id, content, metadata } => {
                let message = message_id.clone();
                let words = Words { by: &order.instance, chat: chat_id, text: content, metadata, message };
                self.says_anew(words).await
            }
            Action::Typing { .. } => Ok(Outcome::done()),
            Action::GetChatInfo { chat_id } => {
                let name = chat_id.as_str().strip_prefix(PREFIX).unwrap_or(chat_id.as_str());
                Ok(Outcome::info(ChatInfo { name: name.to_owned(), kind: "dm".to_owned() }))
            }
            other => Ok(Outcome::failed(format!("unsupported op: {}", other.op()))),
        }
    }

    async fn said(&self, words: Words<'_>, reply_to: Option<&MessageId>) -> Result<Outcome, Fault> {
        let Some((question, reply)) = self.heard(&words).await? else { return Ok(too_long()) };
        let to = reply_to.map(|entry| EntryId::new(entry.as_str()));
        let kept = self.0.receipts.said(words.by, words.chat, to.as_ref(), reply).await;
        self.told_of(question, kept.map(drop))?;
        Ok(Outcome::sent(words.message))
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

    /// Keeps an edit in the place of what it edits. False when there is no such message: whose receipt it
    /// would belong to is not known then, but for an answer, which has a conversation of its own.
    async fn amended(
        &self,
        words: &Words<'_>,
        answers: bool,
        reply: NewReply,
    ) -> Result<bool, ledger::Fault> {
        let receipts = &self.0.receipts;
        // The answer that counts stays as it was given.
        let counts = matches!(reply.what, ReplyKind::Said | ReplyKind::Answer);
        if counts && receipts.amended(words.by, words.chat, reply.clone()).await? {
            return Ok(true);
        }
        if answers {
            receipts.said(words.by, words.chat, None, reply).await?;
        }
        Ok(answers)
    }

    /// Takes what was said for the answer if it is one, and makes a reply of it. Nothing when it is too long.
    async fn heard(&self, words: &Words<'_>) -> Result<Option<(Option<Exchange>, NewReply)>, Fault> {
        if words.text.len() > LONGEST_TEXT {
            return Ok(None);
        }
        let now = self.0.timepiece.now();
        let question = self.question_of(words).await?;
        let question = question.filter(|exchange| answers(exchange, words.metadata));
        let what = match &question {
            Some(exchange) => self.answered(exchange, words.text, now.millis()).await?,
            None => ReplyKind::Said,
        };
        let (message, text) = (words.message.clone(), words.text.to_owned());
        Ok(Some((question, NewReply { at: now, what, message, text })))
    }

    /// Tells whoever waits, after the receipt has it, so that they find it there; but they are told in any case.
    fn told_of(&self, question: Option<Exchange>, kept: Result<(), ledger::Fault>) -> Result<(), Fault> {
        let Some(exchange) = question else { return Ok(kept?) };
        self.0.waiting.tell(&exchange.tenant, &exchange.correlation);
        if let Err(fault) = kept {
            // The answer itself is on record.
            tracing::error!(%fault, "could not keep an answer with its receipt");
        }
        Ok(())
    }

    /// The question that is put in this chat, if any; only to the agent that it was put to.
    async fn question_of(&self, words: &Words<'_>) -> Result<Option<Exchange>, Fault> {
        let asks = words.chat.as_str().strip_prefix(PREFIX).is_some_and(|name| name.starts_with(QUESTION));
        if !asks {
            return Ok(None);
        }
        Ok(self.0.exchanges.exchange_in(words.by, words.chat).await?)
    }
}

fn too_long() -> Outcome {
    Outcome::failed(format!("too long: at most {LONGEST_TEXT} bytes"))
}

/// Whether what was said is the answer. An agent of our SDK echoes the question's id; a stock one echoes
/// nothing, and of all it says in a turn only the answer itself is marked to be notified about.
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
