//! Work in a directory that may hang, as one behind a network does. What hangs holds a thread that the whole house
//! works with and that nobody can take back, so only so many are ever sent into one directory: each holds its place
//! until it really returns, however long ago it was given up.

use std::sync::Arc;
use std::time::Duration;

use posthouse_time::{Late, Timepiece};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::place::Trouble;

/// How long a free hand and its work are waited for, together. Disks that work are far quicker.
const PATIENCE: Duration = Duration::from_secs(30);

/// Those who may be at work in one directory.
#[derive(Clone, Debug)]
pub(super) struct Hands(pub Arc<Semaphore>);

impl Hands {
    /// Has the work done as soon as a hand is free.
    pub async fn work<T: Send + 'static>(
        &self,
        timepiece: &Timepiece,
        job: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, Trouble> {
        let working = async {
            // Never closed, and as good as held up if it were.
            let hand = Arc::clone(&self.0).acquire_owned().await.map_err(|_| Trouble::Hung)?;
            done(hand, job).await
        };
        timepiece.within(PATIENCE, working).await.unwrap_or_else(|Late| Err(Trouble::Hung))
    }

    /// Has the work done if a hand is free now; nothing otherwise.
    pub async fn work_if_free<T: Send + 'static>(
        &self,
        timepiece: &Timepiece,
        job: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
    ) -> Result<Option<T>, Trouble> {
        let Ok(hand) = Arc::clone(&self.0).try_acquire_owned() else { return Ok(None) };
        let worked = timepiece.within(PATIENCE, done(hand, job)).await;
        worked.unwrap_or_else(|Late| Err(Trouble::Hung)).map(Some)
    }
}

/// Disks take their time, which is not taken from everybody else.
async fn done<T: Send + 'static>(
    hand: OwnedSemaphorePermit,
    job: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Result<T, Trouble> {
    let work = move || {
        let _held = hand;
        job()
    };
    tokio::task::spawn_blocking(work).await.map_err(|lost| Trouble::Io(std::io::Error::other(lost)))?
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use posthouse_time::Moment;

    use super::*;

    fn hands(number: usize) -> (Hands, Timepiece) {
        (Hands(Arc::new(Semaphore::new(number))), Timepiece::wound(Moment::default()))
    }

    #[tokio::test]
    async fn work_that_hangs_is_given_up_and_keeps_its_hand_until_it_returns() {
        let (hands, timepiece) = hands(1);
        let (end, ended) = mpsc::channel::<()>();
        let hanging = hands.work(&timepiece, move || Ok(ended.recv().is_err()));
        let (given_up, ()) = tokio::join!(hanging, async { timepiece.wind(PATIENCE) });
        assert!(matches!(given_up, Err(Trouble::Hung)), "{given_up:?}");
        // Nobody is sent after it, neither to look nor to write.
        assert!(matches!(hands.work_if_free(&timepiece, || Ok(())).await, Ok(None)));
        let waiting = hands.work(&timepiece, || Ok(()));
        let (given_up, ()) = tokio::join!(waiting, async { timepiece.wind(PATIENCE) });
        assert!(matches!(given_up, Err(Trouble::Hung)), "{given_up:?}");
        drop(end);
        // It waits for the hand that comes back.
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
        assert_eq!(hands.0.available_permits(), 0);
        drop(end);
        assert!(hands.work(&timepiece, || Ok(())).await.is_ok());
    }
}
