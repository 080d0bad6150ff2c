//! Trigger follower: keeps the triggers of all tenants as the headers of their skills say.
//!
//! - A tenant is followed soon after its skills changed, and every tenant after a start. Changes that come during a
//!   following are followed together by the next one.
//! - Tenants take turns, and few are followed at once. Stores outside of this server can be slow, so they have turns of
//!   their own.
//! - A store outside of this server can change by itself, so it is also followed at an interval.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::runs::Runs;
use super::triggers::Triggers;
use crate::fault::Fault;
use crate::skill_changes::SkillChanges;

/// Tenants of the server's own store that are followed at once.
const OWN_AT_ONCE: usize = 4;
/// Tenants with another store that are followed at once.
const FOREIGN_AT_ONCE: usize = 8;
/// The pause between two followings of one tenant.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the stores outside of this server are followed.
const INTERVAL: Duration = Duration::from_secs(60);

/// Follows the skills of all tenants.
pub struct TriggerFollower {
    runs: Runs,
    triggers: Arc<Triggers>,
    /// Tenants whose skills are outside of this server.
    foreign: Mutex<HashSet<TenantId>>,
}

/// The tenants that are followed or pause now, and the turns of both kinds of stores.
struct FollowerTurns {
    under_way: HashSet<TenantId>,
    own: Arc<Semaphore>,
    foreign: Arc<Semaphore>,
}

/// The end of one following. `again` is the time of a change that must be followed once more.
struct FollowResult {
    tenant: TenantId,
    again: Option<Moment>,
}

impl TriggerFollower {
    pub fn new(runs: Runs, triggers: Arc<Triggers>) -> Arc<Self> {
        Arc::new(Self { runs, triggers, foreign: Mutex::default() })
    }

    /// Follows until shutdown.
    pub async fn run(self: &Arc<Self>) -> Result<(), Fault> {
        let closing = self.runs.closing().clone();
        for tenant in self.runs.workshop().skills().tenants().await? {
            self.changes().note_unread(&tenant, self.runs.timepiece().now());
        }
        let mut turns = FollowerTurns {
            under_way: HashSet::new(),
            own: Arc::new(Semaphore::new(OWN_AT_ONCE)),
            foreign: Arc::new(Semaphore::new(FOREIGN_AT_ONCE)),
        };
        let (mut tasks, mut pauses) = (JoinSet::new(), JoinSet::new());
        let mut interval = Box::pin(self.runs.timepiece().after(INTERVAL));
        loop {
            while let Some((tenant, since, turn)) = self.next(&turns) {
                turns.under_way.insert(tenant.clone());
                let follower = Arc::clone(self);
                tasks.spawn(async move {
                    let _turn = turn;
                    // A text of one tenant that makes this panic must not end the triggers of all others.
                    let followed = AssertUnwindSafe(follower.follow(&tenant, since)).catch_unwind().await;
                    let again = followed.unwrap_or_else(|_| {
                        tracing::error!(%tenant, "following the skills of a tenant panicked");
                        None
                    });
                    FollowResult { tenant, again }
                });
            }
            tokio::select! {
                () = closing.cancelled() => return Ok(()),
                () = self.changes().noted() => {}
                Some(ended) = tasks.join_next() => {
                    let followed = ended.map_err(|why| Fault::Io(format!("following skills: {why}")))?;
                    let timepiece = self.runs.timepiece().clone();
                    pauses.spawn(async move {
                        timepiece.after(PAUSE).await;
                        followed
                    });
                }
                Some(Ok(FollowResult { tenant, again })) = pauses.join_next() => {
                    turns.under_way.remove(&tenant);
                    if let Some(since) = again {
                        self.changes().note(&tenant, since);
                    }
                }
                () = &mut interval => {
                    let foreign: Vec<TenantId> = self.foreign.lock().iter().cloned().collect();
                    foreign.iter().for_each(|tenant| self.note(tenant));
                    interval = Box::pin(self.runs.timepiece().after(INTERVAL));
                }
            }
        }
    }

    fn changes(&self) -> &SkillChanges {
        self.runs.workshop().skills().changes()
    }

    fn note(&self, tenant: &TenantId) {
        self.changes().note(tenant, self.runs.timepiece().now());
    }

    /// The next tenant whose turn is free.
    fn next(&self, turns: &FollowerTurns) -> Option<(TenantId, Moment, OwnedSemaphorePermit)> {
        let foreign = self.foreign.lock();
        let mut turn = None;
        let (tenant, since) = self.changes().take(|tenant| {
            let kind = if foreign.contains(tenant) { &turns.foreign } else { &turns.own };
            if !turns.under_way.contains(tenant) {
                turn = Arc::clone(kind).try_acquire_owned().ok();
            }
            turn.is_some()
        })?;
        Some((tenant, since, turn?))
    }

    /// Follows one tenant. Returns the time of the change if it must be followed again.
    async fn follow(&self, tenant: &TenantId, since: Moment) -> Option<Moment> {
        match self.try_follow(tenant, since).await {
            Ok(again) => again,
            Err(fault) => {
                tracing::warn!(%fault, %tenant, "the triggers of a tenant could not follow its skills");
                Some(since)
            }
        }
    }

    async fn try_follow(&self, tenant: &TenantId, since: Moment) -> Result<Option<Moment>, Fault> {
        let is_foreign = self.runs.workshop().skills().is_foreign(tenant).await?;
        let is_new = match is_foreign {
            true => self.foreign.lock().insert(tenant.clone()),
            false => {
                self.foreign.lock().remove(tenant);
                false
            }
        };
        if is_new {
            // It waits for the turn of its kind of store.
            return Ok(Some(since));
        }
        if let Err(refusal) = self.triggers.follow(tenant, since).await? {
            tracing::debug!(%tenant, %refusal, "the skills of a tenant cannot be read for their triggers");
        }
        Ok(None)
    }
}
