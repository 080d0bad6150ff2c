//! Bindings: authors on chat platforms who linked themselves to an agent, and the codes with which they do.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, InstanceId, Platform, TenantId, UserId};

use crate::{BotRef, Discriminator, Fault, RouteTo, TokenHash};

/// Open link codes of one agent. A further one ends the oldest.
pub const LINK_CODES_OF_AN_AGENT: u32 = 5;
/// Agents that one author can be linked to on a bot.
pub const AGENTS_OF_AN_AUTHOR: u32 = 16;
/// Authors who can be linked to one agent, counted once for each bot.
pub const AUTHORS_OF_AN_AGENT: u32 = 10_000;

/// A link between an author on a bot and an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The bot to which the author sent the code. The link counts there and nowhere else: whoever can sign the events of
    /// another bot could link anybody on that one.
    pub on: BotRef,
    pub user: UserId,
    pub to: RouteTo,
    pub linked: Moment,
    /// The author's direct messages are for this agent.
    pub dm_default: bool,
}

/// An agent of an author, as one bot sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundAgent {
    pub to: RouteTo,
    /// The agent uses this bot.
    pub fronts: bool,
    pub dm_default: bool,
    /// Profile that events of this author get.
    pub profile: Option<String>,
}

/// An author who sends a link code, as the platform proved them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkingAuthor {
    pub on: BotRef,
    pub user: UserId,
    /// Their direct chat with the bot.
    pub chat: ChatId,
}

/// A message of a linked author, as the platform proved it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorSighting {
    pub on: BotRef,
    pub user: UserId,
    pub chat: ChatId,
    /// The chat is the author's direct chat with the bot. It has no parent and no scope.
    pub direct: bool,
    pub parent: Option<ChatId>,
    pub scope: Option<posthouse_wire::ScopeId>,
}

impl AuthorSighting {
    /// The chat, what it is a thread of, and its scope.
    pub fn places(&self) -> Vec<Discriminator> {
        let chats = [Some(self.chat.clone()), self.parent.clone()];
        let chats = chats.into_iter().flatten().map(Discriminator::Chat);
        chats.chain(self.scope.clone().map(Discriminator::Scope)).collect()
    }
}

/// A place whose owner changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPlace {
    pub on: BotRef,
    pub place: Discriminator,
    pub instance: InstanceId,
}

/// Position in the list of all bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingPosition {
    pub on: BotRef,
    pub user: UserId,
    pub instance: InstanceId,
}

#[async_trait]
pub trait Bindings: Send + Sync {
    /// Stores a code by its hash, for one platform or for any. False when there is no such agent.
    async fn mint_link_code(
        &self,
        of: &InstanceId,
        code: TokenHash,
        platform: Option<&Platform>,
        expires: Moment,
    ) -> Result<bool, Fault>;
    /// Uses up a code and links the author to its agent, in one transaction. `None` when the code is unknown, expired,
    /// or for another platform, when the agent does not use this bot, and when there are too many links.
    async fn redeem_link_code(&self, code: TokenHash, by: LinkingAuthor) -> Result<Option<RouteTo>, Fault>;
    /// Deletes a code that was published. Repeating it is harmless.
    async fn revoke_link_code(&self, code: TokenHash) -> Result<(), Fault>;
    /// The agents that an author linked on this bot, the most recently linked first.
    async fn agents_of_author(&self, on: &BotRef, user: &UserId) -> Result<Vec<BoundAgent>, Fault>;
    /// Authors linked to an agent on this bot who may know what happens in this chat: first those who were seen there,
    /// then the most recently linked.
    async fn linked_authors_near(
        &self,
        of: &InstanceId,
        on: &BotRef,
        chat: &ChatId,
        at_most: u32,
    ) -> Result<Vec<UserId>, Fault>;
    /// The authors linked to one agent or to all, by bot, user and agent.
    async fn bindings(
        &self,
        of: Option<&InstanceId>,
        after: Option<BindingPosition>,
        at_most: u32,
    ) -> Result<Vec<Binding>, Fault>;
    /// Removes the links of an author to an agent, on all bots of a platform. Entries of this author that waited for the
    /// agent by the links alone end, and the agent can no longer reach the chats that only they gave it. False when there
    /// is no such link.
    async fn unbind(&self, of: &InstanceId, platform: &Platform, user: &UserId) -> Result<bool, Fault>;
    /// Makes the agent the one for the author's direct messages, instead of any other, on the bots of the platform where
    /// the author is linked to it. False when there is none.
    async fn set_dm_default(
        &self,
        of: &InstanceId,
        platform: &Platform,
        user: &UserId,
    ) -> Result<bool, Fault>;
    /// Remembers where a linked author was seen, and makes the claims live that this proves. Repeating it is harmless.
    async fn note_author(&self, seen: AuthorSighting) -> Result<Vec<ChangedPlace>, Fault>;
    /// Remembers the scope that a chat lies in.
    async fn note_place(
        &self,
        on: &BotRef,
        chat: &ChatId,
        scope: &posthouse_wire::ScopeId,
    ) -> Result<(), Fault>;
}

/// Result of ending everything that an agent has on shared bots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deprovisioned {
    pub authors: Vec<(Platform, UserId)>,
    pub places: Vec<ChangedPlace>,
    /// The credentials that were revoked by this.
    pub gateways: Vec<posthouse_wire::GatewayId>,
    pub tenant: Option<TenantId>,
}
