//! Audit log: every change that was requested with the admin token.

use std::net::IpAddr;

use async_trait::async_trait;
use posthouse_time::Moment;

use crate::Fault;

/// One requested change. It holds names and ids, but no text of people and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Moment,
    /// Method and path below the root of the admin API, as requested.
    pub operation: String,
    /// The object that was created or meant, where the path does not name it.
    pub about: Option<String>,
    /// Address of the caller.
    pub caller: Option<IpAddr>,
    /// Status of the response.
    pub status: u16,
}

#[async_trait]
pub trait Audit: Send + Sync {
    /// Repeating it adds another row.
    async fn record(&self, entry: AuditEntry) -> Result<(), Fault>;
    /// Newest first, before the given row. Each comes with its row number.
    async fn entries(&self, before: Option<i64>, at_most: u32) -> Result<Vec<(i64, AuditEntry)>, Fault>;
}
