//! What the post counts. Labels come from closed sets; none names a tenant.

use ledger::{Answered, Verb};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::Refused;
use crate::directory::{By, Way};
use crate::wish::Handed;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ending {
    ending: &'static str,
}

/// The post's families.
#[derive(Default)]
pub struct Metrics {
    dispatches: Family<Outcome, Counter>,
    answers: Family<Ending, Counter>,
}

impl Metrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "posthouse_post_dispatches",
            "What was sent to agents by programs, by verb and what came of it",
            self.dispatches.clone(),
        );
        registry.register(
            "posthouse_post_answers",
            "Answers to questions, and questions whose time was up",
            self.answers.clone(),
        );
    }

    pub(crate) fn dispatched(&self, way: &Way, verb: Verb, handed: &Result<Handed, Refused>) {
        let outcome = match handed {
            Ok(Handed::Delivered(receipt)) if receipt.delivery_skipped => "kept",
            // Whether an agent that is there takes it is its own to say.
            Ok(Handed::Delivered(_)) if matches!(way.by, By::Line(..)) => "queued",
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
