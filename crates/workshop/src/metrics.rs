//! Prometheus metrics of the workshop. Labels come from closed sets; none names a tenant.

use ledger::SkillAuditEvent;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApprovalLabels {
    event: &'static str,
}

/// The metric families of the workshop.
#[derive(Default)]
pub struct Metrics {
    approvals: Family<ApprovalLabels, Counter>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "posthouse_skill_approvals",
            "Approved skills, refused approvals and forced Drafts",
            self.approvals.clone(),
        );
    }

    pub(crate) fn approval(&self, event: SkillAuditEvent) {
        self.approvals.get_or_create(&ApprovalLabels { event: event.word() }).inc();
    }
}
