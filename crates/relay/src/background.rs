//! Background tasks of the relay, and its shutdown.

use std::time::Duration;

use posthouse_time::Timepiece;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time limit at shutdown for closing handshakes of sockets and for running actions.
const CLOSED_WITHIN: Duration = Duration::from_secs(7);

/// The tasks that run beside requests. A cheap handle to clone.
#[derive(Clone)]
pub(crate) struct RelayTasks {
    /// Shutdown waits for these tasks.
    pub tasks: TaskTracker,
    /// Cancelled at shutdown: sockets close with 1012.
    pub closing: CancellationToken,
    pub timepiece: Timepiece,
}

impl RelayTasks {
    pub fn new(timepiece: Timepiece) -> Self {
        Self { tasks: TaskTracker::new(), closing: CancellationToken::new(), timepiece }
    }

    pub fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        // A hanging action is not waited for. Its record says that its outcome is unknown.
        if self.timepiece.within(CLOSED_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("the relay closed while actions were still running");
        }
    }
}
