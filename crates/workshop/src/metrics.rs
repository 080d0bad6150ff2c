//! Prometheus metrics of the workshop. Labels come from closed sets; none names a tenant.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ledger::{RunState, SkillAuditEvent, StoreKind};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedRunLabels {
    source: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedRunLabels {
    reason: &'static str,
}

/// Upper bounds of the durations of runs, in seconds.
const RUN_SECONDS: [f64; 11] = [0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0];
/// What can start a run. Callers choose no other word.
const SOURCES: [&str; 4] = ["cron", "event", "agent", "inline"];

/// Why a run did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedRun {
    /// The tenant or the server runs too many skills.
    TooManyRuns,
    /// The queue of the tenant is full.
    QueueFull,
    /// The skill is not there, not approved, or has errors.
    NotAdmitted,
}

/// The metric families of the workshop.
pub struct Metrics {
    runs_started: Family<RunLabels, Counter>,
    runs_ended: Family<EndedRunLabels, Counter>,
    runs_refused: Family<RefusedRunLabels, Counter>,
    runs_running: Gauge,
    runs_queued: Gauge<u64, AtomicU64>,
    run_seconds: Histogram,
    remote_calls: Family<RemoteCallLabels, Counter>,
    approvals: Family<ApprovalLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            runs_started: Family::default(),
            runs_ended: Family::default(),
            runs_refused: Family::default(),
            runs_running: Gauge::default(),
            runs_queued: Gauge::default(),
            run_seconds: Histogram::new(RUN_SECONDS),
            remote_calls: Family::default(),
            approvals: Family::default(),
        }
    }
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "posthouse_skill_runs_started",
            "Runs of skills that began, by what started them",
            self.runs_started.clone(),
        );
        registry.register(
            "posthouse_skill_runs_ended",
            "Runs of skills that ended, by what started them and by outcome",
            self.runs_ended.clone(),
        );
        registry.register(
            "posthouse_skill_runs_refused",
            "Runs of skills that did not begin, by reason",
            self.runs_refused.clone(),
        );
        registry.register("posthouse_skill_runs_running", "Skills that run now", self.runs_running.clone());
        registry.register(
            "posthouse_skill_runs_queued",
            "Runs of skills that wait in the queue, counted every ten seconds",
            self.runs_queued.clone(),
        );
        registry.register(
            "posthouse_skill_run_seconds",
            "Durations of runs of skills, from the first operation to the stored end",
            self.run_seconds.clone(),
        );
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

    /// A run begins. It counts as running until [`Metrics::run_stopped`].
    pub(crate) fn run_started(&self, source: &str) {
        self.runs_started.get_or_create(&RunLabels { source: source_word(source) }).inc();
        self.runs_running.inc();
    }

    /// A run that had begun is over, whatever came of it.
    pub(crate) fn run_stopped(&self, duration: Duration) {
        self.runs_running.dec();
        self.run_seconds.observe(duration.as_secs_f64());
    }

    /// Counts ends of runs, also of runs that never began.
    pub(crate) fn runs_ended(&self, source: &str, state: RunState, count: u64) {
        let labels = EndedRunLabels { source: source_word(source), outcome: state.word() };
        self.runs_ended.get_or_create(&labels).inc_by(count);
    }

    pub(crate) fn run_refused(&self, why: RefusedRun) {
        let reason = match why {
            RefusedRun::TooManyRuns => "too_many_runs",
            RefusedRun::QueueFull => "queue_full",
            RefusedRun::NotAdmitted => "not_admitted",
        };
        self.runs_refused.get_or_create(&RefusedRunLabels { reason }).inc();
    }

    pub(crate) fn runs_queued(&self, count: u64) {
        self.runs_queued.set(count);
    }

    pub(crate) fn approval(&self, event: SkillAuditEvent) {
        self.approvals.get_or_create(&ApprovalLabels { event: event.word() }).inc();
    }
}

fn source_word(source: &str) -> &'static str {
    SOURCES.into_iter().find(|word| *word == source).unwrap_or("other")
}
