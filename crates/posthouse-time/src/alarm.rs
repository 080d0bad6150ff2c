//! Sleeping by the wall clock: an alarm that also rings when the clock is set, and right after the
//! machine was suspended. A monotonic timer would sleep on through both.

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use crate::Moment;

/// Returns at `due`, or earlier when somebody sets the clock: the caller looks at the time again.
pub(crate) async fn until(due: Moment) -> io::Result<()> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A time of zero would disarm it; whoever waits for the epoch has waited long enough.
    let millis = due.millis().max(1);
    let at = Timespec { tv_sec: millis.div_euclid(1000), tv_nsec: millis.rem_euclid(1000) * 1_000_000 };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, flags, &Itimerspec { it_interval: never, it_value: at })?;
    #[expect(deprecated, reason = "it fears a descriptor that closes too early; an owned one cannot")]
    let timer: AsyncFd<OwnedFd> = AsyncFd::new(timer)?;
    // Readable both when it rings and when it is cancelled.
    drop(timer.readable().await?);
    Ok(())
}
