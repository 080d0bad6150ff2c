//! The default: tokens signed by the portal, checked by the keys that it publishes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};

use super::fetch::Source;
use super::token::Token;
use super::{Expected, FireVerifier, KeySet, Verified, bearer};

/// From this age on a key set is renewed beside the work.
const AGEING: Duration = Duration::from_secs(240);
/// From this age on a fire waits for a newer one.
const OLD: Duration = Duration::from_secs(300);
/// To this age a set still counts while the portal cannot be reached.
const DEAD: Duration = Duration::from_secs(3600);
/// How often an unknown key may make us ask again. Junk must not become a stream of requests.
const FORCED: Duration = Duration::from_secs(10);
/// How soon after a failure we ask again while there is nothing to go by. A waking machine has no network
/// for its first moments.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// And while there is something: a portal that swallows requests must not hold up every fire.
const AFTER_FAILURE_AT_EASE: Duration = Duration::from_secs(10);

/// Checks tokens by a published key set, which it keeps for five minutes. Clones share it.
#[derive(Clone)]
pub struct PortalJwt(Arc<Portal>);

struct Portal {
    source: Source,
    expected: Expected,
    timepiece: Timepiece,
    shelf: Mutex<Shelf>,
    /// One fetch at a time; whoever needs the same waits for it.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

/// What was fetched last, and when what was tried.
#[derive(Clone, Default)]
struct Shelf {
    keys: Arc<KeySet>,
    fetched: Option<Moment>,
    failed: Option<Moment>,
    forced: Option<Moment>,
    /// How many fetches have ended, well or not.
    fetches: u64,
}

/// Why one asks for a newer set.
#[derive(Clone, Copy)]
enum Reason {
    Age,
    UnknownKey,
}

impl PortalJwt {
    /// `url` is where the portal publishes its keys. Nothing is fetched before the first fire.
    pub fn new(url: &str, expected: Expected, timepiece: Timepiece) -> Self {
        Self::of(Source::new(url, None), expected, timepiece)
    }

    /// As [`PortalJwt::new`], trusting what `tls` trusts instead of what the machine does.
    pub fn with_tls(
        url: &str,
        expected: Expected,
        timepiece: Timepiece,
        tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        Self::of(Source::new(url, Some(tls)), expected, timepiece)
    }

    fn of(source: Source, expected: Expected, timepiece: Timepiece) -> Self {
        let (shelf, fetching) = (Mutex::default(), Arc::default());
        Self(Arc::new(Portal { source, expected, timepiece, shelf, fetching }))
    }
}

#[async_trait]
impl FireVerifier for PortalJwt {
    async fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Option<Verified> {
        let token = Token::read(bearer(headers)?)?;
        let Expected { audience, issuer } = &self.0.expected;
        // What could not be good under any key is refused before anything is fetched for it.
        if !token.holds(audience, issuer.as_deref(), self.0.timepiece.now()) {
            return None;
        }
        let keys = self.0.keys_for(token.kid.as_deref()?).await;
        // Looked at again, since fetching may have taken its time.
        let holds = token.holds(audience, issuer.as_deref(), self.0.timepiece.now());
        let claims = token.judged_by(&keys).filter(|_| holds)?;
        Verified::by_token(claims).bound_to(body)
    }
}

impl Portal {
    /// The set to check a token by that names this key.
    async fn keys_for(self: &Arc<Self>, kid: &str) -> Arc<KeySet> {
        let seen = self.shelf.lock().clone();
        let now = self.timepiece.now();
        if seen.fetched.is_none_or(|at| passed(at, now, OLD)) {
            self.renew(seen.fetches, Reason::Age).await;
        } else if seen.fetched.is_some_and(|at| passed(at, now, AGEING)) {
            self.renew_aside();
        }
        let shelf = self.shelf.lock().clone();
        if shelf.fetches == seen.fetches && !kid.is_empty() && !shelf.keys.knows(kid) {
            self.renew(seen.fetches, Reason::UnknownKey).await;
        }
        self.shelf.lock().believed(self.timepiece.now())
    }

    /// Fetches, unless somebody has since `seen`, or it was tried too lately.
    async fn renew(&self, seen: u64, reason: Reason) {
        let _alone = self.fetching.lock().await;
        let now = self.timepiece.now();
        {
            let mut shelf = self.shelf.lock();
            if shelf.fetches != seen || !shelf.may_ask(reason, now) {
                return;
            }
            if matches!(reason, Reason::UnknownKey) {
                shelf.forced = Some(now);
            }
        }
        self.fetch(now).await;
    }

    /// Fetches beside the work, unless somebody does.
    fn renew_aside(self: &Arc<Self>) {
        let now = self.timepiece.now();
        let Ok(alone) = Arc::clone(&self.fetching).try_lock_owned() else { return };
        if self.shelf.lock().may_ask(Reason::Age, now) {
            let portal = Arc::clone(self);
            tokio::spawn(async move {
                let _alone = alone;
                portal.fetch(now).await;
            });
        }
    }

    /// The set counts as of `now`, when it was asked for.
    async fn fetch(&self, now: Moment) {
        let fetched = self.source.fetch().await;
        let mut shelf = self.shelf.lock();
        shelf.fetches += 1;
        match fetched {
            Ok(keys) => {
                shelf.keys = Arc::new(keys);
                (shelf.fetched, shelf.failed) = (Some(now), None);
            }
            Err(why) => {
                shelf.failed = Some(now);
                tracing::warn!(url = self.source.url(), "could not fetch the portal's keys: {why}");
            }
        }
    }
}

impl Shelf {
    fn may_ask(&self, reason: Reason, now: Moment) -> bool {
        let rest = if self.counts(now) { AFTER_FAILURE_AT_EASE } else { AFTER_FAILURE };
        let rested = self.failed.is_none_or(|at| passed(at, now, rest));
        match reason {
            Reason::Age => rested,
            Reason::UnknownKey => rested && self.forced.is_none_or(|at| passed(at, now, FORCED)),
        }
    }

    fn counts(&self, now: Moment) -> bool {
        self.fetched.is_some_and(|at| now.since(at) < DEAD)
    }

    fn believed(&self, now: Moment) -> Arc<KeySet> {
        if self.counts(now) { Arc::clone(&self.keys) } else { Arc::default() }
    }
}

/// Whether `span` has passed since `at`. A clock that was set back does not make anything wait for it.
fn passed(at: Moment, now: Moment, span: Duration) -> bool {
    at > now || now.since(at) >= span
}

#[cfg(test)]
mod tests;
