//! Schedule errors: why a text is not a schedule, where it went wrong, and the nearest accepted form.

use std::fmt;

/// Class of the error, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// None of the accepted forms.
    Unrecognised,
    /// `every`, followed by something that is not a duration.
    BadIntervalDuration,
    /// A cron expression with an impossible value.
    BadCron,
    /// A timestamp that is not a valid time.
    BadTimestamp,
    /// A time past the end of the calendar.
    Overflow,
    /// A form that one reader takes for a delay and another for an interval.
    Ambiguous,
    /// An unknown time zone.
    UnknownZone,
    /// A valid schedule without a next run.
    NoFutureMatch,
    /// A stored record without a valid schedule.
    BadRecord,
}

impl Flaw {
    /// The class as one word, for logs and tools.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unrecognised => "unrecognised",
            Self::BadIntervalDuration => "bad_interval_duration",
            Self::BadCron => "bad_cron",
            Self::BadTimestamp => "bad_timestamp",
            Self::Overflow => "overflow",
            Self::Ambiguous => "ambiguous",
            Self::UnknownZone => "unknown_zone",
            Self::NoFutureMatch => "no_future_match",
            Self::BadRecord => "bad_record",
        }
    }
}

/// Reason why a text is not a schedule, or why a schedule has no next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFault {
    flaw: Flaw,
    why: String,
    /// Number of characters before the error.
    at: Option<usize>,
    nearest: Option<String>,
}

impl ScheduleFault {
    pub(super) fn new(flaw: Flaw, why: impl Into<String>) -> Self {
        Self { flaw, why: why.into(), at: None, nearest: None }
    }

    pub(super) fn overflow() -> Self {
        Self::new(Flaw::Overflow, "the time is past the end of the calendar")
    }

    pub(super) fn no_future_match(expr: &str) -> Self {
        Self::new(Flaw::NoFutureMatch, format!("`{expr}` has no future run"))
    }

    /// Sets the position, as the number of characters before it.
    pub(super) fn at(mut self, place: usize) -> Self {
        self.at = Some(place);
        self
    }

    /// Moves the position by the characters that were cut off before the parsed part.
    pub(super) fn shifted(mut self, by: usize) -> Self {
        self.at = self.at.map(|place| place.saturating_add(by));
        self
    }

    /// Sets the nearest accepted form.
    pub(super) fn nearest(mut self, form: impl Into<String>) -> Self {
        self.nearest = Some(form.into());
        self
    }

    /// The class of the error.
    pub fn flaw(&self) -> Flaw {
        self.flaw
    }

    /// The character, counted from 1, at which parsing stopped. `None` if the error is not in a text.
    pub fn position(&self) -> Option<usize> {
        self.at.map(|place| place.saturating_add(1))
    }

    /// The nearest accepted form.
    pub fn suggestion(&self) -> Option<&str> {
        self.nearest.as_deref()
    }
}

impl fmt::Display for ScheduleFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.flaw.as_str(), self.why)?;
        if let Some(position) = self.position() {
            write!(out, ", at character {position}")?;
        }
        if let Some(form) = &self.nearest {
            write!(out, "; the nearest accepted form is {form}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ScheduleFault {}
