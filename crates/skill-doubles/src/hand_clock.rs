//! Test clock that is moved by hand, and a loop that moves it when a run waits for nothing else.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

/// Time that does not pass until a test moves it.
#[derive(Default)]
pub struct HandClock {
    state: Mutex<ClockState>,
}

#[derive(Default)]
struct ClockState {
    now: Duration,
    sleepers: Vec<(Duration, Waker)>,
}

impl HandClock {
    pub fn now(&self) -> Duration {
        self.state.lock().now
    }

    pub async fn sleep(&self, duration: Duration) {
        let end = self.now().saturating_add(duration);
        poll_fn(|context| {
            let mut state = self.state.lock();
            if state.now >= end {
                return Poll::Ready(());
            }
            state.sleepers.push((end, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// Moves to the next moment that a sleeper waits for. `false` if nobody sleeps.
    pub fn advance(&self) -> bool {
        let mut state = self.state.lock();
        let Some(next) = state.sleepers.iter().map(|(end, _)| *end).min() else { return false };
        state.now = next.max(state.now);
        let (due, waiting): (Vec<_>, Vec<_>) = state.sleepers.drain(..).partition(|(end, _)| *end <= next);
        state.sleepers = waiting;
        drop(state);
        due.into_iter().for_each(|(_, waker)| waker.wake());
        true
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Runs a future to its end. The clock moves whenever the future waits and nothing has woken it.
///
/// `None` if it waits for something that never comes.
pub fn drive<T>(clock: &HandClock, future: impl Future<Output = T>) -> Option<T> {
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return Some(result);
        }
        if !woken.0.swap(false, Ordering::Acquire) && !clock.advance() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_no_time_of_the_machine() {
        let clock = HandClock::default();
        let slept = drive(&clock, async {
            clock.sleep(Duration::from_secs(86_400)).await;
            clock.sleep(Duration::from_millis(5)).await;
            clock.now()
        });
        assert_eq!(slept, Some(Duration::from_millis(86_400_005)));
    }

    #[test]
    fn a_future_that_waits_for_nothing_ends_the_loop() {
        assert_eq!(drive(&HandClock::default(), std::future::pending::<()>()), None);
    }
}
