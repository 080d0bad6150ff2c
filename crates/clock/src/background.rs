//! Background tasks of the clock, and its shutdown.

use std::time::Duration;

use posthouse_time::Timepiece;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a shutdown waits for running fires.
const CLOSED_WITHIN: Duration = Duration::from_secs(7);

/// The tasks that run beside requests, and the time. A handle that is cheap to clone.
#[derive(Clone)]
pub(crate) struct ClockTasks {
    /// Shutdown waits for these tasks.
    pub tasks: TaskTracker,
    /// Cancelled at shutdown.
    pub closing: CancellationToken,
    pub timepiece: Timepiece,
}

impl ClockTasks {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { tasks: TaskTracker::new(), closing: CancellationToken::new(), timepiece }
    }

    /// The wall clock, in microseconds.
    pub fn now_us(&self) -> i64 {
        self.timepiece.now().millis().saturating_mul(1000)
    }

    /// Waits for the tasks to end.
    pub async fn wait(&self) {
        self.tasks.close();
        if self.timepiece.within(CLOSED_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("the clock closed while fires were still running");
        }
    }
}
