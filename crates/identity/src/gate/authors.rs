//! Authors on shared bots: the agents they are linked to, and where they were seen.

use std::sync::Arc;
use std::time::Duration;

use ledger::{AuthorSighting, Binding, BindingPosition, Bindings, BotRef, BoundAgent, ChangedPlace};
use posthouse_wire::{ChatId, InstanceId, Platform, ScopeId, Source, UserId};

use super::IncomingMessage;
use crate::record_cache::RecordCache;
use crate::roster_versions::RosterChange;
use crate::{Fault, RosterView};

/// Lifetime of cached links. They are read for every message on a shared bot.
const REMEMBERED: Duration = Duration::from_secs(600);
/// How often it is stored again that an author is in a chat, or a chat in a scope.
const SEEN_AGAIN: Duration = Duration::from_secs(6 * 3600);

type LinkCache = RecordCache<(BotRef, UserId), Arc<[BoundAgent]>>;

/// The links of authors. Clones share their caches.
#[derive(Clone)]
pub struct AuthorLinks {
    records: Arc<dyn Bindings>,
    roster: RosterView,
    /// Linked authors have a cache of their own, so that many strangers cannot evict them.
    linked: Arc<LinkCache>,
    unlinked: Arc<LinkCache>,
    /// Authors who were stored as seen in a chat.
    seen: Arc<RecordCache<(BotRef, UserId, ChatId), ()>>,
    /// Chats that were stored as part of a scope.
    places: Arc<RecordCache<(BotRef, ChatId, ScopeId), ()>>,
}

impl AuthorLinks {
    pub(super) fn new(records: Arc<dyn Bindings>, roster: RosterView) -> Self {
        Self {
            records,
            roster,
            linked: Arc::new(RecordCache::new(200_000, REMEMBERED)),
            unlinked: Arc::new(RecordCache::new(200_000, REMEMBERED)),
            seen: Arc::new(RecordCache::new(200_000, SEEN_AGAIN)),
            places: Arc::new(RecordCache::new(100_000, SEEN_AGAIN)),
        }
    }

    /// The agents that an author linked on this bot and that use it, the most recently linked first.
    pub(super) async fn agents(&self, on: &BotRef, user: &UserId) -> Result<Arc<[BoundAgent]>, Fault> {
        let key = (on.clone(), user.clone());
        let known =
            self.roster.cached(&self.linked, &key).or_else(|| self.roster.cached(&self.unlinked, &key));
        if let Some(known) = known {
            return Ok(known);
        }
        let read = self.roster.read_mark();
        let found = self.records.agents_of_author(on, user).await?;
        let mut depends_on = vec![RosterChange::Author(on.platform.clone(), user.clone())];
        if !found.is_empty() {
            // Whether an agent uses the bot follows from its settings and from the routes of the bot.
            depends_on.push(RosterChange::Bot(on.clone()));
            depends_on.extend(found.iter().map(|agent| RosterChange::Agent(agent.to.instance.clone())));
        }
        let cache = if found.is_empty() { &self.unlinked } else { &self.linked };
        let agents: Arc<[BoundAgent]> = found.into_iter().filter(|agent| agent.fronts).collect();
        cache.insert(key, Arc::clone(&agents), depends_on, read);
        Ok(agents)
    }

    /// Whether an author is linked to this agent on this bot and the agent uses it.
    pub(super) async fn is_linked(
        &self,
        on: &BotRef,
        user: Option<&UserId>,
        to: &InstanceId,
    ) -> Result<bool, Fault> {
        let Some(user) = user else { return Ok(false) };
        Ok(self.agents(on, user).await?.iter().any(|agent| agent.to.instance == *to))
    }

    /// Stores that a linked author was seen in this chat. Claims of their agents that this proves become live.
    pub(super) async fn note_seen(
        &self,
        incoming: IncomingMessage<'_>,
        linked: &[BoundAgent],
    ) -> Result<(), Fault> {
        let (on, source) = (incoming.on, incoming.origin.source);
        let (Some(user), Some(chat)) = (&source.user_id, &source.chat_id) else { return Ok(()) };
        let key = (on.clone(), user.clone(), chat.clone());
        if self.roster.cached(&self.seen, &key).is_some() {
            return Ok(());
        }
        let read = self.roster.read_mark();
        let direct = incoming.is_direct();
        let sighting = AuthorSighting {
            on: on.clone(),
            user: user.clone(),
            chat: chat.clone(),
            direct,
            parent: source.parent_chat_id.clone().filter(|_| !direct),
            scope: source.scope_id.clone().filter(|_| !direct),
        };
        let places = sighting.places();
        let proven = self.records.note_author(sighting).await?;
        self.announce(&proven);
        // A new claim of one of the agents is proven when it is made, by what is stored here.
        let mut depends_on = vec![RosterChange::Author(on.platform.clone(), user.clone())];
        depends_on.extend(linked.iter().map(|agent| RosterChange::Agent(agent.to.instance.clone())));
        // A claim that waits for a place of another agent is looked at again when that agent gives it up.
        depends_on.extend(places.into_iter().map(|place| RosterChange::Place(on.clone(), place)));
        self.seen.insert(key, (), depends_on, read);
        Ok(())
    }

    /// Stores which scope a chat lies in.
    pub(super) async fn note_place(&self, on: &BotRef, source: &Source) -> Result<(), Fault> {
        let (Some(chat), Some(scope)) = (&source.chat_id, &source.scope_id) else { return Ok(()) };
        let key = (on.clone(), chat.clone(), scope.clone());
        if self.roster.cached(&self.places, &key).is_some() {
            return Ok(());
        }
        let read = self.roster.read_mark();
        self.records.note_place(on, chat, scope).await?;
        self.places.insert(key, (), vec![RosterChange::Bot(on.clone())], read);
        Ok(())
    }

    /// Announces places that got another owner.
    pub(super) fn announce(&self, changed: &[ChangedPlace]) {
        for ChangedPlace { on, place, instance } in changed {
            self.roster.place_changed(on, place);
            tracing::info!(bot.id = %on.bot, platform = %on.platform, instance.id = %instance, %place, "a claim changed the owner of a place");
        }
    }

    /// Removes the links of an author to an agent, on all bots of the platform. Call it through the relay, so that
    /// waiting entries are not handed over any more.
    pub async fn unlink(&self, of: &InstanceId, platform: &Platform, user: &UserId) -> Result<bool, Fault> {
        let known = self.records.unbind(of, platform, user).await?;
        // A link that did not exist changes nothing for anybody.
        if known {
            self.roster.author_changed(platform, user);
            tracing::info!(instance.id = %of, %platform, "an author is no longer linked to an agent");
        }
        Ok(known)
    }

    /// Makes an agent the one for an author's direct messages, on the bots where the author is linked to it. False when
    /// there is none.
    pub async fn set_dm_default(
        &self,
        of: &InstanceId,
        platform: &Platform,
        user: &UserId,
    ) -> Result<bool, Fault> {
        let known = self.records.set_dm_default(of, platform, user).await?;
        if known {
            self.roster.author_changed(platform, user);
        }
        Ok(known)
    }

    /// The links of one agent or of all, in pages.
    pub async fn list(
        &self,
        of: Option<&InstanceId>,
        after: Option<BindingPosition>,
        at_most: u32,
    ) -> Result<Vec<Binding>, Fault> {
        Ok(self.records.bindings(of, after, at_most).await?)
    }

    pub(super) fn roster(&self) -> &RosterView {
        &self.roster
    }

    pub(super) fn records(&self) -> &Arc<dyn Bindings> {
        &self.records
    }
}
