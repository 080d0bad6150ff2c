//! Cancels and newer arms that race with the claim of the older arm: after the answer the older one never fires.

use std::time::Duration;

use clock::Config;

use crate::fixtures::{TestServer, eventually, seconds, start};

const ROUNDS: u64 = 40;
const JOBS: usize = 12;

/// Arms are claimed shortly before they are due. An arm that is cancelled during its claim must not fire.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_cancelled_while_it_is_being_claimed_is_never_called() {
    let server = TestServer::open_with(Config { requests_per_second: 1_000_000, ..Config::default() }).await;
    let heron = server.create_agent("acme", "heron").await;
    for round in 1..=ROUNDS {
        let due = server.at(seconds(60 * round));
        heron.arm(&format!("kept-{round}"), &due).await;
        for job in 0..JOBS {
            heron.arm(&format!("job-{round}-{job}"), &due).await;
        }
        // Advance to just before the claim, then past it while everything is cancelled.
        let before_claim = start() + seconds(60 * round) - Duration::from_millis(60);
        let quiet = before_claim - seconds(10);
        server.advance(quiet.since(server.time.now()));
        // Earlier, because a marker that is due shortly before the claim would be claimed together with the jobs.
        server.catch_up().await;
        server.advance(before_claim.since(quiet));
        let cancelling: Vec<_> = (0..JOBS)
            .map(|job| {
                let (heron, name) = (heron.clone(), format!("job-{round}-{job}"));
                tokio::spawn(async move {
                    for _ in 0..job {
                        tokio::task::yield_now().await;
                    }
                    match job % 2 {
                        0 => heron.cancel(&name).await,
                        _ => drop(heron.arm(&name, &heron.server.at(seconds(900_000))).await),
                    }
                })
            })
            .collect();
        server.advance(Duration::from_millis(20));
        for cancelled in cancelling {
            cancelled.await.unwrap();
        }
        assert!(
            server.time.now() < start() + seconds(60 * round),
            "all of it was answered before the due time"
        );
        let so_far = usize::try_from(round).unwrap();
        server.advance_until(|| server.callback.fires().len() >= so_far).await;
        server.catch_up().await;
        let called = server.callback.jobs();
        assert_eq!(called.len(), so_far, "called although cancelled: {called:?}");
        assert!(called.iter().all(|job| job.starts_with("kept-")), "{called:?}");
    }
}

/// An agent that hangs up gets no answer, but finds its arm in the list and relies on it.
#[tokio::test]
async fn what_was_committed_for_somebody_who_hung_up_is_called_all_the_same() {
    let server = TestServer::open_with(Config { requests_per_second: 1_000_000, ..Config::default() }).await;
    let heron = server.create_agent("acme", "heron").await;
    let due = server.at(seconds(10));
    for patience in 0..300 {
        let job = format!("job-{patience}");
        let asking = heron.arm(&job, &due);
        // Dropped after this many polls, as a server drops the request of a client that hung up.
        let mut asking = std::pin::pin!(asking);
        for _ in 0..patience % 30 {
            if futures_util::poll!(&mut asking).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let listed = heron.list().await;
    assert!(!listed.is_empty());
    // A listed job that was forgotten would stay in the list.
    eventually(async || {
        server.advance(Duration::from_millis(50));
        heron.list().await.is_empty()
    })
    .await;
    let called = server.callback.jobs();
    assert!(listed.iter().all(|(job, _)| called.contains(job)), "armed, listed, and not called");
}
