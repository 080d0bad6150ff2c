//! The clock that loops wait on.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;

use crate::Moment;

/// Tells the time and wakes sleepers. Cloning shares the same clock.
#[derive(Clone, Debug)]
pub struct Timepiece(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Wall,
    Wound(watch::Sender<Moment>),
}

/// The answer of [`Timepiece::within`] when the time ran out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

impl Timepiece {
    /// The machine's own clock.
    pub fn wall() -> Self {
        Self(Kind::Wall)
    }

    /// Stands at `start` until somebody winds it.
    pub fn wound(start: Moment) -> Self {
        Self(Kind::Wound(watch::Sender::new(start)))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system clock")]
    pub fn now(&self) -> Moment {
        match &self.0 {
            Kind::Wall => {
                let since_epoch = std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap_or(Duration::ZERO);
                Moment::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
            }
            Kind::Wound(hand) => *hand.borrow(),
        }
    }

    /// Moves a wound clock forward and wakes whoever waited for a moment now past.
    ///
    /// # Panics
    /// On the wall's clock, which nobody winds.
    pub fn wind(&self, by: Duration) {
        match &self.0 {
            Kind::Wall => panic!("only a clock made by Timepiece::wound can be wound"),
            Kind::Wound(hand) => hand.send_modify(|now| *now = *now + by),
        }
    }

    /// Returns once `due` is reached, never before it by this clock.
    pub async fn until(&self, due: Moment) {
        match &self.0 {
            // Asked again after every sleep, since the wall clock may have been set back meanwhile.
            Kind::Wall => loop {
                let left = due.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(Duration::from_secs(60))).await;
            },
            Kind::Wound(hand) => {
                let mut hand = hand.subscribe();
                while *hand.borrow_and_update() < due {
                    if hand.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Returns after `pause` has passed. On the wall this follows the monotonic clock, so that a step
    /// of the wall clock neither shortens nor stretches it.
    pub async fn after(&self, pause: Duration) {
        match &self.0 {
            Kind::Wall => tokio::time::sleep(pause).await,
            Kind::Wound(_) => self.until(self.now() + pause).await,
        }
    }

    /// Runs `work` for at most `limit`.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Result<T, Late> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.after(limit) => Err(Late),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wound_clock_stands_still_until_wound() {
        let clock = Timepiece::wound(Moment::from_millis(1_000));
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.until(Moment::from_millis(61_000)).await;
                clock.now()
            }
        });
        clock.wind(Duration::from_secs(59));
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.wind(Duration::from_secs(1));
        assert_eq!(waiting.await.unwrap(), Moment::from_millis(61_000));
    }

    #[tokio::test]
    async fn work_that_outlasts_its_limit_is_late() {
        let clock = Timepiece::wound(Moment::default());
        let winder = clock.clone();
        let (late, ()) =
            tokio::join!(clock.within(Duration::from_secs(5), std::future::pending::<()>()), async move {
                winder.wind(Duration::from_secs(5))
            });
        assert_eq!(late, Err(Late));
        assert_eq!(clock.within(Duration::from_secs(5), async { 7 }).await, Ok(7));
    }
}
