//! From an event's own bearings to the one agent it belongs to.

use ledger::{Discriminator, Identity, RouteTo};
use posthouse_wire::Source;

use crate::{Fault, Relay};

/// What in an event says whose it is. The bot that brought it only says which routes to look at.
#[derive(Clone, Copy, Debug)]
pub struct Bearings<'a> {
    pub source: &'a Source,
    /// The rest of the webhook's path, where a platform routes by it.
    pub path: Option<&'a str>,
}

impl Bearings<'_> {
    /// Most particular first. A thread belongs where its parent does unless routed by itself.
    fn discriminators(&self) -> Vec<Discriminator> {
        let chats = [&self.source.chat_id, &self.source.parent_chat_id];
        let mut candidates: Vec<_> = chats.into_iter().flatten().cloned().map(Discriminator::Chat).collect();
        candidates.extend(self.source.scope_id.clone().map(Discriminator::Scope));
        candidates.extend(self.path.map(|path| Discriminator::Path(path.to_owned())));
        candidates.push(Discriminator::Any);
        candidates
    }
}

impl Relay {
    /// Where an event that came to this bot goes. Nothing when no route was made for it.
    pub async fn route(&self, on: &Identity, bearings: Bearings<'_>) -> Result<Option<RouteTo>, Fault> {
        // Remembered under the roster as it was when it was asked: what was read before a change can not
        // be found after it.
        let version = *self.0.roster_version.borrow();
        let whole = (version, on.clone(), vec![Discriminator::Any]);
        if let Some(known) = self.0.routes.get(&whole) {
            return Ok(Some(known));
        }
        // And under all of an event's bearings: two tenants' scopes or paths may hold the same chat.
        let particular = (version, on.clone(), bearings.discriminators());
        if let Some(known) = self.0.routes.get(&particular) {
            return Ok(Some(known));
        }
        let found = self.0.roster.route(on, &particular.2).await?;
        if let Some(found) = &found {
            // An owned bot has its one route for everything; a shared one is remembered chat by chat.
            let owned = self.0.roster.route(on, &whole.2).await?.is_some();
            self.0.routes.insert(if owned { whole } else { particular }, found.clone());
        }
        Ok(found)
    }
}
