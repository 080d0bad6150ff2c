//! Invitations to the web chat page, their one-time links, and the browser sessions that the links start.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, InvitationId, TenantId};

use crate::Fault;

/// One person's permission to use the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub id: InvitationId,
    /// Only agents of this tenant are visible and can be talked to.
    pub tenant: TenantId,
    /// The agents it is for; `None` means every agent of the tenant.
    pub agents: Option<Vec<InstanceId>>,
    /// The display name of the person. Several invitations can share a name.
    pub person: String,
    /// Whether the person may create agents of this tenant on the page.
    pub owner: bool,
    pub created: Moment,
}

impl Invitation {
    /// Whether it allows talking to this agent of this tenant.
    pub fn covers(&self, tenant: &TenantId, agent: &InstanceId) -> bool {
        self.tenant == *tenant && self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }
}

/// The SHA-256 of a secret (hex), and the end of its validity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiringHash {
    pub hash: String,
    pub expires: Moment,
}

#[async_trait]
pub trait Invitations: Send + Sync {
    /// Stores the invitation with a one-time link. If the id is already known, the stored invitation stays as it is
    /// and gets the new link; an earlier link that was not used stops working.
    async fn invite(&self, invitation: Invitation, link: ExpiringHash) -> Result<(), Fault>;
    /// Gives an invitation a new one-time link, which replaces an unused one. False when there is no such
    /// invitation.
    async fn renew_link(&self, id: &InvitationId, link: ExpiringHash) -> Result<bool, Fault>;
    /// The invitation behind an unused link, without using it.
    async fn behind_link(&self, link: &str) -> Result<Option<Invitation>, Fault>;
    /// Uses up the link and starts a session. None when the link is unknown, used or expired.
    async fn redeem_link(&self, link: &str, session: ExpiringHash) -> Result<Option<Invitation>, Fault>;
    /// The invitation of a session that has not ended.
    async fn session(&self, session: &str) -> Result<Option<Invitation>, Fault>;
    /// Ends one session. An unknown session is fine.
    async fn end_session(&self, session: &str) -> Result<(), Fault>;
    async fn invitation(&self, id: &InvitationId) -> Result<Option<Invitation>, Fault>;
    /// Oldest first.
    async fn invitations(&self) -> Result<Vec<Invitation>, Fault>;
    /// Deletes the invitation with its links and sessions. False when there is none. Its rooms then belong to
    /// nobody.
    async fn withdraw(&self, id: &InvitationId) -> Result<bool, Fault>;
}
