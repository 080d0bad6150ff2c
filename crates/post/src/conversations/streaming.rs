//! Streamed texts of agents: unfinished messages, edits, and the rest that follows.
//!
//! A stock agent sends the first part of a text with a cursor at the end. If it cannot edit that message, it sends the
//! rest as another message.

use ledger::{Exchange, ExchangeState, NewReply, ReplyKind};
use posthouse_wire::{MessageId, Outcome};

use super::{AgentMessage, Conversations, named, too_long};
use crate::Fault;

impl Conversations {
    /// The unfinished message of this agent in this conversation, if `said` may be the rest of it.
    pub(super) async fn unfinished_before(
        &self,
        said: &AgentMessage<'_>,
        reply_to: Option<&MessageId>,
    ) -> Result<Option<(MessageId, String)>, Fault> {
        Ok(self.receipts.unfinished(said.by, said.chat, named(reply_to).as_ref()).await?)
    }

    /// Joins the rest to the unfinished message. Both become one message under the id of the first.
    pub(super) async fn finish(
        &self,
        rest: AgentMessage<'_>,
        first: MessageId,
        begun: &str,
    ) -> Result<Outcome, Fault> {
        let (text, message) = (joined(begun, rest.text), rest.message.clone());
        let outcome = self.replace(AgentMessage { text: &text, message: first, ..rest }).await?;
        Ok(if outcome.success { Outcome::sent(message) } else { outcome })
    }

    /// Whether this edits an unfinished answer of a stock agent. An agent with our SDK names the question instead.
    pub(super) async fn is_begun_answer(&self, said: &AgentMessage<'_>) -> Result<bool, Fault> {
        if said.metadata.correlation_id.is_some()
            || self.answers.question_in(said.by, said.chat).await?.is_none()
        {
            return Ok(false);
        }
        let begun = self.receipts.unfinished(said.by, said.chat, None).await?;
        Ok(begun.is_some_and(|(message, _)| message == said.message))
    }

    pub(super) async fn replace(&self, said: AgentMessage<'_>) -> Result<Outcome, Fault> {
        let Some((question, reply)) = self.classify(&said).await? else { return Ok(too_long()) };
        if question.is_some() {
            self.deadlines.answer_finished(said.by, said.chat);
        }
        let kept = self.amended(&said, question.is_some(), reply).await;
        let found = *kept.as_ref().unwrap_or(&true);
        self.notify_callers(question, kept.map(drop))?;
        Ok(match found {
            true => Outcome::sent(said.message),
            false => Outcome::failed("not_found: there is no such message in this conversation"),
        })
    }

    /// Stores an edit in place of the message. False if there is no such message: its receipt is unknown then, except
    /// for an answer, which has a conversation of its own.
    async fn amended(
        &self,
        said: &AgentMessage<'_>,
        answers: bool,
        reply: NewReply,
    ) -> Result<bool, ledger::Fault> {
        let receipts = &self.receipts;
        // An answer that already counts is not changed.
        let counts = matches!(reply.what, ReplyKind::Said | ReplyKind::Answer);
        if counts && receipts.amended(said.by, said.chat, reply.clone()).await? {
            return Ok(true);
        }
        if answers {
            receipts.said(said.by, said.chat, None, reply).await?;
        }
        Ok(answers)
    }

    /// Remembers an unfinished answer, to notice when the agent stops writing it. It answers no question yet.
    pub(super) async fn note_unfinished(&self, said: &AgentMessage<'_>) -> Result<Option<Exchange>, Fault> {
        let question = self.answers.question_in(said.by, said.chat).await?;
        if let Some(question) = question.filter(|question| question.state == ExchangeState::Open) {
            self.deadlines.answer_begun(said.by, said.chat, &question);
        }
        Ok(None)
    }
}

/// Joins the beginning of a text with its rest.
///
/// Stock agents trim the rest, so whether it began with a blank has to be guessed. Models emit a word together with
/// the blank before it far more often than they split a word.
fn joined(begun: &str, rest: &str) -> String {
    // The agent gave up its first message and repeats the whole text.
    if rest.starts_with(begun) {
        return rest.to_owned();
    }
    let blank = match (begun.chars().next_back(), rest.chars().next()) {
        (Some(last), Some(first)) if needs_blank(last, first) => " ",
        _ => "",
    };
    format!("{begun}{blank}{rest}")
}

fn needs_blank(last: char, first: char) -> bool {
    // Scripts that do not separate words by blanks have no letter case either.
    let is_word = |c: char| c.is_lowercase() || c.is_uppercase();
    if last.is_ascii_digit() && first.is_ascii_digit() {
        return false;
    }
    let begins_word = is_word(first) || first.is_ascii_digit() || "([{\"'*_`#".contains(first);
    let ends_word = is_word(last) || last.is_ascii_digit() || ".,;:!?)]}\"'*_`".contains(last);
    begins_word && ends_word
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn the_rest_follows_its_beginning_with_the_blank_that_was_cut_off() {
        assert_eq!(joined("word0 word1", "word2 word3"), "word0 word1 word2 word3");
        assert_eq!(joined("word0 word1 ", "word2"), "word0 word1 word2");
        assert_eq!(joined("It is so.", "And"), "It is so. And");
        assert_eq!(joined("costs 12", "345"), "costs 12345");
        assert_eq!(joined("done", ", really"), "done, really");
        assert_eq!(joined("line one\n", "line two"), "line one\nline two");
        assert_eq!(joined("今日は", "晴れ"), "今日は晴れ");
    }

    #[test]
    fn a_text_that_is_said_all_over_again_is_taken_as_it_is() {
        assert_eq!(joined("word0 word1", "word0 word1 word2"), "word0 word1 word2");
    }
}
