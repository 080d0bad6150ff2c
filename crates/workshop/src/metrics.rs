//! Prometheus metrics of the workshop. Labels come from closed sets; none names a tenant.

use ledger::{SkillAuditEvent, StoreKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::store_failure::StoreFailure;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApprovalLabels {
    event: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RemoteCallLabels {
    store: &'static str,
    outcome: &'static str,
}

/// The metric families of the workshop.
#[derive(Default)]
pub struct Metrics {
    remote_calls: Family<RemoteCallLabels, Counter>,
    approvals: Family<ApprovalLabels, Counter>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "posthouse_skill_approvals",
            "Approved skills, refused approvals and forced Drafts",
            self.approvals.clone(),
        );
        registry.register(
            "posthouse_remote_store_calls",
            "Calls to stores that tenants keep elsewhere, by outcome",
            self.remote_calls.clone(),
        );
    }

    pub(crate) fn remote_call(&self, store: StoreKind, failure: Option<&StoreFailure>) {
        let outcome = failure.map_or("ok", StoreFailure::code);
        self.remote_calls.get_or_create(&RemoteCallLabels { store: store.word(), outcome }).inc();
    }

    pub(crate) fn approval(&self, event: SkillAuditEvent) {
        self.approvals.get_or_create(&ApprovalLabels { event: event.word() }).inc();
    }
}
