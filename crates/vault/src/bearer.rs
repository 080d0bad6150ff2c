//! Whom an access token stands for, remembered for a few seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ledger::{AccessRecord, TokenHash};
use moka::sync::Cache;
use posthouse_time::Moment;
use posthouse_wire::{ClientId, LoginId, TenantId};

use crate::Fault;
use crate::keyring::Keyring;
use crate::tokens::hash;

/// Whom a bearer stands for, by our own record of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    pub client: ClientId,
    pub tenant: TenantId,
    /// The login it was granted to; nothing when the client itself asked for it.
    pub login: Option<LoginId>,
    pub expires: Moment,
}

/// How long an answer of the ledger is taken for still true. A revocation on this node is heard at
/// once, one on another node within this.
const REMEMBERED: Duration = Duration::from_secs(5);

/// What the ledger said lately. Shared by all keyrings of one vault.
#[derive(Clone)]
pub(crate) struct Bearers {
    /// Counts revocations. Answers are remembered under the count at which they were asked for: what was
    /// read before a revocation cannot be found after it.
    version: Arc<AtomicU64>,
    known: Cache<(u64, TokenHash), (Bearer, Moment)>,
}

impl Bearers {
    pub fn new() -> Self {
        let known = Cache::builder().max_capacity(10_000).time_to_live(REMEMBERED).build();
        Self { version: Arc::default(), known }
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn get(&self, version: u64, token: TokenHash, now: Moment) -> Option<Bearer> {
        let (bearer, read) = self.known.get(&(version, token))?;
        (now.since(read) < REMEMBERED && bearer.expires > now).then_some(bearer)
    }

    pub fn forget(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.known.invalidate_all();
    }
}

impl Keyring {
    /// Who presents this access token. Nothing when it is unknown, expired or revoked.
    pub async fn bearer(&self, access_token: &str) -> Result<Option<Bearer>, Fault> {
        let (token, now) = (hash(access_token), self.timepiece.now());
        let version = self.bearers.version();
        if let Some(known) = self.bearers.get(version, token, now) {
            return Ok(Some(known));
        }
        let Some(AccessRecord { client, tenant, login, expires }) = self.tokens.bearer(token, now).await?
        else {
            return Ok(None);
        };
        let bearer = Bearer { client, tenant, login, expires };
        self.bearers.known.insert((version, token), (bearer.clone(), now));
        Ok(Some(bearer))
    }

    /// Says that tokens may have ended by other hands, such as with the agent they stood for.
    pub fn forget_bearers(&self) {
        self.bearers.forget();
    }
}
