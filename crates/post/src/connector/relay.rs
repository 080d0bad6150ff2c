//! Relay connector: agents connected by the relay. A message is an entry in the agent's inbox, in one commit with its
//! receipt.

mod event;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ledger::{Instance, NewReceipt, Opening, RouteTo};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::{
    AgentDescriptor, AgentStatus, DeliveryFailed, DeliveryReceipt, Payload, WakeOpts, WakeReceipt,
};
use posthouse_wire::{DispatchId, EntryId, InstanceId, TenantId};
use relay::{Admission, Entrant, Relay, StopRule};

use super::{
    AgentConnector, AskOutcome, ConnectorError, Emission, ExpectedReply, Features, MessageStorage,
    NewMessage, StoredMessage,
};
use crate::conversations::names;
use crate::directory::{AgentRecords, unknown_agent};
use crate::dispatch::{Dispatch, DispatchItem};
use crate::{Address, Config, Fault, Refused};

/// The name of the connector that every tenant has, first in its order.
pub(crate) const RELAY: &str = "relay";

/// The relay connector of one tenant.
pub struct RelayConnector {
    relay: Relay,
    agents: AgentRecords,
    tenant: TenantId,
    preamble: bool,
    wake_wait: Duration,
    timepiece: Timepiece,
}

impl RelayConnector {
    pub const IMPLEMENTATION: &str = RELAY;

    pub(crate) fn new(
        relay: Relay,
        agents: AgentRecords,
        tenant: TenantId,
        config: &Config,
        timepiece: Timepiece,
    ) -> Self {
        Self { relay, agents, tenant, preamble: config.preamble, wake_wait: config.wake_wait.0, timepiece }
    }

    /// Whether the agent is connected and accepts messages now.
    fn is_attached(&self, instance: &InstanceId) -> bool {
        let presence = self.relay.presence(instance);
        presence.connected && !presence.idle
    }

    /// Appends an entry and its receipt in one commit. The relay calls the wake URL of an agent that is not connected.
    async fn append(&self, entrant: Entrant, to: &Instance) -> Result<(EntryId, bool), Refused> {
        let route = RouteTo { tenant: self.tenant.clone(), instance: to.id.clone() };
        match self.relay.admit(&route, &names::identity(), entrant).await? {
            Admission::Kept(entry) => Ok((entry, false)),
            Admission::Known(entry) => Ok((entry, true)),
            Admission::Full(full) => Err(Refused::InboxFull(full)),
            Admission::Refused(why) => {
                // Our own events are always valid, so this is a fault of ours.
                Err(ledger::Fault::Storage(format!("our own event was refused: {why}")).into())
            }
        }
    }

    /// Stores an item for an agent by its name, as the tenant's operator.
    async fn put(
        &self,
        agent_id: &str,
        emission: Emission,
        item: &DispatchItem,
    ) -> Result<(Arc<Instance>, StoredMessage), ConnectorError> {
        let name = Address::read(agent_id).agent;
        let found = self.agents.find(&self.tenant, name).await?;
        let Some(to) = found else { return Err(unknown_agent(agent_id).into()) };
        let Emission { dispatch_id, sent_at, from } = emission;
        let dispatch = Dispatch {
            tenant: self.tenant.clone(),
            sender: ledger::operator_client(&self.tenant),
            sent_by: None,
            from,
            id: dispatch_id,
            sent_at,
        };
        let receipt = dispatch.receipt((RELAY, &to.name), item, Opening::Entry, self.timepiece.now());
        let stored = self.store(NewMessage { to: &to, dispatch: &dispatch, item, receipt }).await;
        Ok((to, stored.map_err(|refused| as_error(agent_id, refused))?))
    }

    /// Why the agent did not accept a wake, as far as known.
    async fn why_not_woken(&self, instance: &Instance, wait: Duration) -> Result<Vec<String>, Fault> {
        if !self.is_attached(&instance.id) {
            let next = self.relay.calls_again(&instance.id);
            return Ok(vec![match (&instance.wake_url, next) {
                (Some(_), None) => "the agent is not connected: its wake URL is being called".to_owned(),
                // The wake URL is not called for every wake, so that a slow agent is not flooded.
                (Some(_), Some(at)) => {
                    format!(
                        "the agent is not connected: its wake URL was called, and is called again at {at}"
                    )
                }
                (None, _) => {
                    "the agent is not connected and has no wake URL: it gets this when it connects".to_owned()
                }
            }]);
        }
        let mut warnings = Vec::new();
        let ahead = self.relay.inbox().size(&instance.id).await?.entries - 1;
        if ahead > 0 {
            warnings.push(format!("queued behind {ahead}"));
        }
        warnings.push(match self.relay.is_settling(&instance.id) {
            true => "the agent has just connected and is given time to settle".to_owned(),
            false => format!("the agent is connected and did not take it within {} ms", wait.as_millis()),
        });
        Ok(warnings)
    }

    async fn status(&self, agent: &str) -> Result<AgentStatus, Fault> {
        let Some(instance) = self.agents.find(&self.tenant, agent).await? else {
            return Ok(AgentStatus::Unknown);
        };
        Ok(match (self.is_attached(&instance.id), &instance.wake_url) {
            (true, _) if self.relay.inbox().size(&instance.id).await?.entries > 0 => AgentStatus::Active,
            (true, _) => AgentStatus::Idle,
            (false, Some(_)) => AgentStatus::Asleep,
            (false, None) => AgentStatus::Unknown,
        })
    }
}

#[async_trait]
impl MessageStorage for RelayConnector {
    async fn store(&self, message: NewMessage<'_>) -> Result<StoredMessage, Refused> {
        let NewMessage { to, dispatch, item, receipt } = message;
        let session = names::session_of(dispatch, item)?;
        let (chat, at, skipped) = (names::chat(&session), receipt.accepted, !self.is_attached(&to.id));
        let now = self.timepiece.now();
        let id = EntryId::mint(now.millis());
        let entrant = Entrant {
            event: event::of(&id, &dispatch.from, item, &chat, self.preamble, now),
            // Repeats are recognized by the receipt.
            dedup: id.as_str().into(),
            id: Some(id),
            addressed: true,
            references: Vec::new(),
            accepted: now,
            receipt: Some(Box::new(NewReceipt {
                instance: Some(to.id.clone()),
                chat: Some(chat),
                session: Some(session.clone()),
                skipped,
                ..receipt
            })),
            stop: StopRule::Text,
        };
        let (entry, known) = self.append(entrant, to).await?;
        let wake_wait = if skipped { Duration::ZERO } else { self.wake_wait };
        Ok(StoredMessage { entry, session, at, skipped, known, wake_wait })
    }

    async fn woken(
        &self,
        to: &Instance,
        stored: &StoredMessage,
        wait: Duration,
    ) -> Result<WakeReceipt, Fault> {
        let woken = self.relay.acknowledged_within(&stored.entry, wait).await?;
        let warnings = if woken { Vec::new() } else { self.why_not_woken(to, wait).await? };
        Ok(WakeReceipt {
            woken_at: self.timepiece.now().millis(),
            woken,
            session_id: Some(stored.session.clone()),
            warnings,
            ..WakeReceipt::default()
        })
    }
}

#[async_trait]
impl AgentConnector for RelayConnector {
    fn implementation(&self) -> &'static str {
        Self::IMPLEMENTATION
    }

    fn features(&self) -> Features {
        Features::ALL
    }

    /// A repeat is recognized by its receipt.
    fn repeats_harmlessly(&self) -> bool {
        true
    }

    fn storage(&self) -> Option<&dyn MessageStorage> {
        Some(self)
    }

    async fn list_agents(&self) -> Result<Vec<AgentDescriptor>, ConnectorError> {
        let instances = self.agents.all(&self.tenant).await?;
        Ok(instances.into_iter().map(|found| AgentDescriptor::named(found.name)).collect())
    }

    async fn lists(&self, agent_id: &str) -> Result<bool, ConnectorError> {
        Ok(self.agents.find(&self.tenant, agent_id).await?.is_some())
    }

    async fn deliver(&self, agent_id: &str, payload: &Payload) -> Result<DeliveryReceipt, ConnectorError> {
        let item = DispatchItem::Deliver { payload: payload.clone() };
        let (_, stored) = self.put(agent_id, emission_of(payload), &item).await?;
        Ok(stored.delivery_receipt())
    }

    async fn wake(
        &self,
        agent_id: &str,
        opts: &WakeOpts,
        emission: &Emission,
    ) -> Result<WakeReceipt, ConnectorError> {
        let session = Address::read(agent_id).session_meant(opts.session_id.as_deref());
        let opts = WakeOpts { session_id: session.map(str::to_owned), ..opts.clone() };
        let item = DispatchItem::Wake { opts, from: emission.from.clone() };
        let (to, stored) = self.put(agent_id, emission.clone(), &item).await?;
        Ok(self.woken(&to, &stored, stored.wake_wait).await?)
    }

    /// The receiver is this server itself, so it is healthy if its ledger can be read.
    async fn health_check(&self) -> bool {
        self.diagnose().await.is_ok()
    }

    async fn diagnose(&self) -> Result<(), String> {
        let asked = self.relay.roster().tenant(self.tenant.as_str()).await;
        asked.map(drop).map_err(|fault| format!("the roster cannot be read: {fault}"))
    }

    /// The agent answers in the conversation of the question.
    async fn request_response(
        &self,
        agent_id: &str,
        payload: &Payload,
        question: &ExpectedReply,
    ) -> Result<AskOutcome, ConnectorError> {
        let mut payload = payload.clone();
        payload.meta.correlation_id = Some(question.correlation_id.clone());
        let emission = emission_of(&payload);
        let (_, stored) = self.put(agent_id, emission, &DispatchItem::Ask { payload }).await?;
        Ok(AskOutcome::Awaited(stored.delivery_receipt()))
    }

    async fn agent_status(&self, agent_id: &str) -> AgentStatus {
        self.status(Address::read(agent_id).agent).await.unwrap_or_else(|fault| {
            tracing::error!(%fault, "could not read the status of an agent");
            AgentStatus::Unknown
        })
    }
}

fn emission_of(payload: &Payload) -> Emission {
    Emission {
        dispatch_id: DispatchId::clone(&payload.meta.dispatch_id),
        sent_at: Moment::from_millis(payload.meta.sent_at),
        from: payload.meta.origin.skill_name.clone(),
    }
}

/// Converts a refusal to an error of the contract.
fn as_error(agent_id: &str, refused: Refused) -> ConnectorError {
    match refused {
        Refused::Failed(failed) => failed.into(),
        Refused::Fault(fault) => ConnectorError::Fault(fault),
        refused => DeliveryFailed::client_validation(agent_id, refused.to_string()).into(),
    }
}
