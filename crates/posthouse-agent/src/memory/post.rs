//! What programs bring to an agent, as the house would bring it.

use posthouse_wire::delivery::{Kind, Meta, Origin, Posted, TriggerKind};
use posthouse_wire::{Action, CorrelationId, DispatchId, EntryId, Event, MessageId, Source};
use serde_json::Map;

use super::{Carried, MemoryConnector};
use crate::Declined;

impl Carried {
    /// The question that it answers, if it is an answer.
    pub fn answers(&self) -> Option<&CorrelationId> {
        match &self.action {
            Action::Send { metadata, .. } => metadata.correlation_id.as_ref(),
            _ => None,
        }
    }
}

impl MemoryConnector {
    /// Brings what the program `from` tells, to be absorbed ([`Kind::Augment`]) or carried out
    /// ([`Kind::Template`]). Returns when the agent took or declined it.
    pub async fn notify(&self, from: &str, kind: Kind, text: &str) -> Result<EntryId, Declined> {
        let entry = self.new_entry();
        let posted = Posted {
            kind,
            meta: Some(meta(&entry, from)),
            expects_reply: false,
            preamble: Some(preamble(kind, from)),
        };
        self.post(entry, from, &named(from), posted, text).await
    }

    /// Brings a question of the program `from`, in a conversation of its own. [`answer`](Self::answer)
    /// waits for what the agent says to it.
    pub async fn ask(&self, from: &str, text: &str) -> Result<CorrelationId, Declined> {
        let entry = self.new_entry();
        let question = CorrelationId::from(format!("question-of-{entry}"));
        let meta = Meta { correlation_id: Some(question.clone()), ..meta(&entry, from) };
        let posted = Posted {
            kind: Kind::Augment,
            meta: Some(meta),
            expects_reply: true,
            preamble: Some(preamble(Kind::Augment, from)),
        };
        self.post(entry, from, &format!("x-{question}"), posted, text).await?;
        Ok(question)
    }

    /// The agent's first answer to a question; waits for it. Talk beside it is not the answer.
    pub async fn answer(&self, question: &CorrelationId) -> String {
        self.eventually(|record| {
            let answer = record.carried.iter().find(|carried| carried.answers() == Some(question))?;
            answer.content().map(str::to_owned)
        })
        .await
    }

    async fn post(
        &self,
        entry: EntryId,
        from: &str,
        conversation: &str,
        posted: Posted,
        text: &str,
    ) -> Result<EntryId, Declined> {
        let source = Source {
            platform: "post".into(),
            chat_id: Some(format!("post-{conversation}").into()),
            chat_type: "dm".to_owned(),
            chat_name: Some(from.to_owned()),
            user_id: Some(format!("post:{from}").into()),
            user_name: Some(from.to_owned()),
            ..Source::default()
        };
        let event = Event {
            text: format!("{}{text}", posted.preamble.as_deref().unwrap_or_default()),
            source,
            message_id: Some(MessageId::new(entry.as_str())),
            bot_id: Some("post".into()),
            post: Some(Box::new(posted)),
            ..Event::default()
        };
        self.deliver_as(event, entry.clone()).await?;
        Ok(entry)
    }
}

/// The line by which an agent that cannot read the envelope tells context from instruction.
fn preamble(kind: Kind, from: &str) -> String {
    format!("[posthouse {} from {from}]\n\n", kind.word())
}

/// Sent at the beginning of time: this house has no clock.
fn meta(entry: &EntryId, from: &str) -> Meta {
    Meta {
        dispatch_id: DispatchId::from(format!("dispatch-of-{entry}")),
        sent_at: 0,
        origin: Origin {
            skill_name: from.to_owned(),
            entry_skill_name: None,
            trigger_kind: TriggerKind::Webhook,
            caller_agent_id: None,
            rest: Map::default(),
        },
        event_type: None,
        correlation_id: None,
        rest: Map::new(),
    }
}

/// A sender's conversation, in the letters that such a name may have.
fn named(from: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    from.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}
