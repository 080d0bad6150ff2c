//! Default verifier: tokens signed by the portal, checked with the keys that it publishes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};

use super::claims::FireToken;
use super::fetch::KeySetSource;
use super::{Expected, FireVerifier, KeySet, VerifiedFire, bearer};

/// From this age on, a key set is renewed in the background.
const AGEING: Duration = Duration::from_secs(240);
/// From this age on, a fire waits for a newer set.
const OLD: Duration = Duration::from_secs(300);
/// Up to this age, a set is used while the portal is not reachable.
const DEAD: Duration = Duration::from_secs(3600);
/// Shortest interval of fetches because of unknown keys, so that invalid tokens cannot cause a stream of
/// requests.
const FORCED: Duration = Duration::from_secs(10);
/// Shortest pause after a failed fetch while there is no usable set. A machine that wakes up has no network
/// at first.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The same while there is a usable set: a portal that does not answer must not delay every fire.
const AFTER_FAILURE_AT_EASE: Duration = Duration::from_secs(10);

/// Checks tokens with a published key set, which is cached for five minutes. Clones share it.
#[derive(Clone)]
pub struct PortalJwt(Arc<PortalKeys>);

struct PortalKeys {
    source: KeySetSource,
    expected: Expected,
    timepiece: Timepiece,
    cached: Mutex<CachedKeySet>,
    /// One fetch at a time. Callers that need the same set wait for it.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

/// The cached key set, with the times of fetches and attempts.
#[derive(Clone, Default)]
struct CachedKeySet {
    keys: Arc<KeySet>,
    fetched: Option<Instant>,
    failed: Option<Instant>,
    forced: Option<Instant>,
    /// Number of fetches that have ended, successful or not.
    fetches: u64,
}

/// Reason for a fetch.
#[derive(Clone, Copy)]
enum Reason {
    Age,
    UnknownKey,
}

impl PortalJwt {
    /// `url` is the address of the portal's key set. Nothing is fetched before the first fire.
    pub fn new(url: &str, expected: Expected, timepiece: Timepiece) -> Self {
        Self::of(KeySetSource::new(url, None), expected, timepiece)
    }

    /// Like [`PortalJwt::new`], with `tls` instead of the machine's trusted certificates.
    pub fn with_tls(
        url: &str,
        expected: Expected,
        timepiece: Timepiece,
        tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        Self::of(KeySetSource::new(url, Some(tls)), expected, timepiece)
    }

    fn of(source: KeySetSource, expected: Expected, timepiece: Timepiece) -> Self {
        let (cached, fetching) = (Mutex::default(), Arc::default());
        Self(Arc::new(PortalKeys { source, expected, timepiece, cached, fetching }))
    }
}

#[async_trait]
impl FireVerifier for PortalJwt {
    async fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Option<VerifiedFire> {
        let token = FireToken::read(bearer(headers)?)?;
        let Expected { audience, issuer } = &self.0.expected;
        // A token that no key could make valid is refused before anything is fetched for it.
        if !token.holds(audience, issuer.as_deref(), self.0.timepiece.now()) {
            return None;
        }
        let keys = self.0.keys_for(token.kid()?).await;
        // Checked again, because the fetch may have taken time.
        let holds = token.holds(audience, issuer.as_deref(), self.0.timepiece.now());
        let claims = token.judged_by(&keys).filter(|_| holds)?;
        VerifiedFire::by_token(claims).bound_to(body)
    }
}

impl PortalKeys {
    /// The set for a token that names this key.
    async fn keys_for(self: &Arc<Self>, kid: &str) -> Arc<KeySet> {
        let seen = self.cached.lock().clone();
        let now = self.timepiece.instant();
        if seen.fetched.is_none_or(|at| passed(at, now, OLD)) {
            self.renew(seen.fetches, Reason::Age).await;
        } else if seen.fetched.is_some_and(|at| passed(at, now, AGEING)) {
            self.renew_aside();
        }
        let cached = self.cached.lock().clone();
        if cached.fetches == seen.fetches && !kid.is_empty() && !cached.keys.knows(Some(kid)) {
            self.renew(seen.fetches, Reason::UnknownKey).await;
        }
        self.cached.lock().believed(self.timepiece.instant())
    }

    /// Fetches, unless another caller has done so since `seen`, or the last attempt is too recent.
    async fn renew(&self, seen: u64, reason: Reason) {
        let _alone = self.fetching.lock().await;
        let now = self.timepiece.instant();
        {
            let mut cached = self.cached.lock();
            if cached.fetches != seen || !cached.may_ask(reason, now) {
                return;
            }
            if matches!(reason, Reason::UnknownKey) {
                cached.forced = Some(now);
            }
        }
        self.fetch(now).await;
    }

    /// Fetches in the background, unless a fetch is running.
    fn renew_aside(self: &Arc<Self>) {
        let now = self.timepiece.instant();
        let Ok(alone) = Arc::clone(&self.fetching).try_lock_owned() else { return };
        if self.cached.lock().may_ask(Reason::Age, now) {
            let portal = Arc::clone(self);
            tokio::spawn(async move {
                let _alone = alone;
                portal.fetch(now).await;
            });
        }
    }

    /// The set's age counts from `now`, the time of the request.
    async fn fetch(&self, now: Instant) {
        let fetched = self.source.fetch().await;
        let mut cached = self.cached.lock();
        cached.fetches += 1;
        match fetched {
            Ok(keys) => {
                cached.keys = Arc::new(keys);
                (cached.fetched, cached.failed) = (Some(now), None);
            }
            Err(why) => {
                cached.failed = Some(now);
                tracing::warn!(url = self.source.url(), "cannot fetch the portal's keys: {why}");
            }
        }
    }
}

impl CachedKeySet {
    fn may_ask(&self, reason: Reason, now: Instant) -> bool {
        let rest = if self.counts(now) { AFTER_FAILURE_AT_EASE } else { AFTER_FAILURE };
        let rested = self.failed.is_none_or(|at| passed(at, now, rest));
        match reason {
            Reason::Age => rested,
            Reason::UnknownKey => rested && self.forced.is_none_or(|at| passed(at, now, FORCED)),
        }
    }

    fn counts(&self, now: Instant) -> bool {
        self.fetched.is_some_and(|at| now.since(at) < DEAD)
    }

    fn believed(&self, now: Instant) -> Arc<KeySet> {
        if self.counts(now) { Arc::clone(&self.keys) } else { Arc::default() }
    }
}

/// Whether `span` has passed since `at`.
fn passed(at: Instant, now: Instant, span: Duration) -> bool {
    now.since(at) >= span
}

#[cfg(test)]
mod tests;
