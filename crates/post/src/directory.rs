//! Agent directory of a tenant: names, aliases, and the connectors that know each agent, in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http_kit::Page;
use identity::{RosterView, TenantCache, may_write_to_peer};
use ledger::{Connectors, Exchange, Instance, Receipt};
use posthouse_wire::TenantId;
use posthouse_wire::delivery::{AgentDescriptor, DeliveryFailed};

use crate::address::Address;
use crate::connector::relay::RELAY;
use crate::connector::{AgentConnector, Capabilities, ConnectorBuilder, ConnectorError, MessageStorage};
use crate::requests::DirectoryEntry;
use crate::{Caller, Fault, Refused};

/// Lifetime of cached records. A change on this node is visible at once.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Finds the paths to an agent by the name that a caller wrote.
pub struct Directory {
    agents: RosterView,
    records: Arc<dyn Connectors>,
    builder: ConnectorBuilder,
    tenants: TenantCache<Arc<TenantConnectors>>,
}

/// The connectors of one tenant, its aliases, and whether its agents may write to each other.
struct TenantConnectors {
    /// Connectors that an operator created, in the order of creation.
    created: Vec<NamedConnector>,
    aliases: HashMap<String, String>,
    peers_may_write: bool,
}

#[derive(Clone)]
struct NamedConnector {
    name: String,
    connector: Arc<dyn AgentConnector>,
}

/// A delivery path: one connector by which one agent can be reached.
#[derive(Clone)]
pub(crate) struct DeliveryPath {
    /// The name of the connector in its tenant.
    pub name: String,
    pub connector: Arc<dyn AgentConnector>,
    /// The agent's name at this connector. An address with a session is passed on whole: the connector splits it.
    pub agent: String,
    /// The session in the address. `None` if the whole address is the name of an agent at this connector.
    pub session: Option<String>,
    /// The agent's record, at a connector that stores messages for it.
    pub instance: Option<Arc<Instance>>,
}

impl DeliveryPath {
    /// The storage of a connector that stores messages with their receipts, and the agent that it stores them for.
    pub fn storage(&self) -> Option<(&dyn MessageStorage, &Instance)> {
        self.connector.storage().zip(self.instance.as_deref())
    }
}

impl Directory {
    pub(crate) fn new(agents: RosterView, records: Arc<dyn Connectors>, builder: ConnectorBuilder) -> Self {
        let tenants = TenantCache::new(agents.clone(), 10_000, REMEMBERED);
        Self { agents, records, builder, tenants }
    }

    /// The delivery paths by which this caller may write to an address, in order. Unknown names and names of other
    /// tenants have none. With `wakes` the part before the `@` is looked up too.
    pub(crate) async fn find(
        &self,
        by: &Caller,
        written: &str,
        wakes: bool,
        connectors: Option<&[String]>,
    ) -> Result<Vec<DeliveryPath>, Fault> {
        let tenant = self.tenant(&by.tenant).await?;
        let mut paths = self.paths(&tenant, by, written, wakes).await?;
        let whom = paths.iter().find_map(|path| path.instance.as_ref());
        if !may_write_to_peer(by.instance(), whom.map(|whom| &whom.id), tenant.peers_may_write) {
            return Ok(Vec::new());
        }
        if let Some(named) = connectors {
            paths.retain(|path| named.contains(&path.name));
        }
        Ok(paths)
    }

    async fn paths(
        &self,
        tenant: &TenantConnectors,
        by: &Caller,
        written: &str,
        wakes: bool,
    ) -> Result<Vec<DeliveryPath>, Fault> {
        let (agent, session) = match wakes {
            true => (Address::read(written).agent, Address::read(written).session),
            false => (written, None),
        };
        // An agent's own name takes precedence over an alias.
        let mut instance = self.agents.agent(&by.tenant, agent).await?;
        let stands_for = tenant.aliases.get(agent).filter(|_| instance.is_none());
        if let Some(stands_for) = stands_for {
            instance = self.agents.agent(&by.tenant, stands_for).await?;
        }
        let mut paths = Vec::new();
        let own_name = instance.as_ref().map(|instance| instance.name.clone()).filter(|name| name != agent);
        if let Some(instance) = instance {
            let path = self.relay(&by.tenant).path(&instance.name, session);
            paths.push(DeliveryPath { instance: Some(instance), ..path });
        }
        for connector in &tenant.created {
            // The whole address may be an agent's name here. Then it contains no session.
            if connector.lists(written).await {
                paths.push(connector.path(written, None));
            } else if let Some(stands_for) = stands_for
                && connector.lists(stands_for).await
            {
                paths.push(connector.path(stands_for, session));
            } else if agent != written && connector.lists(agent).await {
                paths.push(connector.path(written, session));
            } else if let Some(own_name) = &own_name
                && connector.lists(own_name).await
            {
                paths.push(connector.path(own_name, session));
            }
        }
        Ok(paths)
    }

    /// Whether this caller can write to an address by this connector.
    pub async fn reaches(&self, by: &Caller, written: &str, connector: &str) -> Result<bool, Fault> {
        let wakes = Address::read(written).wakes();
        Ok(!self.find(by, written, wakes, Some(&[connector.to_owned()])).await?.is_empty())
    }

    /// The first path that can carry questions. Only one, because a question has one answer.
    pub(crate) async fn find_for_question(
        &self,
        by: &Caller,
        agent: &str,
        connectors: Option<&[String]>,
    ) -> Result<DeliveryPath, Refused> {
        let paths = self.find(by, agent, false, connectors).await?;
        let refusal = paths.first().map(|path| path.connector.unasked(agent));
        match paths.into_iter().find(|path| path.connector.features().request_response) {
            Some(path) => Ok(path),
            None => Err(refusal.unwrap_or_else(|| unknown_agent(agent).into()).into()),
        }
    }

    /// The delivery path of a stored receipt. `None` if its connector or its agent was removed.
    pub(crate) async fn path_of(&self, receipt: &Receipt) -> Result<Option<DeliveryPath>, Fault> {
        let named = self.named(&receipt.tenant, &receipt.connector).await?;
        let path = named.map(|named| named.path(&receipt.agent, None));
        let Some(id) = &receipt.instance else { return Ok(path) };
        let instance = self.agents.agent(&receipt.tenant, id.as_str()).await?;
        Ok(path.zip(instance).map(|(path, instance)| DeliveryPath { instance: Some(instance), ..path }))
    }

    /// The connector by which a question was put.
    pub(crate) async fn connector_of(
        &self,
        exchange: &Exchange,
    ) -> Result<Option<Arc<dyn AgentConnector>>, Fault> {
        self.connector(&exchange.tenant, &exchange.connector).await
    }

    /// A connector of a tenant by its name. Every tenant has the connector `relay`.
    pub async fn connector(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<Arc<dyn AgentConnector>>, Fault> {
        Ok(self.named(tenant, name).await?.map(|named| named.connector))
    }

    /// The connectors of a tenant in their order, each with its name and what it supports.
    pub async fn connectors(&self, tenant: &TenantId) -> Result<Vec<(String, Capabilities)>, Fault> {
        let (relay, created) = (self.relay(tenant), self.tenant(tenant).await?);
        let all = std::iter::once(&relay).chain(&created.created).map(|named| {
            let capabilities = Capabilities::of(&*named.connector);
            (named.name.clone(), capabilities)
        });
        Ok(all.collect())
    }

    /// A page of the agents that this caller may see, by name.
    pub async fn agents(
        &self,
        by: &Caller,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<DirectoryEntry>, Refused> {
        let tenant = self.tenant(&by.tenant).await?;
        let mut listed: HashMap<String, DirectoryEntry> = HashMap::new();
        for named in std::iter::once(&self.relay(&by.tenant)).chain(&tenant.created) {
            let agents = match named.connector.list_agents().await {
                Err(ConnectorError::Fault(fault)) => return Err(fault.into()),
                // A connector that fails to answer is skipped.
                agents => agents.unwrap_or_default(),
            };
            agents.into_iter().for_each(|agent| note(&mut listed, &named.name, agent));
        }
        let mut agents: Vec<DirectoryEntry> = listed.into_values().collect();
        // An agent that may not write to others does not see their names.
        if let Some(own) = by.agent.as_ref().filter(|_| !tenant.peers_may_write) {
            agents.retain(|agent| agent.agent_id == own.name);
        }
        Ok(Page::of_sorted(agents, |agent| agent.agent_id.clone(), after, limit))
    }

    /// One agent with its status. An agent that this caller may not write to looks like one that does not exist.
    pub async fn agent(&self, by: &Caller, name: &str) -> Result<DirectoryEntry, Refused> {
        let paths = self.find(by, name, false, None).await?;
        let Some(first) = paths.first() else { return Err(Refused::Absent) };
        Ok(DirectoryEntry {
            agent_id: first.agent.clone(),
            agent_name: first.instance.as_ref().map(|instance| instance.name.clone()),
            connectors: paths.iter().map(|path| path.name.clone()).collect(),
            status: Some(first.connector.agent_status(&first.agent).await),
        })
    }

    /// The built-in connector, first in the order. It is not cached: an evicted entry of the cache may live on in
    /// another thread, and this connector holds the ledger open.
    fn relay(&self, tenant: &TenantId) -> NamedConnector {
        NamedConnector { name: RELAY.to_owned(), connector: self.builder.relay(tenant) }
    }

    /// A connector of this tenant by its name.
    async fn named(&self, tenant: &TenantId, name: &str) -> Result<Option<NamedConnector>, Fault> {
        if name == RELAY {
            return Ok(Some(self.relay(tenant)));
        }
        let found = self.tenant(tenant).await?;
        Ok(found.created.iter().find(|named| named.name == name).cloned())
    }

    async fn tenant(&self, tenant: &TenantId) -> Result<Arc<TenantConnectors>, Fault> {
        self.tenants.get(tenant, self.read_tenant(tenant)).await
    }

    async fn read_tenant(&self, tenant: &TenantId) -> Result<Arc<TenantConnectors>, Fault> {
        let records = self.records.connectors(Some(tenant)).await?;
        let aliases = self.records.aliases(Some(tenant)).await?;
        let created = records
            .into_iter()
            .map(|record| NamedConnector { connector: self.builder.rebuild(&record), name: record.name });
        Ok(Arc::new(TenantConnectors {
            created: created.collect(),
            aliases: aliases.into_iter().map(|alias| (alias.name, alias.agent)).collect(),
            peers_may_write: self.records.peers_may_write(tenant).await?,
        }))
    }
}

impl NamedConnector {
    /// Whether this connector lists the agent. A connector that fails to answer is skipped.
    async fn lists(&self, agent: &str) -> bool {
        self.connector.lists(agent).await.unwrap_or(false)
    }

    fn path(&self, agent: &str, session: Option<&str>) -> DeliveryPath {
        DeliveryPath {
            name: self.name.clone(),
            connector: Arc::clone(&self.connector),
            agent: agent.to_owned(),
            session: session.map(str::to_owned),
            instance: None,
        }
    }
}

/// The error for a name that no connector of the tenant knows.
pub(crate) fn unknown_agent(agent: &str) -> DeliveryFailed {
    DeliveryFailed::client_validation(agent, format!("no connector knows an agent `{agent}`"))
}

fn note(listed: &mut HashMap<String, DirectoryEntry>, connector: &str, agent: AgentDescriptor) {
    let AgentDescriptor { agent_id, agent_name, .. } = agent;
    let known = listed.entry(agent_id.clone()).or_insert_with(|| DirectoryEntry {
        agent_id,
        agent_name: None,
        connectors: Vec::new(),
        status: None,
    });
    known.connectors.push(connector.to_owned());
    known.agent_name = known.agent_name.take().or(agent_name);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn an_agent_is_reached_by_the_relay_and_by_every_connector_that_lists_it() {
        let fixture = Fixture::open().await;
        let directory = fixture.directory();
        let (heron, by) = (fixture.enrol("heron").await, fixture.operator());
        let url = json!({ "url": "http://127.0.0.1:9/in" });
        let agents = json!({ "agents": { "heron": url, "desk": url } });
        fixture.create_connector("hook", "webhook", &agents).await;
        let found = async |written: &str, wakes| {
            let paths = directory.find(&by, written, wakes, None).await.unwrap();
            paths.into_iter().map(|path| (path.name, path.session)).collect::<Vec<_>>()
        };
        let both = |session: Option<&str>| {
            ["relay", "hook"].map(|name| (name.to_owned(), session.map(str::to_owned))).to_vec()
        };
        assert_eq!(found("heron", false).await, both(None));
        assert_eq!(found(heron.as_str(), false).await, both(None), "its id means the same agent");
        assert_eq!(found("heron@attic", true).await, both(Some("attic")));
        assert_eq!(found("heron@attic", false).await, []);
        assert_eq!(found("desk", false).await, both(None)[1..]);
        assert_eq!(found("nobody", true).await, []);
        let path = directory.find_for_question(&by, "heron", None).await.unwrap();
        assert_eq!((path.name.as_str(), path.storage().is_some()), ("relay", true));
    }
}
