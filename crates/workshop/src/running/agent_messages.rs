//! Messages of a run to agents: deliveries, wakes and questions through the post.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ledger::SkillRuns;
use parking_lot::Mutex;
use post::requests::{AskCommand, AskState, DeliverCommand, LONGEST_TIMEOUT, LONGEST_WAIT, WakeCommand};
use post::{Caller, Post, Refused};
use posthouse_wire::delivery::{Meta, Payload, PayloadKind, PayloadOrigin, TriggerKind, WakeTime};
use posthouse_wire::{ClientId, DispatchId, RunId, TenantId};
use serde::Serialize;
use serde_json::json;
use skill::{
    AgentDelivery, DeliveredKind, DeliveryOrigin, ErrorClass, ExchangeAnswer, HostFault, SkillObject,
    SkillValue,
};

/// The name under which outputs are delivered by every connector that knows the agent.
const EVERY_CONNECTOR: &str = "post";
const PRIMARY: &str = "primary";
/// Dispatch ids that a run remembers.
const REMEMBERED: usize = 1000;

/// The agents of a tenant, as one run reaches them.
pub struct AgentMessages {
    post: Post,
    by: Caller,
    /// Connectors in their order, and whether agents can answer through each.
    connectors: Vec<(Arc<str>, bool)>,
    /// What was sent, for the record of the run.
    sent: Mutex<Vec<DispatchId>>,
    /// The run that sends, with the records in which it is noted. A check has none, and sends nothing.
    run: OnceLock<(RunId, Arc<dyn SkillRuns>)>,
}

impl AgentMessages {
    /// The agents of a tenant. The sender in the receipts is the skill.
    pub async fn of(post: &Post, tenant: &TenantId, skill: &str) -> Result<Self, post::Fault> {
        let connectors = post.directory().connectors(tenant).await?;
        let connectors = connectors
            .into_iter()
            .map(|(name, capabilities)| (name.into(), capabilities.features.request_response))
            .collect();
        let client = ClientId::from(format!("skill:{skill}"));
        let by = Caller { client, tenant: tenant.clone(), agent: None, attested: None };
        Ok(Self { post: post.clone(), by, connectors, sent: Mutex::default(), run: OnceLock::new() })
    }

    /// Names the run whose messages these are.
    pub fn belong_to(&self, run: &RunId, records: &Arc<dyn SkillRuns>) {
        // A second run never uses the same messages.
        let _ = self.run.set((run.clone(), Arc::clone(records)));
    }

    /// Ids of everything that was sent, as far as they are remembered.
    pub fn sent(&self) -> Vec<DispatchId> {
        self.sent.lock().clone()
    }

    pub fn names(&self) -> Vec<Arc<str>> {
        self.connectors.iter().map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Outputs go to the connector `primary`, or to every connector if there is none of that name.
    pub fn for_outputs(&self) -> Arc<str> {
        let has_primary = self.connectors.iter().any(|(name, _)| **name == *PRIMARY);
        if has_primary { PRIMARY.into() } else { EVERY_CONNECTOR.into() }
    }

    pub fn can_exchange(&self, connector: &str) -> bool {
        self.connectors.iter().any(|(name, answers)| **name == *connector && *answers)
    }

    pub async fn list(&self, connector: &str) -> Result<Vec<String>, HostFault> {
        let found = self.post.directory().connector(&self.by.tenant, connector).await;
        let found = found.map_err(|fault| refused(Refused::Fault(fault)))?;
        let Some(found) = found else { return Ok(Vec::new()) };
        let agents = found.list_agents().await.map_err(|error| refused(error.into()))?;
        Ok(agents.into_iter().map(|agent| agent.agent_id).collect())
    }

    pub async fn reaches(&self, connector: &str, address: &str) -> bool {
        self.post.directory().reaches(&self.by, address, connector).await.unwrap_or(false)
    }

    pub async fn deliver(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
    ) -> Result<SkillObject, HostFault> {
        self.note(&message.meta.dispatch_id).await?;
        let kind = match message.kind {
            DeliveredKind::Augment => PayloadKind::Augment,
            DeliveredKind::Template => PayloadKind::Template,
        };
        let payload = Payload { kind, text: message.text.to_string(), meta: meta(&message.meta) };
        let connectors = chosen(connector);
        let request = DeliverCommand { agent: agent.to_owned(), payload, connectors };
        let (post, by) = (self.post.clone(), self.by.clone());
        // A run that is dropped must not leave a message half sent.
        let sent = tokio::spawn(async move { post.messages().deliver(&by, request).await });
        receipt(sent.await.map_err(|_| stopped())?.map_err(refused)?.receipt)
    }

    pub async fn wake(
        &self,
        connector: &str,
        agent: &str,
        context: Option<&str>,
        origin: &DeliveryOrigin,
    ) -> Result<SkillObject, HostFault> {
        self.note(&origin.dispatch_id).await?;
        let request = WakeCommand {
            agent: agent.to_owned(),
            context: context.map(str::to_owned),
            when: WakeTime::Immediate,
            session_id: None,
            connectors: chosen(connector),
            from: Some(origin.skill_name.to_string()),
            dispatch_id: Some(origin.dispatch_id.as_str().into()),
            wait: None,
        };
        let (post, by) = (self.post.clone(), self.by.clone());
        let sent = tokio::spawn(async move { post.messages().wake(&by, request).await });
        receipt(sent.await.map_err(|_| stopped())?.map_err(refused)?.receipt)
    }

    pub async fn exchange(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
        timeout: Duration,
    ) -> Result<ExchangeAnswer, HostFault> {
        self.note(&message.meta.dispatch_id).await?;
        let correlation = message.meta.correlation_id.as_ref().map_or("", |id| id.as_str());
        let request = AskCommand {
            agent: agent.to_owned(),
            message: message.text.to_string(),
            timeout: Some(timeout.min(LONGEST_TIMEOUT)),
            correlation_id: correlation.into(),
            event_type: message.meta.event_type.as_ref().map(ToString::to_string),
            connectors: chosen(connector),
            from: Some(message.meta.skill_name.to_string()),
            trigger_kind: Some(trigger_kind(&message.meta.trigger_kind)),
            origin: Some(origin(&message.meta)),
            dispatch_id: Some(message.meta.dispatch_id.as_str().into()),
        };
        let (post, by) = (self.post.clone(), self.by.clone());
        let asked = tokio::spawn(async move { post.questions().ask(&by, request).await });
        let recorded = asked.await.map_err(|_| stopped())?.map_err(refused)?;
        loop {
            match self.post.answers().wait_for(&self.by, &recorded, LONGEST_WAIT).await {
                Ok(AskState::Answered(response)) => {
                    return Ok(ExchangeAnswer {
                        content: response.content,
                        sent_at: response.sent_at,
                        agent_id: response.agent_id,
                    });
                }
                Ok(AskState::Open { .. }) if self.post.is_closing() => return Err(stopped()),
                Ok(AskState::Open { .. }) => {}
                Err(refusal) => return Err(refused(refusal)),
            }
        }
    }

    /// Stores that the run sends this, before it is sent. So a receipt leads to its run also after a crash.
    async fn note(&self, dispatch: &str) -> Result<(), HostFault> {
        let dispatch = DispatchId::from(dispatch);
        {
            let mut sent = self.sent.lock();
            if sent.len() >= REMEMBERED || sent.contains(&dispatch) {
                return Ok(());
            }
            sent.push(dispatch.clone());
        }
        let Some((run, records)) = self.run.get() else { return Ok(()) };
        records.note_dispatch(&self.by.tenant, run, &dispatch).await.map_err(|fault| {
            tracing::error!(%fault, "a message of a skill could not be joined to its run");
            HostFault::plain("the server cannot do this now")
        })
    }
}

/// The connectors to use. `None` means every one that knows the agent.
fn chosen(connector: &str) -> Option<Vec<String>> {
    (connector != EVERY_CONNECTOR).then(|| vec![connector.to_owned()])
}

fn meta(of: &DeliveryOrigin) -> Meta {
    Meta {
        dispatch_id: of.dispatch_id.as_str().into(),
        sent_at: of.sent_at,
        origin: origin(of),
        event_type: of.event_type.as_ref().map(ToString::to_string),
        correlation_id: of.correlation_id.as_ref().map(|id| id.as_str().into()),
        rest: serde_json::Map::default(),
    }
}

fn origin(of: &DeliveryOrigin) -> PayloadOrigin {
    PayloadOrigin {
        skill_name: of.skill_name.to_string(),
        entry_skill_name: of.entry_skill_name.as_deref().map(str::to_owned),
        trigger_kind: trigger_kind(&of.trigger_kind),
        caller_agent_id: of.caller.as_deref().map(str::to_owned),
        rest: serde_json::Map::default(),
    }
}

/// The kind of a trigger. A word that the contract does not have counts as `inline`.
fn trigger_kind(word: &str) -> TriggerKind {
    serde_json::from_value(json!(word)).unwrap_or(TriggerKind::Inline)
}

fn receipt(of: impl Serialize) -> Result<SkillObject, HostFault> {
    let text = serde_json::to_string(&of).unwrap_or_default();
    let read = SkillValue::from_json(&text).ok();
    let object = read.as_ref().and_then(SkillValue::as_object).cloned();
    object.ok_or_else(|| HostFault::plain("the receipt cannot be read"))
}

fn stopped() -> HostFault {
    HostFault::plain("the server is shutting down")
}

fn refused(refusal: Refused) -> HostFault {
    if let Refused::Fault(fault) = &refusal {
        tracing::error!(%fault, "a message of a skill could not be sent");
    }
    let class = match &refusal {
        Refused::ExchangeAddress => return HostFault::new(ErrorClass::ExchangeAddress, refusal.to_string()),
        Refused::TimedOut { .. } => "TimeoutError",
        Refused::NotImplemented(_) => "NotImplementedError",
        Refused::CorrelationInUse => "CorrelationInUseError",
        _ => "DeliveryFailedError",
    };
    HostFault::new(ErrorClass::Other(class.into()), refusal.to_string())
}
