//! Storage that each tenant uses, and the limit on it.

use async_trait::async_trait;
use posthouse_wire::{InstanceId, TenantId};

use crate::Fault;

/// Default storage limit of a tenant.
pub const TENANT_BYTES: i64 = 4 * 1024 * 1024 * 1024;

/// Default limit on the bytes of a tenant's files.
pub const MEDIA_BYTES: i64 = 1024 * 1024 * 1024;

/// Storage that one tenant uses, and its limit, in bytes. Counted are unread messages and dead letters,
/// receipts with replies, questions with their answers, the messages in web chat rooms, and
/// skills with their history. Files and data each have a limit of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantStorage {
    pub used: i64,
    pub limit: i64,
    /// Whether the limit is the tenant's own, not the server's default.
    pub own_limit: bool,
}

impl TenantStorage {
    pub fn has_room(&self) -> bool {
        self.used < self.limit
    }
}

/// Callers check here before they store something for a tenant. Concurrent calls can together exceed the
/// limit by what they write.
#[async_trait]
pub trait Usage: Send + Sync {
    /// Read from memory.
    fn of_tenant(&self, tenant: &TenantId) -> TenantStorage;
    /// Whether the tenant of this agent may store more, read from memory. True for an unknown agent.
    fn has_room_for(&self, agent: &InstanceId) -> bool;
    /// Sets a tenant's own limit. None restores the server's default.
    async fn set_tenant_limit(&self, tenant: &TenantId, bytes: Option<i64>) -> Result<(), Fault>;
    /// What the files of a tenant take up, and their limit. Read from memory.
    fn media_of_tenant(&self, tenant: &TenantId) -> TenantStorage;
    /// Bytes that the files of one agent take up. Read from memory.
    fn media_of_agent(&self, agent: &InstanceId) -> i64;
    /// Sets a tenant's own limit on its files. None restores the server's default.
    async fn set_media_limit(&self, tenant: &TenantId, bytes: Option<i64>) -> Result<(), Fault>;
    /// What the data of a tenant takes up, and its limit. Read from memory.
    fn data_of_tenant(&self, tenant: &TenantId) -> TenantStorage;
    /// Sets a tenant's own limit on its data. None restores the server's default.
    async fn set_data_limit(&self, tenant: &TenantId, bytes: Option<i64>) -> Result<(), Fault>;
}
