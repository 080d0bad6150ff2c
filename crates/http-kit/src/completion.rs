//! Run to completion: work of a request that is finished even if the client disconnects.
//!
//! A handler is dropped when its client disconnects. Work that must not stop between a commit and the steps that follow
//! it runs in a task of its own, and the handler only waits for it.

use tokio::task::JoinHandle;

/// The runtime is shutting down, so nobody knows how far the work came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server is shutting down")]
pub struct ShuttingDown;

/// Waits for a task. If the waiting is dropped, the task continues. If the task panics, so does the caller, and the
/// listener answers the request.
pub async fn completed<T>(task: JoinHandle<T>) -> Result<T, ShuttingDown> {
    match task.await {
        Ok(done) => Ok(done),
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Nobody cancels these tasks, so the runtime itself is going away.
            Err(_) => Err(ShuttingDown),
        },
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_is_finished_when_its_caller_is_gone() {
        let (begins, begun) = oneshot::channel();
        let (goes_on, go_on) = oneshot::channel::<()>();
        let (ends, ended) = oneshot::channel();
        let waiting = completed(tokio::spawn(async move {
            begins.send(()).unwrap();
            go_on.await.unwrap();
            ends.send(()).unwrap();
        }));
        tokio::select! {
            _ = waiting => panic!("it ended before it could"),
            heard = begun => heard.unwrap(),
        }
        // The waiting is dropped here.
        goes_on.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_reaches_the_caller() {
        let caller = tokio::spawn(completed(tokio::spawn(async { panic!("a bug") })));
        assert!(caller.await.unwrap_err().is_panic());
    }

    #[tokio::test]
    async fn a_task_that_never_ends_is_a_shutdown() {
        let task = tokio::spawn(std::future::pending::<()>());
        task.abort();
        assert_eq!(completed(task).await, Err(ShuttingDown));
    }
}
