//! Metrics of credentials. Labels come from closed sets; none names a tenant.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CredentialResult {
    why: &'static str,
}

/// Metric families of the identity crate.
#[derive(Default)]
pub struct Metrics {
    tokens: Family<CredentialResult, Counter>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        // The relay had this family first. Dashboards know it by that name.
        registry.register(
            "posthouse_relay_tokens",
            "Credentials exchanged for tokens, by result",
            self.tokens.clone(),
        );
    }

    pub(crate) fn count_token(&self, why: &'static str) {
        self.tokens.get_or_create(&CredentialResult { why }).inc();
    }
}
