//! Approval policies: the conditions under which a tenant lets a skill be Approved.

use std::sync::Arc;

use skill::{ApprovalMode, ApprovalPublicKey};

/// The approval mode of a tenant, with its active keys. Clones share the keys.
#[derive(Clone, Default)]
pub enum ApprovalPolicy {
    /// The status is enough.
    #[default]
    Open,
    /// A signature by any of these keys is needed, too.
    Signed(Arc<[ApprovalPublicKey]>),
}

impl ApprovalPolicy {
    pub fn mode(&self) -> ApprovalMode<'_> {
        match self {
            Self::Open => ApprovalMode::Open,
            Self::Signed(keys) => ApprovalMode::Signed(keys),
        }
    }
}
