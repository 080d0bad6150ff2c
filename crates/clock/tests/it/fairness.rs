//! Fairness between tenants: many or slow fires of one tenant do not delay those of another.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clock::{Alarm, FireOutcome, FireTarget};
use futures_util::future::join_all;
use ledger::Arm;
use posthouse_wire::cron::Fired;
use tokio::sync::watch;

use crate::fixtures::{TestServer, eventually, seconds, start};

/// A target that does not answer until it is opened.
struct SlowTarget {
    outcome: watch::Sender<usize>,
    open: watch::Receiver<bool>,
}

#[async_trait]
impl FireTarget for SlowTarget {
    async fn fire(&self, _arm: &Arm) -> FireOutcome {
        self.outcome.send_modify(|outcome| *outcome += 1);
        let _ = self.open.clone().wait_for(|open| *open).await;
        FireOutcome::Accepted { status: 200, fired: Fired::Accepted }
    }

    fn host(&self, arm: &Arm) -> String {
        arm.tenant.to_string()
    }
}

#[tokio::test]
async fn nine_thousand_slow_wakes_of_one_tenant_do_not_keep_another_tenant_s_job_from_firing() {
    let server = TestServer::open().await;
    let (open, opened) = watch::channel(false);
    let outcome = watch::Sender::new(0);
    server.clock.alarms().register("slow", Arc::new(SlowTarget { outcome: outcome.clone(), open: opened }));
    let noisy = server.tenant("noisy").await;
    let quiet = server.create_agent("quiet", "heron").await;
    let wakes = (0..9_000).map(|job| {
        let job = format!("w{job}").into();
        server.clock.alarms().set(Alarm {
            target: "slow",
            tenant: noisy.clone(),
            job,
            at: start() + seconds(10),
        })
    });
    assert!(join_all(wakes).await.into_iter().all(Result::unwrap));
    quiet.arm("report", &server.at(seconds(11))).await;

    server.advance(seconds(10) + Duration::from_millis(200));
    eventually(async || *outcome.borrow() > 0).await;
    server.advance(seconds(1));
    quiet.history_begins_with(&["delivered"]).await;

    // Once they answer, the parked arms fire too.
    open.send_replace(true);
    server.advance_until(|| *outcome.borrow() > 5_000).await;
}
