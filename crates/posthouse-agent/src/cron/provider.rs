//! Keeps the portal in agreement with the jobs, and the ticker in its place while it is not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use posthouse_time::Moment;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::reconcile::{Round, reconcile};
use super::{Chronos, Cron, Standing, ticker};

/// How long to wait after the first failed round, and at most.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);

/// Rounds, one at a time, until the cron closes. Whoever asks while one is under way gets one more.
pub(super) async fn manage(cron: &Cron, chronos: &Chronos) {
    let mut failures = 0;
    let mut ticking = None;
    loop {
        let asked = cron.0.wishes.load(Ordering::Acquire);
        let round = tokio::select! {
            biased;
            // Nothing is torn: what was half said is said again by the next process.
            () = cron.0.closing.cancelled() => return,
            round = reconcile(cron, chronos) => round,
        };
        if let Some(why) = &round.refused {
            tracing::error!(
                "the portal does not serve this identity; jobs run by the local ticker from here on: {why}"
            );
            cron.0.standing.send_replace(Standing::Refused);
            drop(ticking);
            return ticker::tick(cron, &cron.0.closing).await;
        }
        if round.went_well() {
            if failures > 0 {
                tracing::info!("the portal holds all jobs");
            }
            (failures, ticking) = (0, None);
            cron.0.standing.send_replace(Standing::Managed);
        } else {
            failures += 1;
            let why = round.trouble.as_deref().unwrap_or_default();
            tracing::warn!(
                failures = round.troubles,
                "the portal does not hold all jobs, so the local ticker runs; trying again in {:?}: {why}",
                pause(failures),
            );
            ticking.get_or_insert_with(|| begin_ticking(cron));
            cron.0.standing.send_replace(Standing::Ticking);
        }
        cron.0.rounds.send_replace((asked, round.went_well()));
        if !wait(cron, &round, failures).await {
            return;
        }
    }
}

/// Returns when it is time for another round; false when there will be none.
async fn wait(cron: &Cron, round: &Round, failures: u32) -> bool {
    let timepiece = &cron.0.terms.timepiece;
    let lapsed = async {
        match round.again {
            Some(again) => timepiece.until(Moment::from_millis(again.as_millisecond() + 1)).await,
            None => std::future::pending().await,
        }
    };
    let rested = async {
        match failures {
            0 => std::future::pending().await,
            failures => timepiece.after(pause(failures)).await,
        }
    };
    tokio::select! {
        biased;
        () = cron.0.closing.cancelled() => false,
        () = cron.0.changed.notified() => true,
        () = lapsed => true,
        () = rested => true,
    }
}

fn begin_ticking(cron: &Cron) -> DropGuard {
    let (stop, cron) = (cron.0.closing.child_token(), cron.clone());
    let guard = CancellationToken::clone(&stop).drop_guard();
    let runs = cron.0.runs.clone();
    runs.spawn(async move { ticker::tick(&cron, &stop).await });
    guard
}

fn pause(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_rounds_are_tried_again_ever_more_slowly_up_to_five_minutes() {
        let pauses = [1, 2, 3, 6, 7, 8, u32::MAX].map(|failures| pause(failures).as_secs());
        assert_eq!(pauses, [5, 10, 20, 160, 300, 300, 300]);
    }
}
