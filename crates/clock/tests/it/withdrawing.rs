//! Cancels and newer arms that race with the claim of the older arm: after the answer the older one never fires.

use std::time::Duration;

use clock::Config;

use crate::town::{Town, seconds, start};

const ROUNDS: u64 = 40;
const JOBS: usize = 12;

/// Arms are claimed shortly before they are due. An arm that is withdrawn during its claim must not fire.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_withdrawn_while_it_is_being_claimed_is_never_called() {
    let town = Town::open_with(Config { requests_per_second: 1_000_000, ..Config::default() }).await;
    let heron = town.agent("acme", "heron").await;
    for round in 1..=ROUNDS {
        let due = town.at(seconds(60 * round));
        heron.arms(&format!("kept-{round}"), &due).await;
        for job in 0..JOBS {
            heron.arms(&format!("job-{round}-{job}"), &due).await;
        }
        // Advance to just before the claim, then past it while everything is withdrawn.
        let brink = start() + seconds(60 * round) - Duration::from_millis(60);
        town.time.wind(brink.since(town.time.now()));
        town.settles().await;
        let withdrawing: Vec<_> = (0..JOBS)
            .map(|job| {
                let (heron, name) = (heron.clone(), format!("job-{round}-{job}"));
                tokio::spawn(async move {
                    for _ in 0..job {
                        tokio::task::yield_now().await;
                    }
                    match job % 2 {
                        0 => heron.cancels(&name).await,
                        _ => drop(heron.arms(&name, &heron.town.at(seconds(900_000))).await),
                    }
                })
            })
            .collect();
        town.time.wind(Duration::from_millis(20));
        for withdrawn in withdrawing {
            withdrawn.await.unwrap();
        }
        assert!(
            town.time.now() < start() + seconds(60 * round),
            "all of it was answered before the due time"
        );
        let so_far = usize::try_from(round).unwrap();
        town.winds_until(|| town.callback.fires().len() >= so_far).await;
        town.settles().await;
        let called = town.callback.jobs();
        assert_eq!(called.len(), so_far, "called although withdrawn: {called:?}");
        assert!(called.iter().all(|job| job.starts_with("kept-")), "{called:?}");
    }
}

/// An agent that hangs up gets no answer, but finds its arm in the list and relies on it.
#[tokio::test]
async fn what_was_committed_for_somebody_who_hung_up_is_called_all_the_same() {
    let town = Town::open_with(Config { requests_per_second: 1_000_000, ..Config::default() }).await;
    let heron = town.agent("acme", "heron").await;
    let due = town.at(seconds(10));
    for patience in 0..300 {
        let job = format!("job-{patience}");
        let asking = heron.arms(&job, &due);
        // Dropped after this many polls, as a server drops the request of a client that hung up.
        let mut asking = std::pin::pin!(asking);
        for _ in 0..patience % 30 {
            if futures_util::poll!(&mut asking).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    town.settles().await;
    let listed = heron.lists().await.len();
    assert!(listed > 0);
    town.winds_until(|| town.time.now() > start() + seconds(15)).await;
    town.settles().await;
    assert_eq!(heron.lists().await, [], "armed, listed, and forgotten");
    assert_eq!(town.callback.fires().len(), listed);
}
