//! The house's own keys, sealed: what it signs, derives and checks with.

use async_trait::async_trait;
use posthouse_time::Moment;

use super::Sealed;
use crate::Fault;

/// What a key of the house is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HouseKeyKind {
    /// Signs fire tokens; its public half is published.
    Signing,
    /// What per-job keys are derived from; there is one and it stays.
    CronMaster,
    /// What an outside scheduler signs its calls with.
    Scheduler,
}

impl HouseKeyKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Signing => "signing",
            Self::CronMaster => "cron_master",
            Self::Scheduler => "scheduler",
        }
    }
}

/// One key of the house.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HouseKey {
    pub kind: HouseKeyKind,
    /// Unique among its kind; for a signing key its `kid`.
    pub name: String,
    pub algorithm: String,
    pub created: Moment,
    /// From when on it is used; others may see it before that.
    pub starts: Moment,
    /// Until when it counts; the newest of its kind has no end.
    pub ends: Option<Moment>,
    pub sealed: Sealed,
}

#[async_trait]
pub trait HouseKeys: Send + Sync {
    /// Oldest first.
    async fn house_keys(&self, kind: HouseKeyKind) -> Result<Vec<HouseKey>, Fault>;
    /// Keeps `key` if there is none of its kind. Two who begin together both go on with the one that
    /// [`HouseKeys::house_keys`] then tells.
    async fn begin_house_keys(&self, key: HouseKey) -> Result<(), Fault>;
    /// Keeps `key` as the newest of its kind; older ones end at `older_end`, unless they end before that.
    async fn succeed_house_key(&self, key: HouseKey, older_end: Moment) -> Result<(), Fault>;
    /// Ends all of a kind at `end`, unless they end before that. False when there is none.
    async fn end_house_keys(&self, kind: HouseKeyKind, end: Moment) -> Result<bool, Fault>;
    /// Forgets those of a kind whose end has come.
    async fn forget_house_keys(&self, kind: HouseKeyKind, now: Moment) -> Result<(), Fault>;
}
