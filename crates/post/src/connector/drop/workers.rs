//! File operations with a deadline and a limit per directory.
//!
//! A directory on a network may hang, and a hanging operation blocks its thread for good. So only a few operations
//! run in one directory at the same time, on threads of their tenant. Each holds its permit until it really returns,
//! even if it was given up long ago.

use std::sync::Arc;
use std::time::Duration;

use ledger::{FileThreadSlot, FileThreads};
use posthouse_time::{TimedOut, Timepiece};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::directory::DropError;

/// Time limit for getting a permit and doing the work, together. Healthy disks are far faster.
const PATIENCE: Duration = Duration::from_secs(30);

/// Permits for operations in one directory, and the threads of its tenant.
#[derive(Clone, Debug)]
pub(super) struct DirectoryWorkers {
    pub here: Arc<Semaphore>,
    pub threads: Arc<FileThreads>,
}

impl DirectoryWorkers {
    /// Runs the job as soon as a permit is free.
    pub async fn work<T: Send + 'static>(
        &self,
        timepiece: &Timepiece,
        job: impl FnOnce() -> Result<T, DropError> + Send + 'static,
    ) -> Result<T, DropError> {
        let working = async {
            // The semaphore is never closed.
            let hand = Arc::clone(&self.here).acquire_owned().await.map_err(|_| DropError::Hung)?;
            let slot = self.threads.slot().await.ok_or(DropError::Hung)?;
            self.done(hand, slot, job).await
        };
        timepiece.within(PATIENCE, working).await.unwrap_or_else(|TimedOut| Err(DropError::Hung))
    }

    /// Runs the job if a permit is free now. `None` otherwise.
    pub async fn work_if_free<T: Send + 'static>(
        &self,
        timepiece: &Timepiece,
        job: impl FnOnce() -> Result<T, DropError> + Send + 'static,
    ) -> Result<Option<T>, DropError> {
        let Ok(hand) = Arc::clone(&self.here).try_acquire_owned() else { return Ok(None) };
        let Some(slot) = self.threads.slot_if_free() else { return Ok(None) };
        let worked = timepiece.within(PATIENCE, self.done(hand, slot, job)).await;
        worked.unwrap_or_else(|TimedOut| Err(DropError::Hung)).map(Some)
    }

    /// Runs the job on a thread of the tenant, so that a slow disk does not block the runtime.
    async fn done<T: Send + 'static>(
        &self,
        hand: OwnedSemaphorePermit,
        slot: FileThreadSlot,
        job: impl FnOnce() -> Result<T, DropError> + Send + 'static,
    ) -> Result<T, DropError> {
        let (sender, receiver) = oneshot::channel();
        let work = move || {
            let done = job();
            // The permit is freed before the result is sent, because the receiver may want one at once.
            drop(hand);
            let _ = sender.send(done);
        };
        self.threads.run(slot, work).map_err(DropError::Io)?;
        receiver.await.map_err(|lost| DropError::Io(std::io::Error::other(lost)))?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use posthouse_time::Moment;

    use super::*;

    fn hands(number: usize) -> (DirectoryWorkers, Timepiece) {
        (hands_of(number, &Arc::default()), Timepiece::wound(Moment::default()))
    }

    /// A directory with this many permits, of the tenant with these threads.
    fn hands_of(number: usize, threads: &Arc<FileThreads>) -> DirectoryWorkers {
        DirectoryWorkers { here: Arc::new(Semaphore::new(number)), threads: Arc::clone(threads) }
    }

    #[tokio::test]
    async fn work_that_hangs_is_given_up_and_keeps_its_hand_until_it_returns() {
        let (hands, timepiece) = hands(1);
        let (end, ended) = mpsc::channel::<()>();
        let hanging = hands.work(&timepiece, move || Ok(ended.recv().is_err()));
        let (given_up, ()) = tokio::join!(hanging, async { timepiece.wind(PATIENCE) });
        assert!(matches!(given_up, Err(DropError::Hung)), "{given_up:?}");
        // No further operation starts, neither a poll nor a write.
        assert!(matches!(hands.work_if_free(&timepiece, || Ok(())).await, Ok(None)));
        let waiting = hands.work(&timepiece, || Ok(()));
        let (given_up, ()) = tokio::join!(waiting, async { timepiece.wind(PATIENCE) });
        assert!(matches!(given_up, Err(DropError::Hung)), "{given_up:?}");
        drop(end);
        // This waits for the permit that becomes free.
        assert!(hands.work(&timepiece, || Ok(())).await.is_ok());
        assert!(matches!(hands.work_if_free(&timepiece, || Ok(7)).await, Ok(Some(7))));
    }

    #[tokio::test]
    async fn whoever_does_not_wait_any_more_frees_no_hand() {
        let (hands, timepiece) = hands(1);
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let looking = hands.work_if_free(&timepiece, move || {
            let _ = begin.send(());
            Ok(ended.recv().is_err())
        });
        tokio::select! {
            biased;
            looked = looking => panic!("{looked:?}"),
            () = std::future::ready(()) => {}
        }
        tokio::task::spawn_blocking(move || begun.recv()).await.unwrap().unwrap();
        assert_eq!(hands.here.available_permits(), 0);
        drop(end);
        assert!(hands.work(&timepiece, || Ok(())).await.is_ok());
    }

    #[tokio::test]
    async fn one_tenants_hanging_folders_hold_only_its_own_threads() {
        let timepiece = Timepiece::wound(Moment::default());
        let (acme, zeta) = (Arc::<FileThreads>::default(), Arc::<FileThreads>::default());
        let folders: Vec<DirectoryWorkers> = (0..5).map(|_| hands_of(4, &acme)).collect();
        let (begin, begun) = mpsc::channel();
        let mut ends = Vec::new();
        let mut hanging = Vec::new();
        for folder in folders.iter().cycle().take(20) {
            let (end, ended) = mpsc::channel::<()>();
            let (folder, timepiece, begin) = (folder.clone(), timepiece.clone(), begin.clone());
            ends.push(end);
            hanging.push(tokio::spawn(async move {
                let hangs = move || {
                    let _ = begin.send(());
                    Ok(ended.recv().is_err())
                };
                folder.work(&timepiece, hangs).await
            }));
        }
        // Exactly as many jobs as threads have begun. The others wait for one of these to return.
        let begun = tokio::task::spawn_blocking(move || {
            (0..8).for_each(|_| begun.recv().unwrap());
            begun
        });
        let begun = begun.await.unwrap();
        assert!(matches!(hands_of(4, &acme).work_if_free(&timepiece, || Ok(())).await, Ok(None)));
        assert!(begun.try_recv().is_err());
        // Jobs of another tenant still run.
        assert!(matches!(hands_of(4, &zeta).work(&timepiece, || Ok(7)).await, Ok(7)));
        ends.clear();
        for hung in hanging {
            assert!(hung.await.unwrap().is_ok());
        }
    }

    #[test]
    fn drop_folders_do_not_use_the_shared_blocking_pool() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (end, ended) = mpsc::channel::<()>();
            let waiting = tokio::task::spawn_blocking(move || ended.recv());
            let (hands, timepiece) = hands(1);
            assert!(matches!(hands.work(&timepiece, || Ok(7)).await, Ok(7)));
            drop(end);
            let _ = waiting.await;
        });
    }
}
