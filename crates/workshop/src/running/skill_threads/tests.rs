//! Tests of the threads of skills: tenants take turns, and work ends with its caller.

use std::sync::mpsc;

use super::*;

fn tenants() -> (TenantId, TenantId) {
    ("acme".into(), "zen".into())
}

/// Work that keeps its thread until the sender is dropped. The second part says that it has begun.
fn blocking() -> (impl Future<Output = ()> + Send + 'static, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (end, until) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let work = async move {
        let _ = begins.send(());
        let _ = until.recv();
    };
    (work, end, begun)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_one_tenant_blocks_its_threads_another_ones_work_is_done() {
    let threads = Arc::new(SkillThreads::new(2, 100));
    let (acme, zen) = tenants();
    let (work, end, begun) = blocking();
    let mut blocked = vec![];
    let spawn = |work: Pin<Box<dyn Future<Output = ()> + Send>>| {
        let (threads, acme) = (Arc::clone(&threads), acme.clone());
        tokio::spawn(async move { threads.run(&acme, work).await })
    };
    blocked.push(spawn(Box::pin(work)));
    tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
    // More of the same tenant waits, although a thread is free.
    let (late, late_end, late_begun) = blocking();
    blocked.push(spawn(Box::pin(late)));
    assert_eq!(threads.run(&zen, async { "done" }).await, Ok("done"));
    assert!(late_begun.try_recv().is_err(), "a tenant has at most one of two threads");
    drop((end, late_end));
    for work in blocked {
        assert_eq!(work.await.unwrap(), Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_thread_tenants_take_turns_however_much_one_of_them_has() {
    let threads = SkillThreads::new(1, 100);
    let (acme, zen) = tenants();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let (work, end, begun) = blocking();
    let turn = |tenant: &'static str| {
        let turns = Arc::clone(&turns);
        async move {
            for _ in 0..2 {
                turns.lock().push(tenant);
                tokio::task::yield_now().await;
            }
        }
    };
    // Everything is ready before the first turn.
    let start = async {
        tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
        while threads.turns().state.lock().held.values().sum::<usize>() < 5 {
            tokio::task::yield_now().await;
        }
        drop(end);
    };
    let (a, b, c) =
        (threads.run(&acme, turn("a")), threads.run(&acme, turn("a")), threads.run(&acme, turn("a")));
    let first = threads.run(&acme, work);
    let z = threads.run(&zen, turn("z"));
    let (ended, ..) = tokio::join!(first, a, b, c, z, start);
    assert_eq!(ended, Ok(()));
    let turns = turns.lock();
    let of_zen: Vec<usize> = (0..turns.len()).filter(|at| turns[*at] == "z").collect();
    assert_eq!(turns.len(), 8);
    assert!(of_zen[0] <= 1 && of_zen[1] <= 3, "{turns:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_with_too_much_work_is_refused_and_another_one_is_not() {
    let threads = SkillThreads::new(2, 4);
    let (acme, zen) = tenants();
    let (begin, begins) = tokio::sync::watch::channel(());
    let waits = || {
        let mut begins = begins.clone();
        async move { drop(begins.changed().await) }
    };
    let two = async { tokio::join!(threads.run(&acme, waits()), threads.run(&acme, waits())) };
    let others = async {
        while threads.turns().state.lock().held.get(&acme) != Some(&2) {
            tokio::task::yield_now().await;
        }
        assert_eq!(threads.run(&acme, async {}).await, Err(NoTurn::Full));
        assert_eq!(threads.run(&zen, async {}).await, Ok(()));
        assert_eq!(threads.run_accepted(&acme, async {}).await, Ok(()), "it is bounded elsewhere");
        drop(begin);
    };
    let (ended, ()) = tokio::join!(two, others);
    assert_eq!(ended, (Ok(()), Ok(())));
    // A result comes shortly before the thread has counted its end.
    while !threads.turns().state.lock().held.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_dropped_with_its_caller_and_a_panic_ends_only_itself() {
    let threads = Arc::new(SkillThreads::new(2, 4));
    let (acme, _) = tenants();
    let (kept, dropped) = oneshot::channel::<()>();
    let waiting = {
        let (threads, acme) = (Arc::clone(&threads), acme.clone());
        tokio::spawn(async move {
            let endless = async move {
                std::future::pending::<()>().await;
                drop(kept);
            };
            threads.run(&acme, endless).await
        })
    };
    while threads.turns().state.lock().held.is_empty() {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(dropped.await.is_err(), "the work is dropped");
    let panics = async { panic!("a mistake in the work") };
    assert_eq!(threads.run(&acme, panics).await, Err::<(), _>(NoTurn::Broken));
    let timer = async { tokio::time::sleep(std::time::Duration::from_millis(1)).await };
    assert_eq!(threads.run(&acme, timer).await, Ok(()), "timers of the server work here");
}
