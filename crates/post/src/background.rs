//! Background work: loops that repeat a piece of work, tracked tasks, and shutdown.

use std::time::Duration;

use posthouse_time::Timepiece;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Fault;

/// Time that shutdown waits for running work.
const CLOSED_WITHIN: Duration = Duration::from_secs(6);
/// Pause after a fault of the ledger.
const AFTER_FAULT: Duration = Duration::from_secs(1);
/// The longest time between two reads of the ledger, because another node may have left work there.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Delay between the starts of two loops.
const START_DELAY: Duration = Duration::from_millis(200);

/// The work that runs beside requests. A cheap handle to clone.
#[derive(Clone)]
pub(crate) struct Background {
    /// Shutdown waits for these tasks.
    pub tasks: TaskTracker,
    /// Cancelled at shutdown.
    pub closing: CancellationToken,
    pub timepiece: Timepiece,
}

impl Background {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { tasks: TaskTracker::new(), closing: CancellationToken::new(), timepiece }
    }

    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Repeats a piece of work until shutdown. The work returns the time until it is due again. It is repeated sooner
    /// when `changed` is notified, and later after a fault.
    pub async fn repeat<F>(&self, failure: &'static str, changed: &Notify, work: impl Fn() -> F)
    where
        F: Future<Output = Result<Option<Duration>, Fault>>,
    {
        while !self.is_closing() {
            let next = work().await.unwrap_or_else(|fault| {
                tracing::error!(%fault, "{failure}");
                Some(AFTER_FAULT)
            });
            tokio::select! {
                () = self.closing.cancelled() => {}
                () = changed.notified() => {}
                () = self.timepiece.after(next.map_or(LONGEST_PAUSE, |next| next.min(LONGEST_PAUSE))) => {}
            }
        }
    }

    /// Does a piece of work at the start and each time that `changed` is notified, until shutdown. After a fault it is
    /// tried again.
    pub async fn when_changed<F>(&self, failure: &'static str, changed: &Notify, work: impl Fn() -> F)
    where
        F: Future<Output = Result<(), Fault>>,
    {
        while !self.is_closing() {
            let next = async {
                match work().await {
                    Ok(()) => changed.notified().await,
                    Err(fault) => {
                        tracing::error!(%fault, "{failure}");
                        self.timepiece.after(AFTER_FAULT).await;
                    }
                }
            };
            tokio::select! {
                () = self.closing.cancelled() => {}
                () = next => {}
            }
        }
    }

    /// Starts a loop after the ones before it. Simultaneous reads each take a database reader and a thread, which an
    /// idle server does not need.
    pub async fn in_turn(&self, place: u32, running: impl Future<Output = ()>) {
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = self.timepiece.after(START_DELAY * place) => running.await,
        }
    }

    /// Starts nothing more and waits for running work.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        if self.timepiece.within(CLOSED_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("closed while deliveries were still running: their result is unknown");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use posthouse_time::Moment;

    use super::*;

    #[tokio::test]
    async fn work_is_repeated_when_something_changed_and_ends_with_the_server() {
        let background = Background::new(Timepiece::wound(Moment::default()));
        let (changed, done) = (Notify::new(), AtomicU32::new(0));
        let work = || async {
            match done.fetch_add(1, Ordering::Relaxed) {
                2 => background.closing.cancel(),
                _ => changed.notify_one(),
            }
            Ok(None)
        };
        background.repeat("it failed", &changed, work).await;
        assert_eq!(done.into_inner(), 3);
        background.close().await;
    }
}
