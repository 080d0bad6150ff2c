//! Durations as people write them.

use std::time::Duration;

use super::is_blank;

/// Reason why a text is not a duration, with the number of characters before the error.
pub(super) enum DurationError {
    /// Something else is there.
    Elsewhat { at: usize },
    /// A number too large for any calendar.
    TooLong,
}

/// A whole number and a unit of minutes, hours or days, as the stock agent reads it. In minutes.
pub(super) fn stock_minutes(text: &str) -> Result<u64, DurationError> {
    let mut reader = DurationParser { text, place: 0 };
    let count = reader.number()?;
    let at = reader.place;
    let seconds = match reader.unit()? {
        // The stock grammar has no seconds.
        1 => return Err(DurationError::Elsewhat { at }),
        seconds => seconds,
    };
    if !reader.rest().is_empty() {
        return Err(DurationError::Elsewhat { at: reader.characters() });
    }
    count.and_then(|count| count.checked_mul(seconds / 60)).ok_or(DurationError::TooLong)
}

/// A sum of numbers and units down to seconds, such as `1h30m`.
pub(super) fn sum(text: &str) -> Result<Duration, DurationError> {
    let mut reader = DurationParser { text, place: 0 };
    let mut total = Some(0_u64);
    loop {
        let count = reader.number()?;
        let seconds = reader.unit()?;
        total = total.and_then(|total| total.checked_add(count?.checked_mul(seconds)?));
        reader.skip_blanks();
        if reader.rest().is_empty() {
            return total.map(Duration::from_secs).ok_or(DurationError::TooLong);
        }
    }
}

struct DurationParser<'a> {
    text: &'a str,
    place: usize,
}

impl<'a> DurationParser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.place..]
    }

    fn characters(&self) -> usize {
        self.text[..self.place].chars().count()
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.place += rest.len() - rest.trim_start_matches(is_blank).len();
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let word = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.place += word.len();
        (!word.is_empty()).then_some(word)
    }

    /// The inner `None` is a number that is too large.
    fn number(&mut self) -> Result<Option<u64>, DurationError> {
        let at = self.characters();
        let digits = self.take(|c| c.is_ascii_digit()).ok_or(DurationError::Elsewhat { at })?;
        Ok(digits.parse().ok())
    }

    /// Number of seconds in the unit.
    fn unit(&mut self) -> Result<u64, DurationError> {
        self.skip_blanks();
        let at = self.characters();
        let word = self.take(char::is_alphabetic).unwrap_or_default().to_lowercase();
        Ok(match word.as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "m" | "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            _ => return Err(DurationError::Elsewhat { at }),
        })
    }
}
