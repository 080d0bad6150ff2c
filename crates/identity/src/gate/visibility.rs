//! Visibility: an agent that claimed a place gets messages of others there only while an author linked to it can see
//! the chat itself.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use ledger::{BotRef, RouteTo};
use posthouse_wire::{ChatId, InstanceId, Source, UserId};

use super::authors::AuthorLinks;
use crate::Fault;
use crate::record_cache::RecordCache;
use crate::roster_versions::RosterChange;

/// How long an answer of the platform is used (relay contract section 18).
const REMEMBERED: Duration = Duration::from_secs(60);
/// Authors of one agent about whom the platform is asked for one chat. For a thread, as many of the chat above it follow.
const MOST_ASKED_ABOUT: u32 = 3;

/// Asks the platform whether somebody can see a chat.
#[async_trait]
pub trait ChatVisibility: Send + Sync {
    /// Asked for a message to this agent. False also when the platform does not answer.
    async fn sees(&self, of: &RouteTo, on: &BotRef, user: &UserId, chat: &ChatId) -> bool;
}

/// Decides by the platform's word. Clones share their cache.
#[derive(Clone)]
pub(super) struct Visibility {
    links: AuthorLinks,
    chat_visibility: Arc<OnceLock<Arc<dyn ChatVisibility>>>,
    answers: Arc<RecordCache<(InstanceId, BotRef, ChatId), bool>>,
}

impl Visibility {
    pub fn new(links: AuthorLinks) -> Self {
        Self {
            links,
            chat_visibility: Arc::default(),
            answers: Arc::new(RecordCache::new(10_000, REMEMBERED)),
        }
    }

    pub fn set_chat_visibility(&self, chat_visibility: Arc<dyn ChatVisibility>) {
        // Set once, when the server is put together.
        let _ = self.chat_visibility.set(chat_visibility);
    }

    /// Whether an author who is linked to the agent can see the chat of this message. Without anybody to ask about, and
    /// without anybody to ask, nobody can.
    pub async fn covers(&self, of: &RouteTo, on: &BotRef, source: &Source) -> Result<bool, Fault> {
        // A thread may have fewer members than the chat above it, so the question is about the thread itself.
        let Some(chat) = &source.chat_id else { return Ok(false) };
        let agent = &of.instance;
        let key = (agent.clone(), on.clone(), chat.clone());
        let roster = self.links.roster();
        if let Some(known) = roster.cached(&self.answers, &key) {
            return Ok(known);
        }
        let Some(chat_visibility) = self.chat_visibility.get() else { return Ok(false) };
        let read = roster.read_mark();
        let mut authors: Vec<UserId> = Vec::new();
        // In a new thread nobody was seen yet. Those who were seen in the chat above it may see it too.
        for place in [Some(chat), source.parent_chat_id.as_ref()].into_iter().flatten() {
            let found = self.links.records().linked_authors_near(agent, on, place, MOST_ASKED_ABOUT).await?;
            authors.extend(found);
        }
        let mut known = HashSet::new();
        authors.retain(|user| known.insert(user.clone()));
        let mut depends_on = vec![RosterChange::Agent(agent.clone())];
        depends_on.extend(authors.iter().map(|user| RosterChange::Author(on.platform.clone(), user.clone())));
        let mut visible = false;
        for user in &authors {
            if chat_visibility.sees(of, on, user, chat).await {
                visible = true;
                break;
            }
        }
        self.answers.insert(key, visible, depends_on, read);
        Ok(visible)
    }
}
