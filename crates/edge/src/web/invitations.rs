//! Invitations to the chat page: create, renew the link, withdraw.
//!
//! A link has a one-time secret after `#`, so the secret stays in the browser: no server, proxy or link preview sees
//! it. The page exchanges it for a session cookie by a POST. Secrets are stored as hashes.

use identity::fingerprint;
use ledger::{ExpiringHash, Invitation};
use posthouse_wire::{InstanceId, InvitationId, Secret, TenantId};
use std::time::Duration;

use super::Web;
use super::person::PersonName;
use crate::Fault;

/// Lifetime of a link.
pub const LINK_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Lifetime of a session. Withdrawing the invitation ends it at once.
pub(super) const SESSION_LIFE: Duration = Duration::from_secs(180 * 24 * 60 * 60);

/// The invitation whose link `posthouse up` prints at each start.
const OF_UP: &str = "inv_up";

/// The content of a new invitation.
pub struct NewInvitation {
    pub tenant: TenantId,
    /// The agents it is for; `None` means every agent of the tenant.
    pub agents: Option<Vec<InstanceId>>,
    pub person: PersonName,
    /// The person may create agents of this tenant on the page.
    pub owner: bool,
}

/// The link for the invited person.
pub fn link(public_url: &str, secret: &Secret) -> String {
    format!("{public_url}/chat#invite={}", secret.expose())
}

impl Web {
    /// Invites one person. The returned secret is for the link; it cannot be read again.
    pub async fn invite(&self, new: NewInvitation) -> Result<(InvitationId, Secret), Fault> {
        let id = InvitationId::new(format!("inv_{}", vault::random_hex(16)?.expose()));
        let secret = self.invite_as(id.clone(), new).await?;
        Ok((id, secret))
    }

    /// A new link for the invitation that `posthouse up` uses. Its sessions and rooms stay.
    pub async fn invite_starter(&self, new: NewInvitation) -> Result<Secret, Fault> {
        self.invite_as(OF_UP.into(), new).await
    }

    async fn invite_as(&self, id: InvitationId, new: NewInvitation) -> Result<Secret, Fault> {
        let NewInvitation { tenant, agents, person, owner } = new;
        let person = person.as_str().to_owned();
        let created = self.timepiece.now();
        let (secret, link) = self.secret(LINK_LIFE)?;
        self.invitations.invite(Invitation { id, tenant, agents, person, owner, created }, link).await?;
        Ok(secret)
    }

    /// A new link for an invitation, for another device or a lost cookie. `None` if there is no such invitation.
    pub async fn renew_link(&self, id: &InvitationId) -> Result<Option<Secret>, Fault> {
        let (secret, link) = self.secret(LINK_LIFE)?;
        Ok(self.invitations.renew_link(id, link).await?.then_some(secret))
    }

    /// Ends an invitation: its link, its sessions and all of its open streams.
    pub async fn withdraw(&self, id: &InvitationId) -> Result<bool, Fault> {
        let withdrawn = self.invitations.withdraw(id).await?;
        self.streams.end(id);
        Ok(withdrawn)
    }

    /// A new secret, and its hash for storage.
    pub(super) fn secret(&self, life: Duration) -> Result<(Secret, ExpiringHash), Fault> {
        let secret = vault::random_hex(32)?;
        let hash = fingerprint(secret.expose());
        Ok((secret, ExpiringHash { hash, expires: self.timepiece.now() + life }))
    }
}
