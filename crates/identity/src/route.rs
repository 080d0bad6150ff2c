//! Routing: from an event's chat, scope or path to the agent it belongs to.

use ledger::{BotRef, Discriminator, PlaceOwner, RouteOrigin, RouteTo};
use posthouse_wire::{ChatId, ScopeId, Source};

use crate::roster_versions::RosterChange;
use crate::{Fault, RosterView};

/// The parts of an event that decide its agent. The bot that received it only selects the set of routes.
#[derive(Clone, Copy, Debug)]
pub struct EventOrigin<'a> {
    pub source: &'a Source,
    /// The rest of the webhook's path, for platforms that route by it.
    pub path: Option<&'a str>,
}

/// The place of an event: everything in its origin that decides its agent. Scopes or paths of two tenants may contain
/// the same chat, so a cache needs all of it in its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventPlace {
    chat: Option<ChatId>,
    parent_chat: Option<ChatId>,
    scope: Option<ScopeId>,
    path: Option<Box<str>>,
}

impl EventOrigin<'_> {
    pub(crate) fn place(&self) -> EventPlace {
        EventPlace {
            chat: self.source.chat_id.clone(),
            parent_chat: self.source.parent_chat_id.clone(),
            scope: self.source.scope_id.clone(),
            path: self.path.map(Box::from),
        }
    }

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

/// The agent for an event, and the route that led there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    pub to: RouteTo,
    /// The operator's route names the event's chat or scope, so messages from there are wanted.
    pub names_place: bool,
    /// The agent has the place by a claim of its own.
    pub is_claim: bool,
    /// The route names the scope around the chat.
    pub by_scope: bool,
    /// Profile of the agent for this event.
    pub profile: Option<String>,
}

impl RosterView {
    /// Returns the agent that the place of an event belongs to, by a route of this bot. `None` when there is no route
    /// for it.
    pub async fn route(&self, on: &BotRef, origin: EventOrigin<'_>) -> Result<Option<Routed>, Fault> {
        if let Some(known) = self.cached(&self.0.whole_routes, on) {
            return Ok(Some(known));
        }
        let key = (on.clone(), origin.place());
        if let Some(known) = self.cached(&self.0.place_routes, &key) {
            return Ok(known);
        }
        let read = self.read_mark();
        let candidates = origin.discriminators();
        let found = self.0.records.place_owner(on, &candidates).await?;
        // An owned bot has one route for everything. A shared bot is cached per chat, and also who has no route: one
        // tenant's claim concerns only the places that it names.
        let owned = found.as_ref().is_some_and(|found| found.which == Discriminator::Any);
        let mut depends_on = vec![RosterChange::Bot(on.clone())];
        if !owned {
            depends_on.extend(candidates.into_iter().map(|place| RosterChange::Place(on.clone(), place)));
        }
        depends_on.extend(found.as_ref().map(|found| RosterChange::Agent(found.to.instance.clone())));
        let routed = found.map(Routed::new);
        match &routed {
            Some(routed) if owned => {
                self.0.whole_routes.insert(on.clone(), routed.clone(), depends_on, read);
            }
            _ => self.0.place_routes.insert(key, routed.clone(), depends_on, read),
        }
        Ok(routed)
    }
}

impl Routed {
    fn new(owner: PlaceOwner) -> Self {
        let PlaceOwner { to, which, origin, profile } = owner;
        let is_claim = origin != RouteOrigin::Operator;
        let by_scope = matches!(which, Discriminator::Scope(_));
        Self { to, names_place: which.is_place() && !is_claim, is_claim, by_scope, profile }
    }
}
