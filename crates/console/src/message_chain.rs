//! Chains of messages: which messages led to a message or to a run of a skill, and which ones it led to.
//!
//! A run is linked to what it sent, and to the message that its event named as the cause.

use std::collections::{HashSet, VecDeque};

use ledger::{Fault, SkillRuns, TenantDispatch};
use posthouse_wire::RunId;

/// The most messages of a chain that are shown. One run sends at most so many.
const LONGEST_CHAIN: usize = 1000;
/// The most runs of one message that are followed and shown.
pub(crate) const MOST_RUNS: u32 = 100;

/// A chain as far as it has been followed.
pub(crate) struct MessageChain<'a> {
    records: &'a dyn SkillRuns,
    known: HashSet<TenantDispatch>,
    found: Vec<TenantDispatch>,
}

impl<'a> MessageChain<'a> {
    pub(crate) fn new(records: &'a dyn SkillRuns) -> Self {
        Self { records, known: HashSet::new(), found: Vec::new() }
    }

    /// Follows the chain of the dispatches in `own` and of the run `id`. Returns those not in `own`: first what led to
    /// them, earliest first, then what followed.
    pub(crate) async fn follow(
        mut self,
        id: &str,
        own: &[TenantDispatch],
    ) -> Result<Vec<TenantDispatch>, Fault> {
        self.known.extend(own.iter().cloned());
        let (mut cause, mut sent) = (None, Vec::new());
        if id.starts_with("run_") {
            let run = RunId::from(id);
            cause = self.records.cause_of_run(&run).await?;
            sent = self.records.dispatches_of_run(&run).await?;
        }
        let mut earlier: VecDeque<TenantDispatch> = own.iter().cloned().collect();
        self.note(cause, &mut earlier);
        while let Some(dispatch) = earlier.pop_front() {
            let causes = self.records.runs_of_dispatch(&dispatch).await?;
            let tenant = &dispatch.tenant;
            let causes = causes.into_iter().filter_map(|run| run.run.cause);
            let causes = causes.map(|id| TenantDispatch { tenant: tenant.clone(), id });
            self.note(causes, &mut earlier);
        }
        // The earliest cause comes first.
        self.found.reverse();
        let mut later: VecDeque<TenantDispatch> = own.iter().cloned().collect();
        self.note(sent, &mut later);
        while let Some(dispatch) = later.pop_front() {
            for run in self.records.runs_caused_by(&dispatch, MOST_RUNS).await? {
                let sent = self.records.dispatches_of_run(&run.run.id).await?;
                self.note(sent, &mut later);
            }
        }
        Ok(self.found)
    }

    fn note(&mut self, more: impl IntoIterator<Item = TenantDispatch>, next: &mut VecDeque<TenantDispatch>) {
        for dispatch in more {
            if self.found.len() < LONGEST_CHAIN && self.known.insert(dispatch.clone()) {
                self.found.push(dispatch.clone());
                next.push_back(dispatch);
            }
        }
    }
}
