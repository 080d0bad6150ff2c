//! Pauses between attempts at one delivery.

use std::time::Duration;

/// The longest pause before the second attempt. It doubles with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A random part of the full pause, so that deliveries that failed together do not retry together. The receiver's
/// own `Retry-After` counts up to the cap.
pub(super) fn retry_pause(made: u32, asked: Option<Duration>) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(made)).min(LONGEST_PAUSE);
    let mut random = [0; 4];
    // Without randomness, the full pause.
    let share = match aws_lc_rs::rand::fill(&mut random) {
        Ok(()) => f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    };
    whole.mul_f64(share).max(asked.unwrap_or_default().min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_its_cap_and_is_drawn_from_all_of_it() {
        for (made, whole) in [(0, 250), (1, 500), (2, 1000), (4, 4000), (5, 5000), (40, 5000)] {
            let whole = Duration::from_millis(whole);
            let drawn: Vec<Duration> = (0..200).map(|_| retry_pause(made, None)).collect();
            assert!(drawn.iter().all(|pause| *pause <= whole), "{drawn:?}");
            let (low, high) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
            assert!(*low < whole / 2 && *high > whole / 2, "from {low:?} to {high:?} of {whole:?}");
        }
    }

    #[test]
    fn what_the_receiver_asks_for_counts_up_to_the_cap() {
        let asked = |seconds| retry_pause(0, Some(Duration::from_secs(seconds)));
        assert_eq!(asked(2), Duration::from_secs(2));
        assert_eq!(asked(3600), LONGEST_PAUSE);
        assert!(asked(0) <= FIRST_PAUSE);
    }
}
