//! Names and chat ids of conversations between programs and agents, on platform `post`.

use aws_lc_rs::digest::{SHA256, digest};
use ledger::BotRef;
use posthouse_wire::{ChatId, CorrelationId};

use crate::Refused;
use crate::dispatch::{Dispatch, DispatchItem};

/// The platform name of conversations with programs.
pub const PLATFORM: &str = "post";
/// Its only bot, shared by all agents.
pub(crate) const BOT: &str = "post";
const PREFIX: &str = "post-";
/// Name prefix of conversations that consist of one question.
const QUESTION: &str = "x-";
/// The longest conversation name.
const LONGEST_NAME: usize = 80;

/// The bot as which programs speak to agents.
pub(crate) fn bot_ref() -> BotRef {
    BotRef { platform: PLATFORM.into(), bot: BOT.into() }
}

/// The name and chat of the conversation in which an agent gets an item: that of the question, of the session that a
/// wake is for, or of the sender.
pub(crate) fn conversation_of(dispatch: &Dispatch, item: &DispatchItem) -> Result<(String, ChatId), Refused> {
    let name = match item {
        DispatchItem::Deliver { .. } => name(&dispatch.from),
        DispatchItem::Ask { payload } => match &payload.meta.correlation_id {
            Some(correlation) => question(correlation),
            None => return Err(Refused::malformed("correlation_id", "is missing")),
        },
        DispatchItem::Wake { opts, .. } => name(opts.session_id.as_deref().unwrap_or(&dispatch.from)),
    };
    let chat = chat(&name);
    Ok((name, chat))
}

/// The chat of a question.
pub(crate) fn question_chat(correlation: &CorrelationId) -> ChatId {
    chat(&question(correlation))
}

/// The name of the conversation for a session or a sender.
fn name(of: &str) -> String {
    let mut plain: String = of.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    // The prefix is reserved for questions: an answer must not be taken from another conversation.
    if plain.starts_with(QUESTION) {
        plain.insert(0, '_');
    }
    if plain.len() <= LONGEST_NAME { plain } else { hashed(of, &plain) }
}

/// The name of the conversation of a question. Two questions never share one; two senders may.
fn question(correlation: &CorrelationId) -> String {
    let of = correlation.as_str();
    if of.chars().all(is_plain) && of.len() + QUESTION.len() <= LONGEST_NAME {
        return format!("{QUESTION}{of}");
    }
    format!("{QUESTION}{}", hashed(of, &name(of)))
}

/// The chat id of a conversation.
fn chat(name: &str) -> ChatId {
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

/// Whether this chat belongs to a question.
pub(crate) fn is_question(chat: &ChatId) -> bool {
    chat.as_str().strip_prefix(PREFIX).is_some_and(|name| name.starts_with(QUESTION))
}

/// The name of the conversation with this chat id.
pub(crate) fn shown(chat: &ChatId) -> &str {
    chat.as_str().strip_prefix(PREFIX).unwrap_or(chat.as_str())
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
