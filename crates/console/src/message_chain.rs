//! Chains of messages: which messages led to a message or to a run of a skill, and which ones it led to.
//!
//! A run is linked to what it sent, and to the message that its event named as the cause.

use std::collections::{HashSet, VecDeque};

use ledger::{Fault, SkillRuns};
use posthouse_wire::{DispatchId, RunId};

/// The most messages of a chain that are shown. One run sends at most so many.
const LONGEST_CHAIN: usize = 1000;
/// The most runs that one message leads to.
pub(crate) const MOST_RUNS: u32 = 100;

/// A chain as far as it has been followed.
pub(crate) struct MessageChain<'a> {
    records: &'a dyn SkillRuns,
    known: HashSet<DispatchId>,
    found: Vec<DispatchId>,
}

impl<'a> MessageChain<'a> {
    pub(crate) fn new(records: &'a dyn SkillRuns) -> Self {
        Self { records, known: HashSet::new(), found: Vec::new() }
    }

    /// All other dispatches of the chain of these, which the caller has already, and of the run with this id. Those that
    /// led to them come first.
    pub(crate) async fn follow(mut self, id: &str, own: &[DispatchId]) -> Result<Vec<DispatchId>, Fault> {
        self.known.extend(own.iter().cloned());
        let (mut cause, mut sent) = (None, Vec::new());
        if id.starts_with("run_") {
            let run = RunId::from(id);
            cause = self.records.cause_of_run(&run).await?;
            sent = self.records.dispatches_of_run(&run).await?;
        }
        let mut earlier: VecDeque<DispatchId> = own.iter().cloned().collect();
        self.note(cause, &mut earlier);
        while let Some(dispatch) = earlier.pop_front() {
            let causes = self.records.runs_of_dispatch(&dispatch).await?;
            self.note(causes.into_iter().filter_map(|run| run.run.cause), &mut earlier);
        }
        // The first cause stands first.
        self.found.reverse();
        let mut later: VecDeque<DispatchId> = own.iter().cloned().collect();
        self.note(sent, &mut later);
        while let Some(dispatch) = later.pop_front() {
            for run in self.records.runs_caused_by(&dispatch, MOST_RUNS).await? {
                let sent = self.records.dispatches_of_run(&run.run.id).await?;
                self.note(sent, &mut later);
            }
        }
        Ok(self.found)
    }

    fn note(&mut self, more: impl IntoIterator<Item = DispatchId>, next: &mut VecDeque<DispatchId>) {
        for dispatch in more {
            if self.found.len() < LONGEST_CHAIN && self.known.insert(dispatch.clone()) {
                self.found.push(dispatch.clone());
                next.push_back(dispatch);
            }
        }
    }
}
