//! Why a text is no schedule, said so that the person who wrote it can mend it.

use std::fmt;

/// What is wrong, as a class that a caller can branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// None of the accepted forms.
    Unrecognised,
    /// `every`, followed by something that is no duration.
    BadIntervalDuration,
    /// The fields of a cron expression, with a value that cannot be.
    BadCron,
    /// A timestamp that names no moment.
    BadTimestamp,
    /// A time past the end of the calendar.
    Overflow,
    /// A form that one reader takes for a delay and another for an interval.
    Ambiguous,
    /// A zone that nobody knows.
    UnknownZone,
    /// A good schedule that never comes round again.
    NoFutureMatch,
    /// A stored record that holds no schedule.
    BadRecord,
}

impl Flaw {
    /// The class in one word, as logs and tools name it.
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

/// Why a text is no schedule, or a schedule has no next run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleFault {
    flaw: Flaw,
    why: String,
    /// Characters before the place where reading stopped.
    at: Option<usize>,
    nearest: Option<String>,
}

impl ScheduleFault {
    pub(super) fn new(flaw: Flaw, why: impl Into<String>) -> Self {
        Self { flaw, why: why.into(), at: None, nearest: None }
    }

    pub(super) fn overflow() -> Self {
        Self::new(Flaw::Overflow, "the time lies past the end of the calendar")
    }

    pub(super) fn no_future_match(expr: &str) -> Self {
        Self::new(Flaw::NoFutureMatch, format!("`{expr}` never comes round again"))
    }

    /// Names the place, counted in characters before it.
    pub(super) fn at(mut self, place: usize) -> Self {
        self.at = Some(place);
        self
    }

    /// Moves the place by what was cut off before the part that was read.
    pub(super) fn shifted(mut self, by: usize) -> Self {
        self.at = self.at.map(|place| place.saturating_add(by));
        self
    }

    /// Names the accepted form that the text comes closest to.
    pub(super) fn nearest(mut self, form: impl Into<String>) -> Self {
        self.nearest = Some(form.into());
        self
    }

    /// The class of the mistake.
    pub fn flaw(&self) -> Flaw {
        self.flaw
    }

    /// The character, counted from 1, where reading stopped. Absent when the fault is not in a text.
    pub fn position(&self) -> Option<usize> {
        self.at.map(|place| place.saturating_add(1))
    }

    /// The accepted form that the text comes closest to.
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
