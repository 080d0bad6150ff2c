//! Rate limit of frames per agent. A faster agent delays only itself: its own sockets are read later.

use std::time::Duration;

use posthouse_time::Instant;

/// Cost of one frame in time. It limits an agent to 20,000 valid frames per second.
const FRAME: Duration = Duration::from_micros(50);
/// Cost factor of a line that is not a valid frame.
const JUNK: u32 = 20;
/// Number of bytes that cost as much as one frame.
const BYTES: usize = 4096;
/// Burst: time by which an agent that was quiet may be ahead.
const BURST: Duration = Duration::from_secs(1);

/// Rate limit of one agent, over all its sockets.
#[derive(Debug, Default)]
pub(crate) struct FrameRateLimit {
    /// Time until which everything read so far has been paid for.
    paid_until: Instant,
}

impl FrameRateLimit {
    /// Charges for a line. Returns false when the next one has to wait.
    pub fn count(&mut self, length: usize, is_frame: bool, now: Instant) -> bool {
        let frames = if is_frame { 1 } else { JUNK };
        let frames = frames + u32::try_from(length / BYTES).unwrap_or(u32::MAX - JUNK);
        self.paid_until = self.paid_until.max(now) + FRAME.saturating_mul(frames);
        self.paid_until.since(now) <= BURST
    }

    /// Charges for a message without a line to charge yet: a ping, or a message that was read ahead. Returns the time
    /// until which nothing more may be read, once there were too many. Reading ahead has an extra allowance beyond that
    /// of lines, so that a disconnect is noticed while lines wait.
    pub fn count_message(&mut self, now: Instant) -> Option<Instant> {
        self.count(0, true, now);
        let ahead = self.paid_until.since(now);
        (ahead > 2 * BURST).then(|| now + (ahead - 2 * BURST))
    }

    /// Time at which the next line may be read, if not now.
    pub fn waits_until(&self, now: Instant) -> Option<Instant> {
        (self.paid_until.since(now) > BURST).then(|| now + (self.paid_until.since(now) - BURST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_thousand_frames_or_a_thousand_lines_of_junk_are_read_in_a_second() {
        for (is_frame, many) in [(true, 20_000), (false, 1_000)] {
            let (mut limit, now) = (FrameRateLimit::default(), Instant::default());
            let mut lines = 0;
            while limit.waits_until(now).is_none() {
                limit.count(100, is_frame, now);
                lines += 1;
            }
            assert!((many..=many + 1).contains(&lines), "{lines}");
            let later = now + Duration::from_secs(1);
            assert!(limit.waits_until(now).is_some_and(|until| until <= later));
            assert_eq!(limit.waits_until(later), None);
        }
    }

    #[test]
    fn messages_without_lines_are_paced_too() {
        let (mut limit, now) = (FrameRateLimit::default(), Instant::default());
        assert!((0..40_000).all(|_| limit.count_message(now).is_none()));
        let until = limit.count_message(now).unwrap();
        assert!(until > now && limit.count_message(until).is_some_and(|next| next > until));
    }
}
