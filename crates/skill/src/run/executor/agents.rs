//! Messages to agents: the `notify` operation, and what every message says about its origin.

use std::sync::Arc;

use super::{BoundVariable, Executor};
use crate::run::host::{AgentDelivery, DeliveredKind, DeliveryOrigin};
use crate::run::object::SkillObject;
use crate::run::run_error::RunError;
use crate::run::utf16::utf16_length;
use crate::run::value::SkillValue;
use crate::syntax::tree::{NotifyOp, TextTemplate};

/// Whether an address names a session. A session is woken; an agent gets a message.
pub(super) fn is_session(address: &str) -> bool {
    address.contains('@')
}

impl<'r> Executor<'r> {
    /// Hands a message to every connector that reaches the agent. A connector that fails is an entry in the result.
    pub(super) async fn notify(&mut self, op: &'r NotifyOp) -> Result<BoundVariable<'r>, RunError> {
        let agent = self.scope().text(&op.agent)?;
        let message = match &op.message {
            Some(message) => self.scope().text(message)?,
            None => self.joined_transcript(),
        };
        let substituted =
            |text: &Option<TextTemplate>| text.as_ref().map(|text| self.scope().text(text)).transpose();
        let (event_type, correlation_id) = (substituted(&op.event_type)?, substituted(&op.correlation_id)?);
        if self.context.is_mechanical {
            let length = utf16_length(&message);
            self.emit(Arc::new(format!(
                "Would notify agent '{agent}' ({length} chars; mechanical: true preview)."
            )))?;
            let preview: SkillObject =
                [("connector", SkillValue::from("[mechanical]")), ("ok", true.into())].into_iter().collect();
            return self.bind(&op.binding, acknowledgement(&agent, vec![preview]));
        }
        let mut meta = self.origin(self.tree.header.name.as_deref().unwrap_or("(anonymous)"));
        meta.event_type = event_type.or(meta.event_type);
        meta.correlation_id = correlation_id;
        let delivery = AgentDelivery { kind: DeliveredKind::Augment, text: message, meta };
        let mut dispatched = Vec::new();
        for connector in self.host.agent_connectors() {
            if op.connectors.as_ref().is_some_and(|wanted| !wanted.iter().any(|name| **name == *connector)) {
                continue;
            }
            if !self.host.reaches(&connector, &agent).await {
                continue;
            }
            let route = if is_session(&agent) { "wake" } else { "deliver" };
            let result = if is_session(&agent) {
                let context = Some(delivery.text.as_str()).filter(|text| !text.is_empty());
                self.host.wake(&connector, &agent, context, &delivery.meta).await
            } else {
                self.host.deliver(&connector, &agent, &delivery).await
            };
            let mut entry = SkillObject::default();
            entry.set("connector", &*connector);
            entry.set("ok", result.is_ok());
            entry.set("route", route);
            entry.set_some("error", result.err().map(|fault| fault.message));
            dispatched.push(entry);
        }
        self.bind(&op.binding, acknowledgement(&agent, dispatched))
    }

    /// The origin of a message, with a fresh id.
    pub(super) fn origin(&self, skill_name: &str) -> DeliveryOrigin {
        let entry = self.context.entry_skill.clone();
        DeliveryOrigin {
            dispatch_id: self.host.dispatch_id(),
            sent_at: self.host.unix_millis(),
            skill_name: skill_name.into(),
            entry_skill_name: entry.filter(|entry| **entry != *skill_name),
            trigger_kind: self.context.trigger_kind(),
            caller: self.context.caller.clone(),
            event_type: self.tree.header.event_type.clone().map(Arc::new),
            correlation_id: None,
        }
    }
}

fn acknowledgement(agent: &Arc<String>, dispatched: Vec<SkillObject>) -> SkillValue {
    let mut value = SkillObject::default();
    value.set("agent", Arc::clone(agent));
    value.set("dispatched", SkillValue::list(dispatched.into_iter().map(SkillValue::from)));
    value.into()
}
