//! Quotas of a tenant: requests that are stored at once, storage, and open questions.

use std::sync::Arc;

use ledger::Usage;
use posthouse_wire::TenantId;

use crate::tenant_turns::{TenantTurn, TenantTurns};

/// The quotas that everything stored for a program counts against.
pub(crate) struct TenantQuotas {
    turns: TenantTurns,
    usage: Arc<dyn Usage>,
    open_questions: u32,
}

impl TenantQuotas {
    pub fn new(usage: Arc<dyn Usage>, open_questions: u32) -> Self {
        Self { turns: TenantTurns::default(), usage, open_questions }
    }

    /// Waits until a request of this tenant may be stored.
    pub async fn turn(&self, tenant: &TenantId) -> TenantTurn {
        self.turns.turn(tenant).await
    }

    /// Whether the tenant is below its storage limit.
    pub fn has_room(&self, tenant: &TenantId) -> bool {
        self.usage.of_tenant(tenant).has_room()
    }

    /// The largest number of open questions of one tenant.
    pub fn open_questions(&self) -> u32 {
        self.open_questions
    }
}
