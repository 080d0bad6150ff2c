//! Ends of runs that something outside of the skill decides: a store that hangs, a fault, a panic, a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ledger::{BusyRuns, EndedRun, Fault, NewRun, RunFilter, RunState, SkillRuns, StoredRun, TenantDispatch};
use posthouse_time::Moment;
use posthouse_wire::{DispatchId, RunId, TenantId};
use serde_json::Map;
use workshop::{Config, CustomStores, EventOutcome};

use crate::foreign_store::ForeignStore;
use crate::skill_server::SkillServer;

const EVENT: &str = "# Triggers: event: go\n";

/// The run that an event has queued.
async fn queued(server: &SkillServer) -> RunId {
    match server.runner.triggers().event(&server.acme, "go", Map::new(), None).await.unwrap().unwrap() {
        EventOutcome::Queued(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn stored(server: &SkillServer, id: &RunId) -> StoredRun {
    server.ledger.skill_runs().run(&server.acme, id).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_skill_that_gets_effects_before_it_begins_is_not_repeated() {
    let server = SkillServer::open().await;
    server.writes("s", "Approved", EVENT, "emit(text=\"x\")").await;
    let reads = queued(&server).await;
    server.writes("s", "Approved", EVENT, "$ data_write content=\"x\" approved=\"yes\" -> R").await;
    let writes = queued(&server).await;
    assert!(stored(&server, &reads).await.run.repeatable);
    assert!(!stored(&server, &writes).await.run.repeatable);
    server.starts();
    let ended = server.until_ended(2).await;
    assert!(ended.iter().all(|run| run.state == RunState::Succeeded), "{ended:?}");
    assert!(ended.iter().all(|run| !run.run.repeatable), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_whose_inner_skill_is_named_by_a_variable_is_not_repeated() {
    let server = SkillServer::open().await;
    server.writes("other", "Approved", "", "emit(text=\"x\")").await;
    let header = format!("# Templates: other\n{EVENT}");
    let ops = "$set WHICH = other\n    $ execute_skill skill_name=${WHICH} -> R";
    server.writes("s", "Approved", &header, ops).await;
    let id = queued(&server).await;
    assert!(!stored(&server, &id).await.run.repeatable);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_still_being_prepared_is_cancelled_at_once() {
    let store = ForeignStore::default();
    let server = store.server(|runs| runs).await;
    server.writes("s", "Approved", EVENT, "emit(text=\"x\")").await;
    server.runner.triggers().list(&server.acme).await.unwrap().unwrap();
    let id = queued(&server).await;
    store.hangs();
    server.starts();
    let begun = store.until_it_hangs();
    server.time.wind_until(Duration::from_secs(1), begun).await;
    assert!(server.runner.runs().cancel(&server.acme, &id).await.unwrap());
    let ended = server.until_ended(1).await;
    assert_eq!(ended[0].state, RunState::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_the_server_breaks_off_ends_as_interrupted() {
    for trouble in [FAULT, PANIC] {
        let troubled = Arc::new(AtomicU8::new(0));
        let mine = Arc::clone(&troubled);
        let over = |inner| -> Arc<dyn SkillRuns> { Arc::new(TroubledRuns { inner, trouble: mine }) };
        let server = SkillServer::open_over(Config::default(), CustomStores::default(), over).await;
        server.writes("s", "Approved", EVENT, "emit(text=\"x\")").await;
        troubled.store(trouble, Ordering::SeqCst);
        server.runner.runs().execute(&server.program, server.order("s")).await.err().unwrap();
        let ended = server.ended().await;
        assert_eq!(ended.len(), 1, "the run of a caller has ended after trouble {trouble}");
        assert_eq!(ended[0].state, RunState::Interrupted);
        troubled.store(trouble, Ordering::SeqCst);
        queued(&server).await;
        server.starts();
        let ended = server.until_ended(2).await;
        assert_eq!(ended[1].state, RunState::Interrupted, "{ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_end_was_never_stored_can_be_cancelled() {
    let troubled = Arc::new(AtomicU8::new(ALWAYS));
    let over = |inner| -> Arc<dyn SkillRuns> { Arc::new(TroubledRuns { inner, trouble: troubled.clone() }) };
    let server = SkillServer::open_over(Config::default(), CustomStores::default(), over).await;
    server.writes("s", "Approved", "", "emit(text=\"x\")").await;
    server.runner.runs().execute(&server.program, server.order("s")).await.err().unwrap();
    let runs = server.ledger.skill_runs().runs(&server.acme, RunFilter::default(), None, 9).await.unwrap();
    assert_eq!(runs[0].state, RunState::Running);
    troubled.store(0, Ordering::SeqCst);
    assert!(server.runner.runs().cancel(&server.acme, &runs[0].run.id).await.unwrap());
    assert_eq!(server.ended().await[0].state, RunState::Interrupted);
}

const FAULT: u8 = 1;
const PANIC: u8 = 2;
const ALWAYS: u8 = 3;

/// Records of runs whose next end cannot be stored.
struct TroubledRuns {
    inner: Arc<dyn SkillRuns>,
    trouble: Arc<AtomicU8>,
}

#[async_trait]
impl SkillRuns for TroubledRuns {
    async fn end_run(&self, tenant: &TenantId, id: &RunId, end: EndedRun) -> Result<(), Fault> {
        let once = |now: u8| (now != ALWAYS).then_some(0);
        let trouble = match self.trouble.fetch_update(Ordering::SeqCst, Ordering::SeqCst, once) {
            Ok(trouble) | Err(trouble) => trouble,
        };
        match trouble {
            0 => self.inner.end_run(tenant, id, end).await,
            PANIC => panic!("a mistake in the server"),
            _ => Err(Fault::Closed),
        }
    }

    async fn begin_run(&self, run: NewRun) -> Result<(), Fault> {
        self.inner.begin_run(run).await
    }

    async fn queue_run(&self, run: NewRun) -> Result<bool, Fault> {
        self.inner.queue_run(run).await
    }

    async fn next_run(&self, after: &TenantId, busy: &BusyRuns) -> Result<Option<StoredRun>, Fault> {
        self.inner.next_run(after, busy).await
    }

    async fn note_effect(&self, tenant: &TenantId, run: &RunId) -> Result<(), Fault> {
        self.inner.note_effect(tenant, run).await
    }

    async fn note_dispatch(&self, tenant: &TenantId, run: &RunId, sent: &DispatchId) -> Result<(), Fault> {
        self.inner.note_dispatch(tenant, run, sent).await
    }

    async fn cancel_queued_run(&self, tenant: &TenantId, id: &RunId, now: Moment) -> Result<bool, Fault> {
        self.inner.cancel_queued_run(tenant, id, now).await
    }

    async fn take_over_runs(&self, now: Moment) -> Result<(usize, usize), Fault> {
        self.inner.take_over_runs(now).await
    }

    async fn queued_runs(&self) -> Result<u64, Fault> {
        self.inner.queued_runs().await
    }

    async fn run(&self, tenant: &TenantId, id: &RunId) -> Result<Option<StoredRun>, Fault> {
        self.inner.run(tenant, id).await
    }

    async fn runs(
        &self,
        of: &TenantId,
        filter: RunFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<StoredRun>, Fault> {
        self.inner.runs(of, filter, before, limit).await
    }

    async fn run_records(
        &self,
        of: &TenantId,
        filter: RunFilter,
        limit: u32,
    ) -> Result<Vec<StoredRun>, Fault> {
        self.inner.run_records(of, filter, limit).await
    }

    async fn runs_of_dispatch(&self, dispatch: &TenantDispatch) -> Result<Vec<StoredRun>, Fault> {
        self.inner.runs_of_dispatch(dispatch).await
    }

    async fn dispatches_of_run(&self, id: &RunId) -> Result<Vec<TenantDispatch>, Fault> {
        self.inner.dispatches_of_run(id).await
    }

    async fn runs_caused_by(&self, dispatch: &TenantDispatch, limit: u32) -> Result<Vec<StoredRun>, Fault> {
        self.inner.runs_caused_by(dispatch, limit).await
    }

    async fn cause_of_run(&self, id: &RunId) -> Result<Option<TenantDispatch>, Fault> {
        self.inner.cause_of_run(id).await
    }
}
