//! Routing: from an event's chat, scope or path to the agent it belongs to.

use ledger::{BotRef, Discriminator, RouteTo};
use posthouse_wire::Source;

use crate::roster_versions::RosterChange;
use crate::{Fault, RosterView};

/// The parts of an event that decide its agent. The bot that received it only selects the set of routes.
#[derive(Clone, Copy, Debug)]
pub struct Bearings<'a> {
    pub source: &'a Source,
    /// The rest of the webhook's path, for platforms that route by it.
    pub path: Option<&'a str>,
}

impl Bearings<'_> {
    /// Most specific first. A thread belongs to its parent's agent unless it has its own route.
    pub(crate) fn discriminators(&self) -> Vec<Discriminator> {
        let chats = [&self.source.chat_id, &self.source.parent_chat_id];
        let mut candidates: Vec<_> = chats.into_iter().flatten().cloned().map(Discriminator::Chat).collect();
        candidates.extend(self.source.scope_id.clone().map(Discriminator::Scope));
        candidates.extend(self.path.map(|path| Discriminator::Path(path.to_owned())));
        candidates.push(Discriminator::Any);
        candidates
    }
}

/// The agent for an event, and the kind of route that led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    pub to: RouteTo,
    /// The route names the event's chat or scope, so its creator wants messages from there.
    pub names_place: bool,
}

impl RosterView {
    /// Returns the agent for an event of this bot. `None` when there is no route for it.
    pub async fn route(&self, on: &BotRef, bearings: Bearings<'_>) -> Result<Option<Routed>, Fault> {
        let whole = (on.clone(), vec![Discriminator::Any]);
        if let Some(known) = self.0.routes.get(&whole, &self.0.versions, self.now()) {
            return Ok(Some(known));
        }
        // The key holds all bearings of the event, because scopes or paths of two tenants may contain the same chat.
        let particular = (on.clone(), bearings.discriminators());
        if let Some(known) = self.0.routes.get(&particular, &self.0.versions, self.now()) {
            return Ok(Some(known));
        }
        let read = self.read_mark();
        let records = &self.0.records;
        let Some(to) = records.route(on, &particular.1).await? else { return Ok(None) };
        // An owned bot has one route for everything. A shared bot is cached per chat.
        let owned = records.route(on, &whole.1).await?.is_some();
        let places: Vec<Discriminator> =
            particular.1.iter().filter(|which| which.is_place()).cloned().collect();
        let names_place = !owned && (bearings.path.is_none() || records.route(on, &places).await?.is_some());
        let depends_on = vec![RosterChange::Bot(on.clone()), RosterChange::Agent(to.instance.clone())];
        let routed = Routed { to, names_place };
        let key = if owned { whole } else { particular };
        self.0.routes.insert(key, routed.clone(), depends_on, read);
        Ok(Some(routed))
    }
}
