//! Wall clock timer (Linux timerfd) that also fires when the clock is set and after the machine was suspended.
//!
//! A monotonic timer would notice neither.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::Moment;

/// Returns at `due`, or earlier when the clock is set. The caller must check the time again.
pub(crate) async fn until(due: Moment) -> io::Result<()> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A time of zero would disarm the timer. Times before the epoch have passed anyway.
    let millis = due.millis().max(1);
    let at = Timespec { tv_sec: millis.div_euclid(1000), tv_nsec: millis.rem_euclid(1000) * 1_000_000 };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, flags, &Itimerspec { it_interval: never, it_value: at })?;
    #[expect(deprecated, reason = "deprecated because a descriptor may close too early; an owned one cannot")]
    let timer: AsyncFd<OwnedFd> = AsyncFd::new(timer)?;
    // Readable both when the timer expires and when setting the clock cancels it.
    drop(timer.readable().await?);
    Ok(())
}
