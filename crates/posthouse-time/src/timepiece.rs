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

    /// Sets a wound clock, forward or back, as a time server or an operator would.
    ///
    /// # Panics
    /// On the wall's clock, as [`Timepiece::wind`] does.
    pub fn set(&self, now: Moment) {
        match &self.0 {
            Kind::Wall => panic!("only a clock made by Timepiece::wound can be set"),
            Kind::Wound(hand) => drop(hand.send_replace(now)),
        }
    }

    /// Returns once `due` is reached, never before it by this clock, and soon after a step of the clock
    /// or a suspended machine's return has brought it past `due`.
    pub async fn until(&self, due: Moment) {
        match &self.0 {
            // Asked again after every sleep, since the wall clock may have been set back meanwhile.
            Kind::Wall => {
                while !due.since(self.now()).is_zero() {
                    sleep_towards(due, due.since(self.now())).await;
                }
            }
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

/// Some sleep, at most until `due`.
#[cfg(target_os = "linux")]
async fn sleep_towards(due: Moment, left: Duration) {
    // Short waits are not worth a timer of the kernel's own: nothing steps in between that the next look
    // at the clock would not show.
    if left <= Duration::from_millis(500) || crate::alarm::until(due).await.is_err() {
        tokio::time::sleep(left.min(GLANCE)).await;
    }
}

#[cfg(not(target_os = "linux"))]
async fn sleep_towards(_: Moment, left: Duration) {
    tokio::time::sleep(left.min(GLANCE)).await;
}

/// How long a sleep may go without a look at the wall clock where nobody tells of its steps.
const GLANCE: Duration = Duration::from_secs(1);

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
    async fn a_clock_that_is_set_wakes_who_waited_for_less_and_not_who_waits_for_more() {
        let clock = Timepiece::wound(Moment::from_seconds(1_000));
        let waits = |seconds| {
            let clock = clock.clone();
            tokio::spawn(async move { clock.until(Moment::from_seconds(seconds)).await })
        };
        let (soon, late) = (waits(1_500), waits(9_000));
        clock.set(Moment::from_seconds(500));
        clock.set(Moment::from_seconds(4_600));
        soon.await.unwrap();
        assert!(!late.is_finished());
        assert_eq!(clock.now(), Moment::from_seconds(4_600));
    }

    #[tokio::test]
    async fn the_wall_clock_is_waited_for_and_never_left_early() {
        let wall = Timepiece::wall();
        for wait in [Duration::from_millis(20), Duration::from_millis(520)] {
            let due = wall.now() + wait;
            wall.until(due).await;
            assert!(wall.now() >= due);
        }
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
