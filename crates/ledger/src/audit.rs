//! What the operator did: every change that was asked for with the admin token.

use std::net::IpAddr;

use async_trait::async_trait;
use posthouse_time::Moment;

use crate::Fault;

/// One change that was asked for. It holds names and ids, nobody's words and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub at: Moment,
    /// Method and path below the operator's door, as they were asked for.
    pub operation: String,
    /// What was made or meant, where the path does not say.
    pub about: Option<String>,
    /// Where from.
    pub caller: Option<IpAddr>,
    /// What was answered.
    pub status: u16,
}

#[async_trait]
pub trait Audit: Send + Sync {
    /// Repeating it notes another.
    async fn note(&self, deed: Deed) -> Result<(), Fault>;
    /// Newest first, before the one named, each with what it is named by.
    async fn deeds(&self, before: Option<i64>, at_most: u32) -> Result<Vec<(i64, Deed)>, Fault>;
}
