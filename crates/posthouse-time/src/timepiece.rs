//! `Timepiece`: current time and timers, from the system or driven by hand in tests.

use std::future::Future;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::sync::watch;

use crate::{Instant, Moment};

/// A source of time and timers. Clones share the same clock.
///
/// It has two readings. [`now`](Timepiece::now) is the wall clock: the time that people and other machines use,
/// which may step forward or back. [`instant`](Timepiece::instant) is the monotonic clock: every duration is
/// measured with it.
#[derive(Clone, Debug)]
pub struct Timepiece(ClockKind);

#[derive(Clone, Debug)]
enum ClockKind {
    System,
    ByHand(watch::Sender<ManualReadings>),
}

/// Readings of both clocks of a timepiece driven by hand.
#[derive(Clone, Copy, Debug)]
struct ManualReadings {
    wall: Moment,
    monotonic: Instant,
}

/// Error of [`Timepiece::within`]: the time limit was reached first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl Timepiece {
    /// The clocks of the system.
    pub fn wall() -> Self {
        Self(ClockKind::System)
    }

    /// A timepiece driven by hand. It stays at `start` until [`wind`](Timepiece::wind) or
    /// [`set`](Timepiece::set) is called.
    pub fn wound(start: Moment) -> Self {
        Self(ClockKind::ByHand(watch::Sender::new(ManualReadings {
            wall: start,
            monotonic: Instant::default(),
        })))
    }

    /// The wall clock.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system clock")]
    pub fn now(&self) -> Moment {
        match &self.0 {
            ClockKind::System => {
                let since_epoch = std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap_or(Duration::ZERO);
                Moment::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
            }
            ClockKind::ByHand(hands) => hands.borrow().wall,
        }
    }

    /// The monotonic clock.
    pub fn instant(&self) -> Instant {
        match &self.0 {
            ClockKind::System => Instant::from_origin(system_instant().duration_since(*ORIGIN)),
            ClockKind::ByHand(hands) => hands.borrow().monotonic,
        }
    }

    /// Both clocks, read at the same time. Code that compares them uses this: between two single readings the
    /// process may be paused, or time may be driven, and the difference would look like a step of the wall clock.
    pub fn readings(&self) -> (Moment, Instant) {
        match &self.0 {
            ClockKind::System => {
                let mut before = self.instant();
                for _ in 0..READINGS {
                    let (wall, after) = (self.now(), self.instant());
                    if after.since(before) < APART {
                        return (wall, after);
                    }
                    before = after;
                }
                (self.now(), self.instant())
            }
            ClockKind::ByHand(hands) => {
                let hands = *hands.borrow();
                (hands.wall, hands.monotonic)
            }
        }
    }

    /// Moves both clocks of a timepiece driven by hand forward, and wakes all waiters whose time has come.
    ///
    /// # Panics
    /// On the system's clocks, which cannot be driven by hand.
    pub fn wind(&self, by: Duration) {
        self.hands().send_modify(|hands| {
            hands.wall = hands.wall + by;
            hands.monotonic = hands.monotonic + by;
        });
    }

    /// Moves both clocks of a timepiece driven by hand forward by `step`, again and again, until something has
    /// happened. After each step it waits, longer every time, so that driven time does not run ahead of a slow
    /// machine: what waits for the time limit of a call under way would otherwise see it pass at once.
    ///
    /// # Panics
    /// On the system's clocks, as [`Timepiece::wind`] does.
    pub async fn wind_until<T>(&self, step: Duration, happened: impl Future<Output = T>) -> T {
        let mut happened = std::pin::pin!(happened);
        let mut pause = FIRST_WAIT;
        loop {
            self.wind(step);
            tokio::select! {
                biased;
                done = &mut happened => return done,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_WAIT),
            }
        }
    }

    /// Sets the wall clock only, forward or back, as a time server or an operator would. The monotonic clock
    /// does not change.
    ///
    /// # Panics
    /// On the system's clocks, as [`Timepiece::wind`] does.
    pub fn set(&self, now: Moment) {
        self.hands().send_modify(|hands| hands.wall = now);
    }

    fn hands(&self) -> &watch::Sender<ManualReadings> {
        match &self.0 {
            ClockKind::System => panic!("only a clock made by Timepiece::wound can be wound or set"),
            ClockKind::ByHand(hands) => hands,
        }
    }

    /// Returns once the wall clock has reached `due`, never before. It also returns soon after the wall clock was
    /// set past `due`, or after a suspended machine resumes past `due`. Use it for times that people named. An
    /// internal deadline is an [`Instant`] and waits with [`sleep_until`](Timepiece::sleep_until).
    pub async fn until(&self, due: Moment) {
        match &self.0 {
            // Checked again after every sleep, since the wall clock may have been set back meanwhile.
            ClockKind::System => {
                while !due.since(self.now()).is_zero() {
                    sleep_towards(due, due.since(self.now())).await;
                }
            }
            ClockKind::ByHand(hands) => wait_for(hands, |hands| hands.wall >= due).await,
        }
    }

    /// Returns once the monotonic clock has reached `due`.
    pub async fn sleep_until(&self, due: Instant) {
        match &self.0 {
            ClockKind::System => tokio::time::sleep(due.since(self.instant())).await,
            ClockKind::ByHand(hands) => wait_for(hands, |hands| hands.monotonic >= due).await,
        }
    }

    /// Returns after `pause` on the monotonic clock. A step of the wall clock neither shortens nor extends it.
    pub async fn after(&self, pause: Duration) {
        match &self.0 {
            ClockKind::System => tokio::time::sleep(pause).await,
            ClockKind::ByHand(_) => self.sleep_until(self.instant() + pause).await,
        }
    }

    /// Runs `work` for at most `limit`.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Result<T, TimedOut> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.after(limit) => Err(TimedOut),
        }
    }
}

/// Two readings of the system's clocks that are not further apart than this count as simultaneous.
const APART: Duration = Duration::from_millis(1);
/// How often simultaneous readings are tried.
const READINGS: usize = 4;

/// First and longest wait of [`Timepiece::wind_until`] between two steps.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Origin of the system's monotonic clock, so that its readings fit into our [`Instant`].
static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(system_instant);

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system clock")]
fn system_instant() -> std::time::Instant {
    std::time::Instant::now()
}

async fn wait_for(hands: &watch::Sender<ManualReadings>, reached: impl Fn(&ManualReadings) -> bool) {
    // Waiting cannot fail: the waiting timepiece keeps the sender alive.
    let _ = hands.subscribe().wait_for(reached).await;
}

/// Sleeps for some time, at most until `due`.
#[cfg(target_os = "linux")]
async fn sleep_towards(due: Moment, left: Duration) {
    // A short wait does not need a kernel timer: the next check of the clock notices a step soon enough.
    if left <= Duration::from_millis(500) {
        return tokio::time::sleep(left).await;
    }
    // The kernel timer uses the kernel's clock. The time that this process sees may differ from it (a preloaded
    // library, a time namespace), so the clock is also checked from time to time.
    tokio::select! {
        rung = crate::alarm::until(due) => if rung.is_err() {
            tokio::time::sleep(left.min(GLANCE)).await;
        },
        () = tokio::time::sleep(left.min(LONGEST_WITHOUT_A_LOOK)) => {}
    }
}

/// Longest sleep that relies on the kernel timer alone.
#[cfg(target_os = "linux")]
const LONGEST_WITHOUT_A_LOOK: Duration = Duration::from_secs(60);

#[cfg(not(target_os = "linux"))]
async fn sleep_towards(_: Moment, left: Duration) {
    tokio::time::sleep(left.min(GLANCE)).await;
}

/// Longest sleep without checking the wall clock where the system does not report its steps.
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
    async fn a_step_of_the_wall_clock_moves_no_duration() {
        let clock = Timepiece::wound(Moment::from_seconds(1_000));
        let start = clock.instant();
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock
                    .within(Duration::from_secs(60), clock.sleep_until(start + Duration::from_secs(30)))
                    .await
            }
        });
        tokio::task::yield_now().await;
        clock.set(Moment::from_seconds(999_999));
        clock.set(Moment::from_seconds(5));
        assert_eq!(clock.instant(), start);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        clock.wind(Duration::from_secs(30));
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(clock.now(), Moment::from_seconds(35));
        assert_eq!(clock.instant().since(start), Duration::from_secs(30));
    }

    #[test]
    fn both_clocks_are_read_at_the_same_time_while_another_thread_drives_them() {
        let clock = Timepiece::wound(Moment::default());
        let lead = |(wall, monotonic): (Moment, Instant)| {
            u128::from(wall.millis().unsigned_abs()) - monotonic.since(Instant::default()).as_millis()
        };
        std::thread::scope(|threads| {
            threads.spawn(|| (0..10_000).for_each(|_| clock.wind(Duration::from_secs(60))));
            (0..10_000).for_each(|_| assert_eq!(lead(clock.readings()), 0));
        });
        let (system, before) = (Timepiece::wall(), Timepiece::wall().readings());
        let after = system.readings();
        assert!(after.1 >= before.1);
    }

    #[tokio::test]
    async fn time_is_driven_until_something_has_happened() {
        let clock = Timepiece::wound(Moment::default());
        let due = clock.instant() + Duration::from_secs(25);
        clock.wind_until(Duration::from_secs(10), clock.sleep_until(due)).await;
        assert_eq!(clock.instant().since(due), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn the_monotonic_clock_is_waited_for_and_never_left_early() {
        let system = Timepiece::wall();
        let due = system.instant() + Duration::from_millis(20);
        system.sleep_until(due).await;
        assert!(system.instant() >= due);
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
        assert_eq!(late, Err(TimedOut));
        assert_eq!(clock.within(Duration::from_secs(5), async { 7 }).await, Ok(7));
    }
}
