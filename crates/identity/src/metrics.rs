//! Metrics of credentials and quotas. Labels come from closed sets; none names a tenant.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialResult {
    why: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReachedQuota {
    what: &'static str,
    whose: &'static str,
}

/// Metric families of the identity crate.
#[derive(Default)]
pub struct Metrics {
    tokens: Family<CredentialResult, Counter>,
    over_quota: Family<ReachedQuota, Counter>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        // The relay had this family first. Dashboards know it by that name.
        registry.register(
            "posthouse_relay_tokens",
            "Credentials exchanged for tokens, by result",
            self.tokens.clone(),
        );
        registry.register(
            "posthouse_identity_over_quota",
            "Messages, actions, requests and sockets refused by a quota, by whose limit was reached",
            self.over_quota.clone(),
        );
    }

    pub(crate) fn count_over_quota(&self, what: &'static str, whose: &'static str) {
        self.over_quota.get_or_create(&ReachedQuota { what, whose }).inc();
    }

    pub(crate) fn count_token(&self, why: &'static str) {
        self.tokens.get_or_create(&CredentialResult { why }).inc();
    }
}
