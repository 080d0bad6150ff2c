//! Portal loop: keeps the portal's arms in agreement with the jobs, and runs the ticker while they differ.

use std::sync::atomic::Ordering;
use std::time::Duration;

use posthouse_time::Moment;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::reconcile::{ReconcileResult, reconcile};
use super::{Chronos, Cron, CronState, ticker};

/// Pause after the first failed round, and the longest pause.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);

/// Runs rounds, one at a time, until the cron closes. A request during a round leads to one more.
pub(super) async fn manage(cron: &Cron, chronos: &Chronos) {
    let mut failures = 0;
    let mut ticking = None;
    loop {
        let requests = cron.0.requests.load(Ordering::Acquire);
        let round = tokio::select! {
            biased;
            // Safe at any point: the next process repeats what was only half done.
            () = cron.0.closing.cancelled() => return,
            round = reconcile(cron, chronos) => round,
        };
        if let Some(why) = &round.refused {
            tracing::error!(
                "the portal does not serve this identity; the local ticker runs the jobs from now on: {why}"
            );
            cron.0.state.send_replace(CronState::Refused);
            drop(ticking);
            return ticker::tick(cron, &cron.0.closing).await;
        }
        if round.went_well() {
            if failures > 0 {
                tracing::info!("all jobs are armed at the portal; the local ticker stops");
            }
            (failures, ticking) = (0, None);
            cron.0.state.send_replace(CronState::Managed);
        } else {
            failures += 1;
            let why = round.first_error.as_deref().unwrap_or_default();
            tracing::warn!(
                failures = round.errors,
                "not all jobs are armed at the portal, so the local ticker runs; trying again in {:?}: {why}",
                pause(failures),
            );
            ticking.get_or_insert_with(|| begin_ticking(cron));
            cron.0.state.send_replace(CronState::Ticking);
        }
        cron.0.rounds.send_replace((requests, round.went_well()));
        if !wait(cron, &round, failures).await {
            return;
        }
    }
}

/// Returns true when another round is due, and false if there will be none.
async fn wait(cron: &Cron, round: &ReconcileResult, failures: u32) -> bool {
    let timepiece = &cron.0.store_settings.timepiece;
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
