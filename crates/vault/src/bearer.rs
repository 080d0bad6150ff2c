//! Owners of access tokens, cached for a few seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use ledger::{AccessRecord, TokenHash};
use moka::sync::Cache;
use posthouse_time::{Instant, Moment};
use posthouse_wire::{ClientId, LoginId, TenantId};

use crate::Fault;
use crate::keyring::Keyring;
use crate::tokens::hash;

/// Owner of an access token, according to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    pub client: ClientId,
    pub tenant: TenantId,
    /// The login it was granted to. `None` when it was granted to the client itself.
    pub login: Option<LoginId>,
    pub expires: Moment,
}

/// Lifetime of a cache entry. A revocation on this node takes effect at once, one on another node within this time.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Cache of recent answers of the ledger. Shared by all keyrings of one vault.
#[derive(Clone)]
pub(crate) struct Bearers {
    revocations: Arc<Revocations>,
    known: Cache<TokenHash, Remembered>,
}

#[derive(Clone)]
struct Remembered {
    bearer: Bearer,
    read: Instant,
    /// Number of revocations before the ledger was read.
    revocations: u64,
}

/// Owner whose tokens were revoked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RevokedOwner {
    Tenant(TenantId),
    Client(ClientId),
    Login(LoginId),
}

/// Number of the last revocation per owner. A cache entry that was read before it is invalid.
#[derive(Default)]
struct Revocations {
    count: AtomicU64,
    /// Cache entries read before this revocation are invalid for every owner.
    floor: AtomicU64,
    last: DashMap<RevokedOwner, u64>,
}

/// Maximum number of owners whose last revocation is kept. Beyond it, a revocation invalidates all entries.
const MOST: usize = 100_000;

impl Revocations {
    fn note(&self, whose: Option<RevokedOwner>) {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        match whose {
            Some(whose) if self.last.len() < MOST => drop(self.last.insert(whose, number)),
            _ => self.raise_floor(number),
        }
    }

    /// Raises the floor first, so that a concurrent reader finds either the floor or the owner's entry. Revocations
    /// after this one stay: without them, entries read between the two would become valid again.
    fn raise_floor(&self, number: u64) {
        self.floor.fetch_max(number, Ordering::SeqCst);
        self.last.retain(|_, last| *last > number);
    }

    fn since(&self, read_after: u64, bearer: &Bearer) -> bool {
        let after = |whose: RevokedOwner| self.last.get(&whose).is_some_and(|last| *last > read_after);
        after(RevokedOwner::Tenant(bearer.tenant.clone()))
            || after(RevokedOwner::Client(bearer.client.clone()))
            || bearer.login.clone().is_some_and(|login| after(RevokedOwner::Login(login)))
            || self.floor.load(Ordering::SeqCst) > read_after
    }
}

impl Bearers {
    pub fn new() -> Self {
        let known = Cache::builder().max_capacity(10_000).time_to_live(REMEMBERED).build();
        Self { revocations: Arc::default(), known }
    }

    fn get(&self, token: TokenHash, now: Moment, instant: Instant) -> Option<Bearer> {
        let Remembered { bearer, read, revocations } = self.known.get(&token)?;
        let is_fresh = instant.since(read) < REMEMBERED && bearer.expires > now;
        (is_fresh && !self.revocations.since(revocations, &bearer)).then_some(bearer)
    }

    /// Invalidates the cached tokens of one owner.
    pub fn forget(&self, whose: RevokedOwner) {
        self.revocations.note(Some(whose));
    }

    pub fn forget_all(&self) {
        self.revocations.note(None);
        self.known.invalidate_all();
    }
}

impl Keyring {
    /// Returns the owner of this access token, or `None` when it is unknown, expired or revoked.
    pub async fn bearer(&self, access_token: &str) -> Result<Option<Bearer>, Fault> {
        let (token, now, instant) = (hash(access_token), self.timepiece.now(), self.timepiece.instant());
        if let Some(known) = self.bearers.get(token, now, instant) {
            return Ok(Some(known));
        }
        // The count is taken before the ledger is read, so that a revocation during the read counts as later.
        let revocations = self.bearers.revocations.count.load(Ordering::SeqCst);
        let Some(AccessRecord { client, tenant, login, expires }) = self.tokens.bearer(token, now).await?
        else {
            return Ok(None);
        };
        let bearer = Bearer { client, tenant, login, expires };
        let remembered = Remembered { bearer: bearer.clone(), read: instant, revocations };
        self.bearers.known.insert(token, remembered);
        Ok(Some(bearer))
    }

    /// Invalidates the cached tokens of a tenant after other code ended them, for example by deleting their agent.
    pub fn forget_bearers_of(&self, tenant: &TenantId) {
        self.bearers.forget(RevokedOwner::Tenant(tenant.clone()));
    }

    /// Invalidates all cached tokens after other code may have ended any of them.
    pub fn forget_bearers(&self) {
        self.bearers.forget_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revocation_that_comes_while_all_are_forgotten_is_not_forgotten() {
        let revocations = Revocations::default();
        // A revocation of all owners has taken its number, but has not raised the floor yet.
        let everybody = revocations.count.fetch_add(1, Ordering::SeqCst) + 1;
        let bearer = Bearer {
            client: "agent:inst_1".into(),
            tenant: "ten_1".into(),
            login: None,
            expires: Moment::default(),
        };
        revocations.note(Some(RevokedOwner::Client(bearer.client.clone())));
        revocations.raise_floor(everybody);
        assert!(revocations.since(everybody, &bearer), "what was read between the two is not believed");
        assert!(!revocations.since(everybody + 1, &bearer));
    }
}
