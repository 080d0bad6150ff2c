//! Messages and questions of programs for the in-memory server.

use posthouse_wire::delivery::{Meta, PayloadKind, PayloadOrigin, Posted, TriggerKind};
use posthouse_wire::{Action, CorrelationId, DispatchId, EntryId, Event, MessageId, Source};
use serde_json::Map;

use super::{MemoryConnector, RequestedAction};
use crate::DeliveryDeclined;

impl RequestedAction {
    /// Id of the question that this action answers, if it is an answer.
    pub fn answers(&self) -> Option<&CorrelationId> {
        match &self.action {
            Action::Send { metadata, .. } => metadata.correlation_id.as_ref(),
            _ => None,
        }
    }
}

impl MemoryConnector {
    /// Delivers a message of the program `from`, to be absorbed ([`PayloadKind::Augment`]) or carried out
    /// ([`PayloadKind::Template`]). Returns when the agent has accepted or declined it.
    pub async fn notify(
        &self,
        from: &str,
        kind: PayloadKind,
        text: &str,
    ) -> Result<EntryId, DeliveryDeclined> {
        let entry = self.new_entry();
        let posted = Posted {
            kind,
            meta: Some(meta(&entry, from)),
            expects_reply: false,
            preamble: Some(preamble(kind, from)),
        };
        self.post(entry, from, &named(from), posted, text).await
    }

    /// Delivers a question of the program `from`, in a conversation of its own. [`answer`](Self::answer)
    /// waits for the agent's answer.
    pub async fn ask(&self, from: &str, text: &str) -> Result<CorrelationId, DeliveryDeclined> {
        let entry = self.new_entry();
        let question = CorrelationId::from(format!("question-of-{entry}"));
        let meta = Meta { correlation_id: Some(question.clone()), ..meta(&entry, from) };
        let posted = Posted {
            kind: PayloadKind::Augment,
            meta: Some(meta),
            expects_reply: true,
            preamble: Some(preamble(PayloadKind::Augment, from)),
        };
        self.post(entry, from, &format!("x-{question}"), posted, text).await?;
        Ok(question)
    }

    /// Waits for the agent's first answer to a question. Other messages of the agent do not count as the
    /// answer.
    pub async fn answer(&self, question: &CorrelationId) -> String {
        self.eventually(|record| {
            let answer = record.actions.iter().find(|action| action.answers() == Some(question))?;
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
    ) -> Result<EntryId, DeliveryDeclined> {
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

/// First line of the text. It lets an agent that cannot read the envelope tell context from instructions.
fn preamble(kind: PayloadKind, from: &str) -> String {
    format!("[posthouse {} from {from}]\n\n", kind.word())
}

/// Metadata with the Unix epoch as the time of sending: this server has no clock.
fn meta(entry: &EntryId, from: &str) -> Meta {
    Meta {
        dispatch_id: DispatchId::from(format!("dispatch-of-{entry}")),
        sent_at: 0,
        origin: PayloadOrigin {
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

/// Name of a sender's conversation, with only the characters that such a name may contain.
fn named(from: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    from.chars().map(|c| if plain(c) { c } else { '-' }).collect()
}
