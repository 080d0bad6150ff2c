//! Tally of messages by number: when the webhook was answered, and when an agent had the message.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;

use super::stopwatch::Stopwatch;

/// Number of the first message, chosen so that all numbers have the same length.
const FIRST: u64 = 1_000_000_000;

pub struct MessageTally {
    watch: Stopwatch,
    first: u64,
    next: AtomicU64,
    moments: Box<[Moments]>,
    /// The last number received in each chat.
    chats: Box<[AtomicU64]>,
    answered: AtomicU64,
    received: AtomicU64,
    repeated: AtomicU64,
    disordered: AtomicU64,
}

/// Nanoseconds on the tally's stopwatch; 0 means "not yet".
#[derive(Default)]
struct Moments {
    posted: AtomicU64,
    answered: AtomicU64,
    received: AtomicU64,
}

impl MessageTally {
    pub fn new(capacity: usize, chats: usize) -> Self {
        Self::numbered_from(FIRST, capacity, chats)
    }

    /// For the second of two loads on one bot, because a number that was used before is a repeat. `first` has ten
    /// digits.
    pub fn numbered_from(first: u64, capacity: usize, chats: usize) -> Self {
        Self {
            watch: Stopwatch::start(),
            first,
            next: AtomicU64::new(0),
            moments: (0..capacity).map(|_| Moments::default()).collect(),
            chats: (0..chats).map(|_| AtomicU64::new(0)).collect(),
            answered: AtomicU64::new(0),
            received: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            disordered: AtomicU64::new(0),
        }
    }

    /// The number of the next message; none if there are enough.
    pub fn draw(&self) -> Option<u64> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        (at < self.moments.len() as u64).then_some(self.first + at)
    }

    /// The message is being posted, `late` after it was due.
    pub fn posted(&self, number: u64, late: Duration) {
        if let Some(moments) = self.moments(number) {
            let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
            moments.posted.store(self.watch.nanos().saturating_sub(late).max(1), Ordering::Relaxed);
        }
    }

    pub fn answered(&self, number: u64) {
        if let Some(moments) = self.moments(number) {
            moments.answered.store(self.watch.nanos(), Ordering::Relaxed);
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An agent has the message.
    pub fn received(&self, number: u64, chat: usize) {
        let Some(moments) = self.moments(number) else { return };
        if moments.received.swap(self.watch.nanos(), Ordering::Relaxed) != 0 {
            self.repeated.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.chats.get(chat).is_some_and(|last| last.swap(number, Ordering::Relaxed) > number) {
            self.disordered.fetch_add(1, Ordering::Relaxed);
        }
        self.received.fetch_add(1, Ordering::Release);
    }

    pub fn count_answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    pub fn count_received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// From the platform's 200 until the agent had it, for every message except the first `but`. An agent
    /// can be faster than the answer; that counts as zero.
    pub fn onward(&self, but: u64) -> Vec<u64> {
        let onward = self.moments.iter().skip(but as usize).filter_map(|moments| {
            let (answered, received) =
                (moments.answered.load(Ordering::Relaxed), moments.received.load(Ordering::Relaxed));
            (answered > 0 && received > 0).then(|| received.saturating_sub(answered))
        });
        onward.collect()
    }

    /// From the time it was due to be posted until the agent had it, for every message except the first
    /// `but`.
    pub fn whole_way(&self, but: u64) -> Vec<u64> {
        let whole = self.moments.iter().skip(but as usize).filter_map(|moments| {
            let (posted, received) =
                (moments.posted.load(Ordering::Relaxed), moments.received.load(Ordering::Relaxed));
            (posted > 0 && received > 0).then(|| received.saturating_sub(posted))
        });
        whole.collect()
    }

    /// Checks that no answered message is missing, none came twice, and every chat kept its order.
    pub fn check(&self) -> anyhow::Result<()> {
        let is_lost = |moments: &&Moments| {
            moments.answered.load(Ordering::Relaxed) > 0 && moments.received.load(Ordering::Relaxed) == 0
        };
        let lost = self.moments.iter().filter(is_lost).count();
        let repeated = self.repeated.load(Ordering::Relaxed);
        let disordered = self.disordered.load(Ordering::Relaxed);
        ensure!(
            lost == 0 && repeated == 0 && disordered == 0,
            "of {} messages {lost} were lost, {repeated} came twice and {disordered} came out of order",
            self.count_answered()
        );
        Ok(())
    }

    fn moments(&self, number: u64) -> Option<&Moments> {
        self.moments.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(steps: &[(bool, usize)]) -> anyhow::Result<()> {
        let tally = MessageTally::new(4, 1);
        let numbers: Vec<u64> = std::iter::from_fn(|| tally.draw()).collect();
        for (answered, at) in steps {
            if *answered { tally.answered(numbers[*at]) } else { tally.received(numbers[*at], 0) }
        }
        tally.check()
    }

    #[test]
    fn what_was_answered_must_come_once_and_in_order() {
        assert!(tally(&[(true, 0), (false, 0), (false, 1), (true, 1)]).is_ok());
        assert!(tally(&[(true, 0)]).is_err());
        assert!(tally(&[(true, 0), (false, 0), (false, 0)]).is_err());
        assert!(tally(&[(false, 1), (false, 0)]).is_err());
    }
}
