//! Pacer of open loops: a thread that releases each message when it is due.
//!
//! The timers of the async runtime count in milliseconds. With them, all messages of one millisecond would be posted in
//! the same instant: a flood of 10,000/s would become a burst of ten beside every message that is measured.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::Semaphore;

use super::stopwatch::Stopwatch;

/// The due times of messages with a constant gap, which the posters send in turn.
#[derive(Clone, Copy)]
pub struct PostSchedule {
    pub watch: Stopwatch,
    pub gap: Duration,
    pub span: Duration,
}

/// The releases of one poster, in the order of its messages.
pub type PosterReleases = Arc<Semaphore>;

/// Starts the thread, which ends with the last message.
pub fn start(schedule: PostSchedule, posters: usize) -> anyhow::Result<Vec<PosterReleases>> {
    let releases: Vec<PosterReleases> = (0..posters).map(|_| Arc::new(Semaphore::new(0))).collect();
    let of_posters = releases.clone();
    let pace = move || {
        let mut due = Duration::ZERO;
        for of_poster in of_posters.iter().cycle() {
            if due >= schedule.span {
                return;
            }
            if let Some(early) = due.checked_sub(schedule.watch.elapsed()) {
                std::thread::sleep(early);
            }
            of_poster.add_permits(1);
            due += schedule.gap;
        }
    };
    std::thread::Builder::new().name("pacer".to_owned()).spawn(pace).context("could not start a thread")?;
    Ok(releases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_message_is_released_once_and_none_before_it_is_due() {
        let schedule = PostSchedule {
            watch: Stopwatch::start(),
            gap: Duration::from_micros(300),
            span: Duration::from_millis(3),
        };
        let releases = start(schedule, 3).unwrap();
        for message in 0..10_u32 {
            releases[message as usize % 3].acquire().await.unwrap().forget();
            assert!(schedule.watch.elapsed() >= schedule.gap * message, "{message}");
        }
        assert!(releases.iter().all(|of_poster| of_poster.available_permits() == 0));
    }
}
