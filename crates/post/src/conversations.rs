//! Conversations with programs (platform `post`): what agents say to programs, and which of it answers a question.

pub(crate) mod names;
mod streaming;

use std::sync::Arc;

use async_trait::async_trait;
use ledger::{BotRef, Exchange, NewReply, Receipts, ReplyKind};
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, ChatInfo, Descriptor, EntryId, InstanceId, MessageId, Outcome};
use relay::{Egress, EgressResult, PermittedAction};

use self::names::{PLATFORM, bot_ref, is_question};
use crate::Fault;
use crate::answers::Answers;
use crate::deadlines::Deadlines;

/// The longest text of one message, in bytes.
pub(crate) const LONGEST_TEXT: usize = 256 * 1024;
/// The message length advertised to agents, in characters.
const ADVERTISED_LENGTH: u32 = 32_000;

/// The advertised operations. `edit` is accepted too, but not advertised.
const OPS: [&str; 3] = ["send", "typing", "get_chat_info"];

/// Takes what agents on the relay say in conversations with programs.
pub struct Conversations {
    receipts: Arc<dyn Receipts>,
    answers: Arc<Answers>,
    deadlines: Arc<Deadlines>,
    timepiece: Timepiece,
}

#[async_trait]
impl Egress for Conversations {
    async fn descriptor(&self, of: &BotRef) -> Option<Descriptor> {
        (*of == bot_ref()).then(|| {
            let mut descriptor = Descriptor::new(PLATFORM, "Programs");
            descriptor.max_message_length = ADVERTISED_LENGTH;
            descriptor.markdown_dialect = "markdown".to_owned();
            descriptor.supported_ops = OPS.map(str::to_owned).to_vec();
            descriptor
        })
    }

    fn is_built_in(&self, bot: &BotRef) -> bool {
        bot.platform == PLATFORM
    }

    fn everyones(&self) -> Option<BotRef> {
        Some(bot_ref())
    }

    /// Repeats are harmless: only the first answer counts, and a repeated message is better than a lost one.
    fn may_repeat(&self, bot: &BotRef) -> bool {
        self.is_built_in(bot)
    }

    async fn perform(&self, permitted: PermittedAction) -> EgressResult {
        let posted = Some(self.timepiece.now());
        let outcome = match self.act_on(&permitted).await {
            Ok(outcome) => outcome,
            Err(fault) => {
                tracing::error!(%fault, "could not store an agent's message to a program");
                Outcome::failed("network: the server could not store this message and did nothing")
            }
        };
        EgressResult { outcome, posted, called: None }
    }
}

/// A message of an agent in a conversation.
struct AgentMessage<'a> {
    by: &'a InstanceId,
    chat: &'a ChatId,
    /// Without the cursor of an unfinished text.
    text: &'a str,
    /// The agent is still writing it.
    unfinished: bool,
    metadata: &'a Metadata,
    message: MessageId,
}

impl<'a> AgentMessage<'a> {
    fn of(
        permitted: &'a PermittedAction,
        chat: &'a ChatId,
        text: &'a str,
        metadata: &'a Metadata,
        message: MessageId,
    ) -> Self {
        let begun = permitted.unfinished();
        let (text, unfinished) = (begun.unwrap_or(text), begun.is_some());
        Self { by: &permitted.instance, chat, text, unfinished, metadata, message }
    }

    /// Whether this may be the rest of an unfinished message. Stock agents mark the last message of a turn with
    /// `notify`, and the first message of a text that they stream with `expect_edits`.
    fn may_continue(&self) -> bool {
        !self.unfinished && self.metadata.notify == Some(true) && self.metadata.expect_edits != Some(true)
    }
}

impl Conversations {
    pub(crate) fn new(
        receipts: Arc<dyn Receipts>,
        answers: Arc<Answers>,
        deadlines: Arc<Deadlines>,
        timepiece: Timepiece,
    ) -> Self {
        Self { receipts, answers, deadlines, timepiece }
    }

    async fn act_on(&self, permitted: &PermittedAction) -> Result<Outcome, Fault> {
        match &permitted.action {
            Action::Send { chat_id, content, reply_to, metadata } => {
                let message = MessageId::new(permitted.id.as_str());
                let said = AgentMessage::of(permitted, chat_id, content, metadata, message);
                if said.may_continue()
                    && let Some((first, begun)) = self.unfinished_before(&said, reply_to.as_ref()).await?
                {
                    return self.finish(said, first, &begun).await;
                }
                self.store(said, reply_to.as_ref()).await
            }
            // The agent streams its text by edits: the last edit counts.
            Action::Edit { chat_id, message_id, content, metadata } => {
                let said = AgentMessage::of(permitted, chat_id, content, metadata, message_id.clone());
                if self.is_begun_answer(&said).await? {
                    // The last edit is not marked as such. A stock agent whose edit is refused sends the rest as a
                    // message, and marks that as the answer.
                    return Ok(Outcome::failed("an answer to a program cannot be edited"));
                }
                self.replace(said).await
            }
            Action::Typing { chat_id, content, .. } => {
                if content.as_deref() != Some("") && is_question(chat_id) {
                    self.deadlines.agent_types(&permitted.instance, chat_id);
                }
                Ok(Outcome::done())
            }
            Action::GetChatInfo { chat_id } => {
                let name = names::shown(chat_id).to_owned();
                Ok(Outcome::info(ChatInfo { name, kind: "dm".to_owned() }))
            }
            other => Ok(Outcome::unsupported(other.op())),
        }
    }

    async fn store(&self, said: AgentMessage<'_>, reply_to: Option<&MessageId>) -> Result<Outcome, Fault> {
        let Some((question, reply)) = self.classify(&said).await? else { return Ok(too_long()) };
        let kept = self.receipts.said(said.by, said.chat, named(reply_to).as_ref(), reply).await;
        self.notify_callers(question, kept.map(drop))?;
        Ok(Outcome::sent(said.message))
    }

    /// Records the message as the answer if it is one, and returns the reply to store. `None` if it is too long.
    async fn classify(&self, said: &AgentMessage<'_>) -> Result<Option<(Option<Exchange>, NewReply)>, Fault> {
        if said.text.len() > LONGEST_TEXT {
            return Ok(None);
        }
        let now = self.timepiece.now();
        let (question, what) = match said.unfinished {
            true => (self.note_unfinished(said).await?, ReplyKind::Said),
            false => self.answers.offer(said.by, said.chat, said.text, said.metadata).await?,
        };
        let (message, text) = (said.message.clone(), said.text.to_owned());
        Ok(Some((question, NewReply { at: now, what, message, text, unfinished: said.unfinished })))
    }

    /// Wakes the waiting callers. The receipt is written first, so that they find the answer there; they are woken even
    /// if that failed.
    fn notify_callers(
        &self,
        question: Option<Exchange>,
        kept: Result<(), ledger::Fault>,
    ) -> Result<(), Fault> {
        let Some(exchange) = question else { return Ok(kept?) };
        self.answers.notify(&exchange);
        if let Err(fault) = kept {
            // The answer itself is stored with the question.
            tracing::error!(%fault, "could not store an answer with its receipt");
        }
        Ok(())
    }
}

/// The entry that an agent replies to.
fn named(reply_to: Option<&MessageId>) -> Option<EntryId> {
    reply_to.map(|entry| EntryId::new(entry.as_str()))
}

fn too_long() -> Outcome {
    Outcome::failed(format!("too long: at most {LONGEST_TEXT} bytes"))
}

#[cfg(test)]
mod tests {
    use ledger::ExchangeState;
    use posthouse_wire::ActionId;

    use super::*;
    use crate::requests::AskCommand;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn what_the_agent_marks_as_its_answer_answers_the_question_of_that_conversation() {
        let fixture = Fixture::open().await;
        let (conversations, by) = (fixture.conversations(), fixture.operator());
        let heron = fixture.enrol("heron").await;
        let request = AskCommand {
            agent: "heron".to_owned(),
            message: "how many?".to_owned(),
            timeout: None,
            correlation_id: "q-1".into(),
            event_type: None,
            connectors: None,
            from: None,
            trigger_kind: None,
            origin: None,
            dispatch_id: None,
        };
        let asked = fixture.questions().ask(&by, request).await.unwrap();
        let says = async |id: &str, text: &str, notify| {
            let metadata = Metadata { notify, ..Metadata::default() };
            let (chat_id, content) = (names::question_chat(&asked), text.to_owned());
            let permitted = PermittedAction {
                may_redeem: false,
                id: ActionId::new(id),
                tenant: by.tenant.clone(),
                instance: heron.clone(),
                on: bot_ref(),
                action: Action::Send { chat_id, content, reply_to: None, metadata },
                ends_turn: false,
                stream_cursor: String::new(),
                deadline: fixture.time.instant(),
            };
            assert!(conversations.perform(permitted).await.outcome.success);
            fixture.ledger.exchanges().exchange(&by.tenant, &asked).await.unwrap().unwrap()
        };
        assert_eq!(says("act_1", "let me see", None).await.state, ExchangeState::Open);
        let answered = says("act_2", "42", Some(true)).await;
        assert_eq!((answered.state, answered.answer.unwrap().0.as_str()), (ExchangeState::Answered, "42"));
    }
}
