//! Agent directory of a tenant: names, aliases, and the connectors that know each agent, in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ledger::{ConnectorRecord, Exchange, Instance, Receipt};
use moka::sync::Cache;
use posthouse_wire::delivery::AgentDescriptor;
use posthouse_wire::{InstanceId, TenantId};

use crate::address::Address;
use crate::connector::{AgentConnector, Undone, settings};
use crate::relay_path::{RELAY, RelayPath};
use crate::requests::Listed;
use crate::{Caller, Fault, Post, Refused};

/// Lifetime of cached records. A change on this node is visible at once, because the cache key has its version.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Agents on one page of the directory.
const PAGE: u32 = 50;
const LONGEST_PAGE: u32 = 200;

/// Cache of connectors, keyed by the roster version of their tenant.
pub(crate) struct Known {
    tenants: Cache<(u64, TenantId), Arc<Wired>>,
}

impl Default for Known {
    fn default() -> Self {
        Self { tenants: Cache::builder().max_capacity(10_000).time_to_live(REMEMBERED).build() }
    }
}

/// Connectors of one tenant in the order of creation, and its aliases.
pub(crate) struct Wired {
    made: Vec<Made>,
    aliases: HashMap<String, String>,
    peers_may_write: bool,
}

/// A connector that an operator created.
struct Made {
    name: String,
    connector: Arc<dyn AgentConnector>,
}

/// A delivery path to one agent.
#[derive(Clone)]
pub(crate) struct DeliveryPath {
    pub by: PathKind,
    /// The agent's name at this connector. An address with a session is passed on whole: the connector splits it.
    pub agent: String,
    /// The session in the address. `None` if the whole address is the name of an agent at this connector.
    pub session: Option<String>,
}

/// The carrier of a delivery path.
#[derive(Clone)]
pub(crate) enum PathKind {
    /// The relay connection that the agent opens itself.
    Relay(RelayPath, Arc<Instance>),
    Connector {
        name: String,
        connector: Arc<dyn AgentConnector>,
    },
}

impl DeliveryPath {
    pub fn name(&self) -> &str {
        match &self.by {
            PathKind::Relay(..) => RELAY,
            PathKind::Connector { name, .. } => name,
        }
    }

    pub fn can_ask(&self) -> bool {
        match &self.by {
            PathKind::Relay(..) => true,
            PathKind::Connector { connector, .. } => connector.features().request_response,
        }
    }

    /// The error for a question by a path that cannot carry questions.
    pub fn unasked(&self, agent: &str) -> Undone {
        match &self.by {
            PathKind::Relay(..) => Undone::no_reply_channel(RELAY),
            PathKind::Connector { connector, .. } => connector.unasked(agent),
        }
    }
}

impl Post {
    /// The delivery paths by which this caller may write to an address, in order.
    pub(crate) async fn find(
        &self,
        by: &Caller,
        written: &str,
        wakes: bool,
        connectors: Option<&[String]>,
    ) -> Result<Vec<DeliveryPath>, Fault> {
        let mut paths = self.paths(by, written, wakes).await?;
        let whom = paths.iter().find_map(|path| match &path.by {
            PathKind::Relay(_, instance) => Some(&instance.id),
            PathKind::Connector { .. } => None,
        });
        if !by.may_write_to(whom, self.wired(&by.tenant).await?.peers_may_write) {
            return Ok(Vec::new());
        }
        if let Some(named) = connectors {
            paths.retain(|path| named.iter().any(|name| name == path.name()));
        }
        Ok(paths)
    }

    /// The delivery paths to an address inside the caller's tenant. Unknown names and names of other tenants have none.
    /// With `wakes` the part before the `@` is looked up too.
    async fn paths(&self, by: &Caller, written: &str, wakes: bool) -> Result<Vec<DeliveryPath>, Fault> {
        let wired = self.wired(&by.tenant).await?;
        let address = Address::read(written);
        let (agent, session) = match (wakes, address.session) {
            (true, Some(session)) => (address.agent, Some(session)),
            _ => (address.whole, None),
        };
        // An agent's own name takes precedence over an alias.
        let mut instance = self.instance(&by.tenant, agent).await?;
        let stands_for = wired.aliases.get(agent).filter(|_| instance.is_none());
        if let Some(stands_for) = stands_for {
            instance = self.instance(&by.tenant, stands_for).await?;
        }
        let session = session.map(str::to_owned);
        let mut paths = Vec::new();
        let own_name = instance.as_ref().map(|instance| instance.name.clone()).filter(|name| name != agent);
        if let Some(instance) = instance {
            let agent = instance.name.clone();
            let by = PathKind::Relay(self.relay_path(&by.tenant), instance);
            paths.push(DeliveryPath { by, agent, session: session.clone() });
        }
        for made in &wired.made {
            // The whole address may be an agent's name here. Then it contains no session.
            if made.lists(written).await {
                paths.push(made.path(written, None));
            } else if let Some(stands_for) = stands_for
                && made.lists(stands_for).await
            {
                paths.push(made.path(stands_for, session.clone()));
            } else if agent != written && made.lists(agent).await {
                paths.push(made.path(written, session.clone()));
            } else if let Some(own_name) = &own_name
                && made.lists(own_name).await
            {
                paths.push(made.path(own_name, session.clone()));
            }
        }
        Ok(paths)
    }

    /// An agent of this tenant by its name or id.
    pub(crate) async fn instance(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<Arc<Instance>>, Fault> {
        Ok(self.0.identity.roster.agent(tenant, name).await?)
    }

    /// The delivery path of a stored receipt.
    pub(crate) async fn way_of(&self, receipt: &Receipt) -> Result<Option<DeliveryPath>, Fault> {
        let agent = receipt.agent.as_str();
        if receipt.connector == RELAY {
            let Some(instance) = &receipt.instance else { return Ok(None) };
            let found = self.instance(&receipt.tenant, instance.as_str()).await?;
            return Ok(found.map(|found| DeliveryPath {
                by: PathKind::Relay(self.relay_path(&receipt.tenant), found),
                agent: agent.to_owned(),
                session: None,
            }));
        }
        let wired = self.wired(&receipt.tenant).await?;
        Ok(wired.named(&receipt.connector).map(|made| made.path(agent, None)))
    }

    /// The connector by which a question was put.
    pub(crate) async fn connector_of(
        &self,
        exchange: &Exchange,
    ) -> Result<Option<Arc<dyn AgentConnector>>, Fault> {
        let wired = self.wired(&exchange.tenant).await?;
        Ok(wired.named(&exchange.connector).map(|made| Arc::clone(&made.connector)))
    }

    pub(crate) async fn wired(&self, tenant: &TenantId) -> Result<Arc<Wired>, Fault> {
        let asked = (self.0.identity.roster.tenant_version(tenant), tenant.clone());
        if let Some(known) = self.0.known.tenants.get(&asked) {
            return Ok(known);
        }
        let records = self.0.connectors.connectors(Some(tenant)).await?;
        let aliases = self.0.connectors.aliases(Some(tenant)).await?;
        let wired = Arc::new(Wired {
            made: records.into_iter().map(|record| self.made(record)).collect(),
            aliases: aliases.into_iter().map(|alias| (alias.name, alias.agent)).collect(),
            peers_may_write: self.0.connectors.peers_may_write(tenant).await?,
        });
        self.0.known.tenants.insert(asked, Arc::clone(&wired));
        Ok(wired)
    }

    fn made(&self, record: ConnectorRecord) -> Made {
        let read = serde_json::from_str(&record.settings).unwrap_or_default();
        let connector = settings::rebuild(&record.kind, &read, self.tools(&record.tenant, &record.id));
        Made { name: record.name, connector }
    }

    /// A page of the agents that this caller may see, by name.
    pub async fn agents(
        &self,
        by: &Caller,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<(Vec<Listed>, Option<String>), Refused> {
        let wired = self.wired(&by.tenant).await?;
        let mut listed: HashMap<String, Listed> = HashMap::new();
        for instance in self.0.identity.roster.records().instances(Some(&by.tenant)).await? {
            note(&mut listed, RELAY, AgentDescriptor::named(instance.name));
        }
        for made in &wired.made {
            for agent in made.connector.list_agents().await.unwrap_or_default() {
                note(&mut listed, &made.name, agent);
            }
        }
        let mut page: Vec<Listed> = listed.into_values().collect();
        // An agent that may not write to others does not see their names.
        if let Some(own) = by.agent.as_ref().filter(|_| !wired.peers_may_write) {
            page.retain(|agent| agent.agent_id == own.name);
        }
        page.sort_by(|one, other| one.agent_id.cmp(&other.agent_id));
        page.retain(|agent| after.is_none_or(|after| agent.agent_id.as_str() > after));
        let limit = limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE) as usize;
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more).map(|last| last.agent_id.clone());
        Ok((page, next))
    }

    /// One agent with its status. An agent that this caller may not write to looks like one that does not exist.
    pub async fn agent(&self, by: &Caller, name: &str) -> Result<Listed, Refused> {
        let paths = self.find(by, name, false, None).await?;
        let Some(first) = paths.first() else { return Err(Refused::Absent) };
        let (agent_name, status) = match &first.by {
            PathKind::Relay(relay_path, instance) => {
                (Some(instance.name.clone()), relay_path.status(instance).await?)
            }
            PathKind::Connector { connector, .. } => (None, connector.agent_status(&first.agent).await),
        };
        let connectors = paths.iter().map(|path| path.name().to_owned()).collect();
        Ok(Listed { agent_id: first.agent.clone(), agent_name, connectors, status: Some(status) })
    }
}

impl Caller {
    /// An agent may always write to itself, and to others unless its tenant forbids it.
    fn may_write_to(&self, whom: Option<&InstanceId>, peers_may_write: bool) -> bool {
        match self.instance() {
            Some(own) => peers_may_write || whom == Some(own),
            None => true,
        }
    }
}

impl Wired {
    fn named(&self, name: &str) -> Option<&Made> {
        self.made.iter().find(|made| made.name == name)
    }
}

impl Made {
    /// Whether this connector lists the agent. A connector that fails to answer is skipped.
    async fn lists(&self, agent: &str) -> bool {
        self.connector.lists(agent).await.unwrap_or(false)
    }

    fn path(&self, agent: &str, session: Option<String>) -> DeliveryPath {
        let by = PathKind::Connector { name: self.name.clone(), connector: Arc::clone(&self.connector) };
        DeliveryPath { by, agent: agent.to_owned(), session }
    }
}

fn note(listed: &mut HashMap<String, Listed>, connector: &str, agent: AgentDescriptor) {
    let AgentDescriptor { agent_id, agent_name, .. } = agent;
    let known = listed.entry(agent_id.clone()).or_insert_with(|| Listed {
        agent_id,
        agent_name: None,
        connectors: Vec::new(),
        status: None,
    });
    known.connectors.push(connector.to_owned());
    known.agent_name = known.agent_name.take().or(agent_name);
}
