//! Prometheus metrics of the post. Labels come from closed sets; none names a tenant.

use ledger::{Answered, DispatchVerb};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::Refused;
use crate::directory::DeliveryPath;
use crate::requests::SentReceipt;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DispatchLabels {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    ending: &'static str,
}

/// The metric families of the post.
#[derive(Default)]
pub struct Metrics {
    dispatches: Family<DispatchLabels, Counter>,
    answers: Family<AnswerLabels, Counter>,
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
        sent: &Result<SentReceipt, Refused>,
    ) {
        let outcome = match sent {
            Ok(SentReceipt::Delivered(receipt)) if receipt.delivery_skipped => "kept",
            // Only the agent's acknowledgement proves a delivery, even if it is connected.
            Ok(SentReceipt::Delivered(_)) if path.storage().is_some() => "queued",
            Ok(SentReceipt::Delivered(_)) => "delivered",
            Ok(SentReceipt::Woken(receipt)) if receipt.woken => "woken",
            Ok(SentReceipt::Woken(_)) => "not_woken",
            Err(Refused::Fault(_)) => "fault",
            Err(_) => "failed",
        };
        self.dispatches.get_or_create(&DispatchLabels { verb: verb.word(), outcome }).inc();
    }

    pub(crate) fn answered(&self, answered: Answered) {
        let ending = match answered {
            Answered::First => "answered",
            Answered::Duplicate => "duplicate",
            Answered::Late => "late",
            Answered::Absent => return,
        };
        self.answers.get_or_create(&AnswerLabels { ending }).inc();
    }

    pub(crate) fn timed_out(&self) {
        self.answers.get_or_create(&AnswerLabels { ending: "timed_out" }).inc();
    }
}
