//! Reads run on threads of their own.

use ledger::{Ledger, Location};
use posthouse_time::Timepiece;
use std::sync::mpsc;

#[test]
fn reads_go_on_while_every_blocking_thread_of_the_runtime_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let ledger =
            Ledger::open(Location::Folder(folder.path().to_owned()), Timepiece::wall()).await.unwrap();
        let (let_go, hangs) = mpsc::channel::<()>();
        let hanging = tokio::task::spawn_blocking(move || hangs.recv());
        assert!(ledger.inbox().backlogs().await.unwrap().is_empty());
        let_go.send(()).unwrap();
        hanging.await.unwrap().unwrap();
    });
}
