//! Metrics of the edge.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    platform: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlatformLabel {
    platform: &'static str,
}

/// The edge's metric families. Labels come from closed sets.
#[derive(Default)]
pub struct Metrics {
    kept: Family<PlatformLabel, Counter>,
    ignored: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    dead_bots: Gauge,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("posthouse_edge_events_kept", "Events stored for an agent", self.kept.clone());
        registry.register(
            "posthouse_edge_events_ignored",
            "Events not stored, by reason",
            self.ignored.clone(),
        );
        registry.register(
            "posthouse_edge_requests_refused",
            "Requests of platforms and of the chat page that were refused",
            self.refused.clone(),
        );
        registry.register(
            "posthouse_edge_bots_dead",
            "Bots whose credential their platform does not accept",
            self.dead_bots.clone(),
        );
    }

    pub(crate) fn set_dead_bots(&self, bots: usize) {
        self.dead_bots.set(i64::try_from(bots).unwrap_or(i64::MAX));
    }

    pub(crate) fn kept(&self, platform: &'static str) {
        self.kept.get_or_create(&PlatformLabel { platform }).inc();
    }

    pub(crate) fn ignored(&self, platform: &'static str, reason: &'static str) {
        self.ignored.get_or_create(&Labels { platform, reason }).inc();
    }

    pub(crate) fn refused(&self, platform: &'static str, reason: &'static str) {
        self.refused.get_or_create(&Labels { platform, reason }).inc();
    }
}
