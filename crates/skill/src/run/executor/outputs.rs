//! Outputs at the end of a run: the values of the declared outputs, and their delivery to agents.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use indexmap::IndexMap;

use super::Executor;
use super::agents::is_session;
use crate::run::host::{AgentDelivery, DeliveredKind, millis};
use crate::run::object::SkillObject;
use crate::run::outcome::{SkillOutcome, UncertainEffect, UndeliveredOutput};
use crate::run::run_error::{ErrorRecord, RunError};
use crate::run::value::SkillValue;
use crate::syntax::tree::TextTemplate;
use crate::syntax::{OutputKind, SkillOutput};

const WAKE_NOTE: &str = "lifecycle-hook routed to wake-class because agent_id contains '@session'";
const NO_CONNECTOR: &str = "no connector for outputs is configured, so nothing was sent";

impl Executor<'_> {
    /// Renders the template, fills the outputs and delivers them.
    pub(super) async fn finish(
        mut self,
        errors: Vec<ErrorRecord>,
        deadline_exceeded: bool,
        uncertain_effects: Vec<UncertainEffect>,
    ) -> Result<SkillOutcome, RunError> {
        let text_output = [SkillOutput { kind: OutputKind::Text, target: None }];
        let declared = &self.tree.header.outputs;
        let declared: &[SkillOutput] = if declared.is_empty() { &text_output } else { declared };
        let template = self.tree.template.as_ref().map(|template| self.scope().text(template)).transpose()?;
        // All outputs share one text.
        let transcript = LazyCell::new(|| self.joined_transcript());
        let mut outputs: IndexMap<String, Option<SkillValue>> = IndexMap::new();
        for output in declared {
            let value = self.output_value(output.kind, template.as_ref(), &transcript);
            outputs.insert(output_key(output), value);
        }
        let outputs: Vec<_> = outputs.into_iter().collect();
        let mut outcome = SkillOutcome {
            variables: Default::default(),
            transcript: Vec::new(),
            outputs,
            errors,
            fallbacks: std::mem::take(&mut self.fallbacks),
            target_order: self.skill.target_names().map(Arc::from).collect(),
            delivery_receipts: Vec::new(),
            wake_receipts: Vec::new(),
            failed_deliveries: Vec::new(),
            deadline_exceeded,
            uncertain_effects,
            trace: std::mem::take(&mut self.trace.ops),
            child_traces: Vec::new(),
            untraced: self.trace.untraced,
            memory: Arc::new(std::mem::take(&mut self.memory)),
        };
        if !self.context.is_mechanical && self.context.allows_effects() && !deadline_exceeded {
            self.deliver_outputs(declared, &mut outcome).await?;
        }
        outcome.variables = self.variables;
        outcome.transcript = self.transcript;
        Ok(outcome)
    }

    fn output_value(
        &self,
        kind: OutputKind,
        template: Option<&Arc<String>>,
        transcript: &impl Deref<Target = Arc<String>>,
    ) -> Option<SkillValue> {
        if let Some(text) = template {
            return Some(SkillValue::Text(Arc::clone(text)));
        }
        let is_for_agent = matches!(kind, OutputKind::Agent | OutputKind::Template);
        if is_for_agent || !self.transcript.is_empty() {
            return Some(SkillValue::Text(Arc::clone(transcript)));
        }
        match self.last_bound.as_ref().filter(|bound| self.variables.has(bound.name())) {
            Some(bound) => self.variables.get(bound.name()).cloned(),
            None => Some(SkillValue::list([])),
        }
    }

    async fn deliver_outputs(
        &self,
        declared: &[SkillOutput],
        outcome: &mut SkillOutcome,
    ) -> Result<(), RunError> {
        let texts = outcome.outputs.iter().filter_map(|(key, value)| Some((key.clone(), value.as_ref()?)));
        let texts: HashMap<String, Arc<String>> =
            texts.map(|(key, value)| (key, value.rendered_text())).collect();
        for output in declared {
            let (kind, output_kind) = match output.kind {
                OutputKind::Agent => (DeliveredKind::Augment, "agent"),
                OutputKind::Template => (DeliveredKind::Template, "template"),
                _ => continue,
            };
            let Some(target) = &output.target else { continue };
            let text = texts.get(&output_key(output)).cloned().unwrap_or_default();
            let agent_id = self.scope().text(&TextTemplate::parse(target.as_str()))?;
            let is_wake = is_session(&agent_id);
            let result = if is_wake {
                self.wake_for_output(output_kind, &agent_id, &text).await
            } else {
                self.deliver_output(kind, output_kind, &agent_id, text).await
            };
            match result {
                Ok(record) if is_wake => outcome.wake_receipts.push(record),
                Ok(record) => outcome.delivery_receipts.push(record),
                Err(error) => outcome.failed_deliveries.push(UndeliveredOutput {
                    output_kind,
                    agent_id,
                    is_wake,
                    error,
                }),
            }
        }
        Ok(())
    }

    async fn deliver_output(
        &self,
        kind: DeliveredKind,
        output_kind: &str,
        agent: &Arc<String>,
        text: Arc<String>,
    ) -> Result<SkillValue, String> {
        let meta = self.origin(self.tree.header.name.as_deref().unwrap_or("(unnamed)"));
        let connector = self.host.output_connector();
        let receipt = match &connector {
            Some(connector) => {
                let delivery = AgentDelivery { kind, text, meta };
                self.host.deliver(connector, agent, &delivery).await.map_err(|fault| fault.message)?
            }
            None => [("delivered_at", millis(self.host.unix_millis()))].into_iter().collect(),
        };
        let was_skipped = matches!(receipt.get("delivery_skipped"), Some(SkillValue::Bool(true)));
        let mut record = SkillObject::default();
        record.set("agent_id", Arc::clone(agent));
        record.set("output_kind", output_kind);
        record.set("receipt", receipt);
        record.set_some("delivery_skipped", (connector.is_none() || was_skipped).then_some(true));
        record.set_some("reason", connector.is_none().then_some(NO_CONNECTOR));
        Ok(record.into())
    }

    async fn wake_for_output(
        &self,
        source_kind: &str,
        agent: &Arc<String>,
        text: &str,
    ) -> Result<SkillValue, String> {
        let connector = self.host.output_connector();
        let mut receipt = match &connector {
            Some(connector) => {
                let context = Some(text).filter(|text| !text.is_empty());
                let origin = self.origin(self.tree.header.name.as_deref().unwrap_or("(unnamed)"));
                self.host.wake(connector, agent, context, &origin).await.map_err(|fault| fault.message)?
            }
            None => {
                [("woken_at", millis(self.host.unix_millis())), ("woken", false.into())].into_iter().collect()
            }
        };
        let warnings = SkillValue::list([WAKE_NOTE.into()]);
        if let (SkillValue::List(all), Some(SkillValue::List(known))) = (&warnings, receipt.get("warnings")) {
            known.with(|known| known.iter().for_each(|warning| all.push(warning.clone())));
        }
        receipt.set("warnings", warnings);
        let mut record = SkillObject::default();
        record.set("agent_id", Arc::clone(agent));
        record.set("source_kind", source_kind);
        record.set("receipt", receipt);
        record.set_some("wake_skipped", connector.is_none().then_some(true));
        record.set_some("reason", connector.is_none().then_some(NO_CONNECTOR));
        Ok(record.into())
    }
}

/// The name of an output: its kind, and its target as it was written.
fn output_key(output: &SkillOutput) -> String {
    let kind = match output.kind {
        OutputKind::Text => "text",
        OutputKind::None => "none",
        OutputKind::Agent => "agent",
        OutputKind::Template => "template",
        OutputKind::File => "file",
    };
    match &output.target {
        Some(target) => format!("{kind}:{target}"),
        None => kind.to_owned(),
    }
}
