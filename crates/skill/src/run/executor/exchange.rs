//! The `exchange` operation: asks an agent and waits for its answer.

use std::sync::Arc;

use super::agents::is_session;
use super::time_limits::AllowedTime;
use super::{BoundVariable, Executor};
use crate::run::host::{AgentDelivery, DeliveredKind, ExchangeAnswer, millis};
use crate::run::json_text;
use crate::run::limits::too_large;
use crate::run::object::SkillObject;
use crate::run::run_error::{CutOperation, ErrorClass, RunError};
use crate::run::utf16::utf16_length;
use crate::run::value::SkillValue;
use crate::syntax::tree::{ExchangeOp, TextTemplate};

impl<'r> Executor<'r> {
    pub(super) async fn exchange(&mut self, op: &'r ExchangeOp) -> Result<BoundVariable<'r>, RunError> {
        let agent = self.scope().text(&op.agent)?;
        if is_session(&agent) {
            let message = format!("'{agent}' names a session, and only an agent can be asked");
            return Err(
                RunError::new(ErrorClass::ExchangeAddress, message).with_remedy("Name the agent without `@`")
            );
        }
        let text = match &op.message {
            Some(message) => self.scope().text(message)?,
            None => self.joined_transcript(),
        };
        let substituted =
            |text: &Option<TextTemplate>| text.as_ref().map(|text| self.scope().text(text)).transpose();
        let (event_type, correlation) = (substituted(&op.event_type)?, substituted(&op.correlation_id)?);
        let timeout = substituted(&op.timeout)?.map(SkillValue::Text);
        if self.context.is_mechanical {
            let length = utf16_length(&text);
            let preview =
                format!("Would exchange with agent '{agent}' ({length} chars; mechanical: true preview).");
            self.emit(Arc::new(preview))?;
            let name = op.binding.variable.as_deref().unwrap_or(&self.target_output);
            let placeholder = SkillValue::Placeholder(name.into());
            return self.bind(&op.binding, placeholder);
        }
        let allowed = self.allowed_time(timeout.as_ref())?;
        let mut meta = self.origin(self.tree.header.name.as_deref().unwrap_or("(anonymous)"));
        meta.event_type = event_type.or(meta.event_type);
        let correlation = correlation.unwrap_or_else(|| Arc::new(self.host.dispatch_id()));
        meta.correlation_id = Some(Arc::clone(&correlation));
        let question = AgentDelivery { kind: DeliveredKind::Augment, text, meta };
        match self.ask(op, &agent, &question, &allowed).await {
            Ok(answer) => self.bind(&op.binding, answer_value(correlation, answer)),
            Err(mut error) if error.ends_run() => {
                let cut =
                    CutOperation { op_kind: "exchange", label: "exchange".to_owned(), is_uncertain: true };
                error.cut.get_or_insert_with(|| Box::new(cut));
                Err(error)
            }
            Err(error) => match op.binding.fallback.as_deref() {
                Some(value) => {
                    let reason = format!("exchange failed: {}", error.message);
                    self.bind_fallback(&op.binding, "exchange", value.into(), reason)
                }
                None => Err(error),
            },
        }
    }

    /// Asks through the first connector that reaches the agent and can return an answer. Only one connector is asked.
    async fn ask(
        &self,
        op: &ExchangeOp,
        agent: &str,
        question: &AgentDelivery,
        allowed: &AllowedTime,
    ) -> Result<ExchangeAnswer, RunError> {
        let mut is_listed = false;
        for connector in self.host.agent_connectors() {
            let is_wanted =
                op.connectors.as_ref().is_none_or(|names| names.iter().any(|name| **name == *connector));
            if !is_wanted || !self.host.reaches(&connector, agent).await {
                continue;
            }
            is_listed = true;
            if !self.host.can_exchange(&connector) {
                continue;
            }
            let call = self.host.exchange(&connector, agent, question, allowed.timeout);
            let answer =
                self.within(allowed, "exchange", None, call).await.map_err(|error| match error.class {
                    ErrorClass::OpTimeout => {
                        RunError { class: ErrorClass::Other("TimeoutError".into()), ..error }
                    }
                    _ => error,
                })??;
            let limit = self.limits().tool_answer;
            return if answer.content.len() > limit {
                Err(too_large("the answer of the agent", limit))
            } else {
                Ok(answer)
            };
        }
        Err(if is_listed {
            let message = format!("no connector can bring an answer of agent '{agent}'");
            RunError::new(ErrorClass::Other("NotImplementedError".into()), message)
        } else {
            RunError::new(
                ErrorClass::Other("DeliveryFailedError".into()),
                format!("no connector reaches agent '{agent}'"),
            )
        })
    }
}

/// The value of an answer. If its text is a JSON list or object, the parsed value is included.
fn answer_value(correlation: Arc<String>, answer: ExchangeAnswer) -> SkillValue {
    let data = json_text::parse(&answer.content).ok();
    let data = data.filter(|data| matches!(data, SkillValue::List(_) | SkillValue::Object(_)));
    let mut value = SkillObject::default();
    value.set("correlation_id", correlation);
    value.set("content", answer.content);
    value.set("sent_at", millis(answer.sent_at));
    value.set("agent_id", answer.agent_id);
    value.set_some("data", data);
    value.into()
}
