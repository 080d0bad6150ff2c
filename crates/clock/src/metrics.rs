//! Metrics of the clock. Label values come from closed sets; none names a tenant.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct FireLabel {
    pub fate: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ArmLabel {
    pub why: &'static str,
}

/// Metric families of the clock.
pub struct Metrics {
    pub(crate) near: Gauge,
    pub(crate) in_flight: Gauge,
    pub(crate) arms: Family<ArmLabel, Counter>,
    pub(crate) fires: Family<FireLabel, Counter>,
    pub(crate) attempts_failed: Family<ArmLabel, Counter>,
    pub(crate) late_runs: Counter,
    pub(crate) dead: Counter,
    pub(crate) revived: Counter,
    pub(crate) dedup_suspect: Counter,
    pub(crate) pokes: Family<ArmLabel, Counter>,
    pub(crate) lateness: Histogram,
    pub(crate) waking: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0, 3600.0];
        Self {
            near: Gauge::default(),
            in_flight: Gauge::default(),
            arms: Family::default(),
            fires: Family::default(),
            attempts_failed: Family::default(),
            late_runs: Counter::default(),
            dead: Counter::default(),
            revived: Counter::default(),
            dedup_suspect: Counter::default(),
            pokes: Family::default(),
            lateness: Histogram::new(seconds),
            waking: Histogram::new(seconds),
        }
    }
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("posthouse_clock_near_arms", "Arms held in memory", self.near.clone());
        registry.register("posthouse_clock_fires_in_flight", "Fires in flight", self.in_flight.clone());
        registry.register("posthouse_clock_arms", "Arm requests, by result", self.arms.clone());
        registry.register("posthouse_clock_fires", "Arms that ended, by outcome", self.fires.clone());
        registry.register(
            "posthouse_clock_attempts_failed",
            "Failed attempts, by reason",
            self.attempts_failed.clone(),
        );
        registry.register(
            "posthouse_clock_late_runs",
            "Fires accepted more than a second after their due time and guard",
            self.late_runs.clone(),
        );
        registry.register("posthouse_clock_dead", "Arms given up", self.dead.clone());
        registry.register(
            "posthouse_clock_revived",
            "Dead arms that were revived by a sign of life of their agent",
            self.revived.clone(),
        );
        registry.register(
            "posthouse_clock_dedup_suspect",
            "Accepted fires that were armed again right after their due time: the agent's clock may run behind",
            self.dedup_suspect.clone(),
        );
        registry.register(
            "posthouse_clock_wake_pokes",
            "Calls to wake URLs for a fire, by occasion",
            self.pokes.clone(),
        );
        registry.register(
            "posthouse_clock_lateness_seconds",
            "Time from the due time and guard to the first attempt",
            self.lateness.clone(),
        );
        registry.register(
            "posthouse_clock_waking_seconds",
            "Time from the first failed attempt to the accepted one",
            self.waking.clone(),
        );
    }
}
