//! Rate limits with sliding windows.

use std::collections::VecDeque;

/// The times of recent calls.
#[derive(Default)]
pub(crate) struct SlidingWindow {
    seen: VecDeque<i64>,
}

impl SlidingWindow {
    /// Counts one call and returns how many are left, or the milliseconds to wait. A refused call is not counted.
    pub fn admit(&mut self, most: u32, window_ms: i64, now_ms: i64) -> Result<u32, i64> {
        self.forget(window_ms, now_ms);
        if self.seen.len() >= most as usize {
            let oldest = self.seen.front().copied().unwrap_or(now_ms);
            return Err((oldest + window_ms - now_ms).max(1));
        }
        self.seen.push_back(now_ms);
        Ok(most - u32::try_from(self.seen.len()).unwrap_or(most))
    }

    /// Milliseconds until the window is empty again.
    pub fn reset_after_ms(&mut self, window_ms: i64, now_ms: i64) -> i64 {
        self.forget(window_ms, now_ms);
        self.seen.back().map_or(0, |last| last + window_ms - now_ms)
    }

    fn forget(&mut self, window_ms: i64, now_ms: i64) {
        while self.seen.front().is_some_and(|first| now_ms - first >= window_ms) {
            self.seen.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_beyond_the_limit_wait_for_the_oldest_one_to_leave_the_window() {
        let mut window = SlidingWindow::default();
        assert_eq!(window.admit(2, 1_000, 0), Ok(1));
        assert_eq!(window.admit(2, 1_000, 400), Ok(0));
        assert_eq!(window.admit(2, 1_000, 600), Err(400));
        assert_eq!(window.reset_after_ms(1_000, 600), 800);
        assert_eq!(window.admit(2, 1_000, 1_000), Ok(0));
        assert_eq!(window.admit(0, 1_000, 5_000), Err(1_000));
    }
}
