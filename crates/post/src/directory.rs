//! Who is there: names inside one tenant, and the connectors that know them, in order.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ledger::{ConnectorRecord, Exchange, Instance, Receipt};
use moka::sync::Cache;
use posthouse_wire::delivery::AgentDescriptor;
use posthouse_wire::{InstanceId, TenantId};

use crate::address::Address;
use crate::connector::{AgentConnector, Undone, settings};
use crate::line::{LINE, Line};
use crate::wish::Listed;
use crate::{Caller, Fault, Post, Refused};

/// How long what was read is taken for still true; a change on this node is seen at once.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Agents on one page of the directory.
const PAGE: u32 = 50;
const LONGEST_PAGE: u32 = 200;

/// What was read lately of tenants' connectors and agents, under the roster as it was then.
pub(crate) struct Known {
    tenants: Cache<(u64, TenantId), Arc<Wired>>,
    instances: Cache<(u64, TenantId, String), Arc<Instance>>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            tenants: Cache::builder().max_capacity(10_000).time_to_live(REMEMBERED).build(),
            instances: Cache::builder().max_capacity(100_000).time_to_live(REMEMBERED).build(),
        }
    }
}

/// What one tenant has wired, in the order of making, and its other names.
pub(crate) struct Wired {
    made: Vec<Made>,
    aliases: HashMap<String, String>,
    peers_may_write: bool,
}

/// A connector that the operator made.
struct Made {
    name: String,
    connector: Arc<dyn AgentConnector>,
}

/// One way to one agent.
#[derive(Clone)]
pub(crate) struct Way {
    pub by: By,
    /// What the agent is called there. A composite address is passed on whole: only the substrate takes it
    /// apart.
    pub agent: String,
    /// The session that the address names, unless all of it is the agent's name there.
    pub session: Option<String>,
}

/// What carries it.
#[derive(Clone)]
pub(crate) enum By {
    /// The line that the agent dials itself.
    Line(Line, Arc<Instance>),
    Made {
        name: String,
        connector: Arc<dyn AgentConnector>,
    },
}

impl Way {
    pub fn name(&self) -> &str {
        match &self.by {
            By::Line(..) => LINE,
            By::Made { name, .. } => name,
        }
    }

    pub fn can_ask(&self) -> bool {
        match &self.by {
            By::Line(..) => true,
            By::Made { connector, .. } => connector.features().request_response,
        }
    }

    /// Why the agent cannot be asked this way.
    pub fn unasked(&self, agent: &str) -> Undone {
        match &self.by {
            By::Line(..) => Undone::no_reply_channel(LINE),
            By::Made { connector, .. } => connector.unasked(agent),
        }
    }
}

impl Post {
    /// The ways by which this caller may write to an address, in order.
    pub(crate) async fn find(
        &self,
        by: &Caller,
        written: &str,
        wakes: bool,
        connectors: Option<&[String]>,
    ) -> Result<Vec<Way>, Fault> {
        let mut ways = self.ways(by, written, wakes).await?;
        let whom = ways.iter().find_map(|way| match &way.by {
            By::Line(_, instance) => Some(&instance.id),
            By::Made { .. } => None,
        });
        if !by.may_write_to(whom, self.wired(&by.tenant).await?.peers_may_write) {
            return Ok(Vec::new());
        }
        if let Some(named) = connectors {
            ways.retain(|way| named.iter().any(|name| name == way.name()));
        }
        Ok(ways)
    }

    /// The ways to an address inside the caller's tenant. Unknown names and those of other tenants have none.
    /// `wakes` says that what stands before an `@` is looked for too.
    async fn ways(&self, by: &Caller, written: &str, wakes: bool) -> Result<Vec<Way>, Fault> {
        let wired = self.wired(&by.tenant).await?;
        let address = Address::read(written);
        let (agent, session) = match (wakes, address.session) {
            (true, Some(session)) => (address.agent, Some(session)),
            _ => (address.whole, None),
        };
        // An agent goes by its own name before anybody else does.
        let mut instance = self.instance(&by.tenant, agent).await?;
        let stands_for = wired.aliases.get(agent).filter(|_| instance.is_none());
        if let Some(stands_for) = stands_for {
            instance = self.instance(&by.tenant, stands_for).await?;
        }
        let session = session.map(str::to_owned);
        let mut ways = Vec::new();
        let own_name = instance.as_ref().map(|instance| instance.name.clone()).filter(|name| name != agent);
        if let Some(instance) = instance {
            let agent = instance.name.clone();
            let by = By::Line(self.line(&by.tenant), instance);
            ways.push(Way { by, agent, session: session.clone() });
        }
        for made in &wired.made {
            // All of it may be the name of somebody there, and then names no session.
            if made.lists(written).await {
                ways.push(made.way(written, None));
            } else if let Some(stands_for) = stands_for
                && made.lists(stands_for).await
            {
                ways.push(made.way(stands_for, session.clone()));
            } else if agent != written && made.lists(agent).await {
                ways.push(made.way(written, session.clone()));
            } else if let Some(own_name) = &own_name
                && made.lists(own_name).await
            {
                ways.push(made.way(own_name, session.clone()));
            }
        }
        Ok(ways)
    }

    /// An agent of this tenant by its name or id.
    pub(crate) async fn instance(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<Arc<Instance>>, Fault> {
        let asked = (self.0.relay.roster_version(), tenant.clone(), name.to_owned());
        if let Some(known) = self.0.known.instances.get(&asked) {
            return Ok(Some(known));
        }
        let roster = self.0.relay.roster();
        let found = match name.starts_with("inst_") {
            true => roster.instance(&InstanceId::new(name)).await?.filter(|found| found.tenant == *tenant),
            false => roster.instance_named(tenant, name).await?,
        };
        let found = found.map(Arc::new);
        if let Some(found) = &found {
            self.0.known.instances.insert(asked, Arc::clone(found));
        }
        Ok(found)
    }

    /// The way that something was promised to go earlier.
    pub(crate) async fn way_of(&self, receipt: &Receipt) -> Result<Option<Way>, Fault> {
        let agent = receipt.agent.as_str();
        if receipt.connector == LINE {
            let Some(instance) = &receipt.instance else { return Ok(None) };
            let found = self.instance(&receipt.tenant, instance.as_str()).await?;
            return Ok(found.map(|found| Way {
                by: By::Line(self.line(&receipt.tenant), found),
                agent: agent.to_owned(),
                session: None,
            }));
        }
        let wired = self.wired(&receipt.tenant).await?;
        Ok(wired.named(&receipt.connector).map(|made| made.way(agent, None)))
    }

    /// The connector that a question was put by.
    pub(crate) async fn connector_of(
        &self,
        exchange: &Exchange,
    ) -> Result<Option<Arc<dyn AgentConnector>>, Fault> {
        let wired = self.wired(&exchange.tenant).await?;
        Ok(wired.named(&exchange.connector).map(|made| Arc::clone(&made.connector)))
    }

    pub(crate) async fn wired(&self, tenant: &TenantId) -> Result<Arc<Wired>, Fault> {
        let asked = (self.0.relay.roster_version(), tenant.clone());
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
        let connector = settings::rebuild(&record.kind, &read, self.tools(&record.id));
        Made { name: record.name, connector }
    }

    /// Every agent that a credential of this tenant may know of, by name.
    pub async fn agents(
        &self,
        by: &Caller,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<(Vec<Listed>, Option<String>), Refused> {
        let wired = self.wired(&by.tenant).await?;
        let mut listed: HashMap<String, Listed> = HashMap::new();
        for instance in self.0.relay.roster().instances(Some(&by.tenant)).await? {
            note(&mut listed, LINE, AgentDescriptor::named(instance.name));
        }
        for made in &wired.made {
            for agent in made.connector.list_agents().await.unwrap_or_default() {
                note(&mut listed, &made.name, agent);
            }
        }
        let mut page: Vec<Listed> = listed.into_values().collect();
        page.sort_by(|one, other| one.agent_id.cmp(&other.agent_id));
        page.retain(|agent| after.is_none_or(|after| agent.agent_id.as_str() > after));
        let limit = limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE) as usize;
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more).map(|last| last.agent_id.clone());
        Ok((page, next))
    }

    /// One agent, and whether it is there.
    pub async fn agent(&self, by: &Caller, name: &str) -> Result<Listed, Refused> {
        let ways = self.ways(by, name, false).await?;
        let Some(first) = ways.first() else { return Err(Refused::Absent) };
        let (agent_name, status) = match &first.by {
            By::Line(line, instance) => (Some(instance.name.clone()), line.status(instance).await?),
            By::Made { connector, .. } => (None, connector.agent_status(&first.agent).await),
        };
        let connectors = ways.iter().map(|way| way.name().to_owned()).collect();
        Ok(Listed { agent_id: first.agent.clone(), agent_name, connectors, status: Some(status) })
    }
}

impl Caller {
    /// An agent may always write to itself; to others unless its tenant says otherwise.
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
    /// One that cannot say is passed over.
    async fn lists(&self, agent: &str) -> bool {
        self.connector.lists(agent).await.unwrap_or(false)
    }

    fn way(&self, agent: &str, session: Option<String>) -> Way {
        let by = By::Made { name: self.name.clone(), connector: Arc::clone(&self.connector) };
        Way { by, agent: agent.to_owned(), session }
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
