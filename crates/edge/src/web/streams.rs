//! Limits of open streams per invitation, per tenant and in total. Withdrawing an invitation ends its streams.

use std::collections::HashMap;
use std::sync::Arc;

use ledger::Invitation;
use parking_lot::Mutex;
use posthouse_wire::{InvitationId, TenantId};
use tokio_util::sync::CancellationToken;

/// Largest number of streams of one invitation. A browser opens at most six.
const PER_INVITATION: usize = 16;

/// Largest number of streams of one tenant: a quarter of all, so that other tenants get their share.
const PER_TENANT: usize = IN_ALL / 4;

/// Largest number of streams of the whole server.
const IN_ALL: usize = 1_024;

/// A tenant with fewer streams than this may open one even when the total is reached.
const ALWAYS: usize = 4;

/// Additional streams beyond [`IN_ALL`] for such tenants.
const SPARE: usize = 1_024;

/// Counts of open streams. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<OpenStreams>>);

#[derive(Default)]
struct OpenStreams {
    open: usize,
    tenants: HashMap<TenantId, usize>,
    invitations: HashMap<InvitationId, InvitationStreams>,
}

#[derive(Default)]
struct InvitationStreams {
    open: usize,
    ended: CancellationToken,
}

/// One counted stream. Dropping it releases its place.
pub(super) struct OpenStream {
    streams: Streams,
    pub(super) tenant: TenantId,
    invitation: InvitationId,
    /// Cancelled when the invitation is withdrawn.
    pub(super) ended: CancellationToken,
}

impl Streams {
    /// Counts one more stream; `None` if a limit is reached.
    pub(super) fn open(&self, of: &Invitation) -> Option<OpenStream> {
        let mut record = self.0.lock();
        let of_tenant = record.tenants.get(&of.tenant).copied().unwrap_or(0);
        let of_invitation = record.invitations.get(&of.id).map_or(0, |of_it| of_it.open);
        let in_all = if of_tenant < ALWAYS { IN_ALL + SPARE } else { IN_ALL };
        if record.open >= in_all || of_tenant >= PER_TENANT || of_invitation >= PER_INVITATION {
            return None;
        }
        record.open += 1;
        *record.tenants.entry(of.tenant.clone()).or_default() += 1;
        let of_it = record.invitations.entry(of.id.clone()).or_default();
        of_it.open += 1;
        Some(OpenStream {
            streams: self.clone(),
            tenant: of.tenant.clone(),
            invitation: of.id.clone(),
            ended: of_it.ended.clone(),
        })
    }

    /// Ends every stream of this invitation.
    pub(super) fn end(&self, invitation: &InvitationId) {
        if let Some(of_it) = self.0.lock().invitations.get(invitation) {
            of_it.ended.cancel();
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut record = self.streams.0.lock();
        record.open -= 1;
        if let Some(open) = record.tenants.get_mut(&self.tenant) {
            *open -= 1;
            if *open == 0 {
                record.tenants.remove(&self.tenant);
            }
        }
        if let Some(of_it) = record.invitations.get_mut(&self.invitation) {
            of_it.open -= 1;
            if of_it.open == 0 {
                record.invitations.remove(&self.invitation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthouse_time::Moment;

    fn invitation(tenant: &str, number: usize) -> Invitation {
        Invitation {
            id: format!("inv_{tenant}_{number}").into(),
            tenant: tenant.into(),
            agents: None,
            person: "ann".to_owned(),
            owner: false,
            created: Moment::from_millis(0),
        }
    }

    #[test]
    fn a_tenant_that_fills_its_streams_leaves_another_its_share() {
        let streams = Streams::default();
        let mut held = Vec::new();
        for number in 0..1_000 {
            let one = invitation("ten_a", number);
            let of_one = held.len();
            while let Some(stream) = streams.open(&one) {
                held.push(stream);
            }
            assert!(held.len() - of_one <= PER_INVITATION);
        }
        assert_eq!(held.len(), PER_TENANT);
        for tenant in ["ten_c", "ten_d", "ten_e"] {
            let of_tenant = (0..100).map(|number| invitation(tenant, number));
            held.extend(
                of_tenant.flat_map(|one| std::iter::from_fn(|| streams.open(&one)).collect::<Vec<_>>()),
            );
        }
        assert_eq!(held.len(), IN_ALL, "four tenants hold them all");
        let enrolled_agent = invitation("ten_f", 0);
        let few: Vec<OpenStream> = std::iter::from_fn(|| streams.open(&enrolled_agent)).collect();
        assert_eq!(few.len(), ALWAYS);
        drop(few);
        held.truncate(PER_TENANT);
        let other = invitation("ten_b", 0);
        let others: Vec<OpenStream> = std::iter::from_fn(|| streams.open(&other)).collect();
        assert_eq!(others.len(), PER_INVITATION);
        held.clear();
        drop(others);
        let record = streams.0.lock();
        assert!(record.open == 0 && record.tenants.is_empty() && record.invitations.is_empty());
    }
}
