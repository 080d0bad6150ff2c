//! Metrics of the relay. Labels come from closed sets; none names a tenant.

use ledger::LimitReached;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    pub why: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ActionLabels {
    pub op: &'static str,
    pub success: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StaleLabel {
    action: &'static str,
}

/// Metric families of the relay.
#[derive(Default)]
pub struct Metrics {
    pub(crate) sockets: Gauge,
    pub(crate) dials_refused: Family<ReasonLabel, Counter>,
    pub(crate) entries_kept: Counter,
    pub(crate) entries_acknowledged: Counter,
    pub(crate) entries_dead: Counter,
    entries_refused: Family<ReasonLabel, Counter>,
    entries_stale: Family<StaleLabel, Counter>,
    pub(crate) actions: Family<ActionLabels, Counter>,
    pub(crate) wake_calls: Family<ReasonLabel, Counter>,
    pub(crate) enrolments: Family<ReasonLabel, Counter>,
    pub(crate) provisionings: Family<ReasonLabel, Counter>,
    pub(crate) attachments: Family<ReasonLabel, Counter>,
    pub(crate) sleep_calls: Family<ReasonLabel, Counter>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("posthouse_relay_sockets", "Agents' sockets open now", self.sockets.clone());
        registry.register(
            "posthouse_relay_dials_refused",
            "Upgrades refused, by reason",
            self.dials_refused.clone(),
        );
        registry.register(
            "posthouse_relay_entries_kept",
            "Entries appended to inboxes",
            self.entries_kept.clone(),
        );
        registry.register(
            "posthouse_relay_entries_acknowledged",
            "Entries acknowledged by agents",
            self.entries_acknowledged.clone(),
        );
        registry.register(
            "posthouse_relay_entries_dead",
            "Entries that became dead letters",
            self.entries_dead.clone(),
        );
        registry.register(
            "posthouse_relay_entries_refused",
            "Entries that were not kept because the inbox, or the sender's share of it, was full",
            self.entries_refused.clone(),
        );
        registry.register(
            "posthouse_relay_entries_stale",
            "Entries that waited too long, by what was done with them",
            self.entries_stale.clone(),
        );
        registry.register(
            "posthouse_relay_actions",
            "Actions answered, by op and success",
            self.actions.clone(),
        );
        registry.register(
            "posthouse_relay_enrolments",
            "Enrolment tokens presented, by result",
            self.enrolments.clone(),
        );
        registry.register(
            "posthouse_relay_provisionings",
            "Gateways that asked to be provisioned, by result",
            self.provisionings.clone(),
        );
        registry.register(
            "posthouse_relay_attachments",
            "Attachments of messages, by the result of fetching them",
            self.attachments.clone(),
        );
        registry.register(
            "posthouse_relay_sleep_calls",
            "Agents that asked to be stopped, by result",
            self.sleep_calls.clone(),
        );
        registry.register(
            "posthouse_relay_wake_pokes",
            "Wake URLs called, by result",
            self.wake_calls.clone(),
        );
    }

    pub(crate) fn entries_stale(&self, action: &'static str, entries: usize) {
        if entries > 0 {
            self.entries_stale.get_or_create(&StaleLabel { action }).inc_by(entries as u64);
        }
    }

    pub(crate) fn entries_refused(&self, full: LimitReached) {
        let why = match full {
            LimitReached::Inbox => "inbox",
            LimitReached::Share => "share",
            LimitReached::Tenant => "tenant",
        };
        self.entries_refused.get_or_create(&ReasonLabel { why }).inc();
    }
}
