//! Days at the beginning of March that the stock agent skips.
//!
//! The stock agent's search steps from the end of February by the number of days until the next listed day.
//! A listed day that February does not have carries it past the first of March: `*/10` lists the 31st, so
//! three days after the 28th it arrives at the 3rd. A store shared with a stock agent needs the same run
//! times, so the stock dialect skips the same days. The other dialect does not.

use std::collections::BTreeSet;

use jiff::civil::Date;

/// Parts of a pattern that decide which days are skipped.
#[derive(Clone, Debug)]
pub(super) struct SkippedDays {
    /// Days of the month.
    pub(super) days: BTreeSet<u32>,
    /// Weekdays on which the job runs whatever the day of the month. Empty if weekdays are not restricted.
    pub(super) weekdays: BTreeSet<u32>,
}

impl SkippedDays {
    /// Whether a search that began on one day skips another, although it matches.
    pub(super) fn skips(&self, begun: Date, found: Date) -> bool {
        let march = found.first_of_month();
        if found.month() != 3 || begun >= march {
            return false;
        }
        let Ok(last) = march.yesterday().map(|last| last.day().unsigned_abs().into()) else { return false };
        // A job that runs on the last day of February reaches March hour by hour and skips nothing.
        if self.days.contains(&last) {
            return false;
        }
        let day = u32::from(found.day().unsigned_abs());
        let weekday = u32::from(found.weekday().to_sunday_zero_offset().unsigned_abs());
        let landed = self.days.range(last + 1..).next().map(|listed| listed - last);
        landed.is_some_and(|landed| day < landed) && !self.weekdays.contains(&weekday)
    }
}
