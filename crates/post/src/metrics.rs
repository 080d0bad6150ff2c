//! Prometheus metrics of the post. Labels come from closed sets; none names a tenant.

use ledger::{Answered, DispatchVerb};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::Refused;
use crate::directory::{DeliveryPath, PathKind};
use crate::requests::Handed;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ending {
    ending: &'static str,
}

/// The metric families of the post.
#[derive(Default)]
pub struct Metrics {
    dispatches: Family<Outcome, Counter>,
    answers: Family<Ending, Counter>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "posthouse_post_dispatches",
            "Messages, wakes and questions from programs to agents, by verb and outcome",
            self.dispatches.clone(),
        );
        registry.register(
            "posthouse_post_answers",
            "Answers to questions, and questions that timed out",
            self.answers.clone(),
        );
    }

    pub(crate) fn dispatched(
        &self,
        path: &DeliveryPath,
        verb: DispatchVerb,
        handed: &Result<Handed, Refused>,
    ) {
        let outcome = match handed {
            Ok(Handed::Delivered(receipt)) if receipt.delivery_skipped => "kept",
            // Only the agent's acknowledgement proves a delivery, even if it is connected.
            Ok(Handed::Delivered(_)) if matches!(path.by, PathKind::Relay(..)) => "queued",
            Ok(Handed::Delivered(_)) => "delivered",
            Ok(Handed::Woken(receipt)) if receipt.woken => "woken",
            Ok(Handed::Woken(_)) => "not_woken",
            Err(Refused::Fault(_)) => "fault",
            Err(_) => "failed",
        };
        self.dispatches.get_or_create(&Outcome { verb: verb.word(), outcome }).inc();
    }

    pub(crate) fn answered(&self, answered: Answered) {
        let ending = match answered {
            Answered::First => "answered",
            Answered::Duplicate => "duplicate",
            Answered::Late => "late",
            Answered::Absent => return,
        };
        self.answers.get_or_create(&Ending { ending }).inc();
    }

    pub(crate) fn timed_out(&self) {
        self.answers.get_or_create(&Ending { ending: "timed_out" }).inc();
    }
}
