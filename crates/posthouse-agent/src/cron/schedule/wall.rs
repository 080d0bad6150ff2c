//! Matching cron patterns against local time, across changes of the zone's offset.
//!
//! The matcher knows only local times. The history of a zone is cut where its offset changes, and each
//! piece is searched under its own offset. This module decides about local times that a change skips or
//! repeats.

use std::sync::Arc;

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use jiff::{
    SignedDuration, Timestamp,
    civil::{DateTime, Time},
    tz::{Offset, TimeZone},
};

use super::{Dialect, skipped_days::SkippedDays};

/// Upper bound of the shift by any zone's offset.
const REACH: SignedDuration = SignedDuration::from_hours(48);

/// A cron pattern, ready to match.
#[derive(Clone, Debug)]
pub(super) struct Wall {
    pattern: Arc<Cron>,
    /// Whether a repeated hour counts twice: only for a schedule that runs in every hour.
    both_passes: bool,
    /// Set for a pattern of the stock dialect that skips days.
    skipped: Option<SkippedDays>,
    /// Set for a date that does not exist in any year.
    never: bool,
    pub(super) dialect: Dialect,
}

impl PartialEq for Wall {
    fn eq(&self, other: &Self) -> bool {
        // `skipped` follows from the pattern and the dialect.
        (self.both_passes, self.dialect, self.pattern.as_str())
            == (other.both_passes, other.dialect, other.pattern.as_str())
    }
}

/// The period between two changes of a zone's offset.
struct OffsetPeriod {
    begin: Option<Timestamp>,
    end: Option<Timestamp>,
    offset: Offset,
    /// The offset until `begin`.
    before: Offset,
}

impl Wall {
    /// Takes seven fields, second first and year last.
    pub(super) fn new(fields: &str, both_passes: bool, dialect: Dialect) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Required).build();
        let pattern = parser.parse(fields).map_err(|error| error.to_string())?;
        Ok(Self { pattern: Arc::new(pattern), both_passes, skipped: None, never: false, dialect })
    }

    /// The same pattern, known to match no day at all.
    pub(super) fn never(mut self) -> Self {
        self.never = true;
        self
    }

    /// The same pattern without the days that it skips.
    pub(super) fn skipping(mut self, skipped: SkippedDays) -> Self {
        self.skipped = Some(skipped);
        self
    }

    /// The first instant strictly after `base` at which the local time of the zone matches.
    pub(super) fn after(&self, base: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.never {
            return None;
        }
        let mut from = SearchStart { base, at: base, inclusive: false };
        loop {
            let piece = OffsetPeriod::around(from.at, zone);
            let far = self.regular(&piece, &from);
            let found = far.into_iter().chain(self.skipped(&piece, &from)).min();
            let Some(end) = piece.end else { return found };
            match found {
                Some(found) if found < end => return Some(found),
                // Nothing matches until about there, so the pieces in between need no search.
                Some(far) => from.at = end.max(far.checked_sub(REACH).ok()?),
                None => return None,
            }
            from.inclusive = true;
        }
    }

    /// The first match under the piece's own offset.
    fn regular(&self, piece: &OffsetPeriod, from: &SearchStart) -> Option<Timestamp> {
        let mut from = *from;
        if let (false, Some((_, heard))) = (self.both_passes, piece.repeated())
            && from.at < heard
        {
            from = from.moved(heard);
        }
        self.search(&from, piece.offset)
    }

    /// The first match among the local times that were skipped when the piece began. They run as if the
    /// clock had not been set forward, which is later by the gap.
    fn skipped(&self, piece: &OffsetPeriod, from: &SearchStart) -> Option<Timestamp> {
        let (begin, over) = piece.gap()?;
        let from = if from.at < begin { from.moved(begin) } else { *from };
        self.search(&from, piece.before).filter(|found| *found < over)
    }

    fn search(&self, from: &SearchStart, offset: Offset) -> Option<Timestamp> {
        let reading: DateTime = offset.to_datetime(from.at);
        let mut found = self.pattern.find_next_occurrence(&reading, from.inclusive).ok()?;
        if let Some(skipped) = &self.skipped {
            let begun = offset.to_datetime(from.base).date();
            while skipped.skips(begun, found.date()) {
                let morrow = found.date().tomorrow().ok()?.to_datetime(Time::midnight());
                found = self.pattern.find_next_occurrence(&morrow, true).ok()?;
            }
        }
        offset.to_timestamp(found).ok()
    }
}

/// Start of a search.
#[derive(Clone, Copy)]
struct SearchStart {
    /// The whole search is strictly after this.
    base: Timestamp,
    at: Timestamp,
    inclusive: bool,
}

impl SearchStart {
    fn moved(self, at: Timestamp) -> Self {
        Self { at, inclusive: true, ..self }
    }
}

impl OffsetPeriod {
    fn around(at: Timestamp, zone: &TimeZone) -> Self {
        let offset = zone.to_offset(at);
        // A change at exactly this instant counts as past.
        let just_after = at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(at);
        let begin = zone.preceding(just_after).next().map(|change| change.timestamp());
        let end = zone.following(at).next().map(|change| change.timestamp());
        let before = begin
            .and_then(|begin| begin.checked_sub(SignedDuration::from_nanos(1)).ok())
            .map_or(offset, |before| zone.to_offset(before));
        Self { begin, end, offset, before }
    }

    /// The instants to which skipped local times are moved.
    fn gap(&self) -> Option<(Timestamp, Timestamp)> {
        let put_forward = self.offset.duration_since(self.before);
        self.stretch(put_forward)
    }

    /// The instants whose local times occur for the second time.
    fn repeated(&self) -> Option<(Timestamp, Timestamp)> {
        let put_back = self.before.duration_since(self.offset);
        self.stretch(put_back)
    }

    fn stretch(&self, length: SignedDuration) -> Option<(Timestamp, Timestamp)> {
        let begin = self.begin.filter(|_| length > SignedDuration::ZERO)?;
        Some((begin, begin.checked_add(length).ok()?))
    }
}
