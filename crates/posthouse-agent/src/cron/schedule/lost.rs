//! The first days of March that the stock agent loses.
//!
//! Its search steps from the end of February by as many days as are left until the next listed day, and a
//! listed day that February does not have carries it past the first of March: `*/10` lists the 31st, so
//! three days after the 28th it stands on the 3rd. A store shared with a stock agent must not have two
//! opinions of when a job runs, so its dialect loses the same days. Nobody else does.

use std::collections::BTreeSet;

use jiff::civil::Date;

/// What a pattern lists, as far as it decides which days are lost.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    /// Days of the month.
    pub(super) days: BTreeSet<u32>,
    /// Weekdays on which the job runs whatever the day of the month; none when they are not restricted.
    pub(super) weekdays: BTreeSet<u32>,
}

impl Lost {
    /// Whether a search that was begun on one day passes over another, though it matches.
    pub(super) fn loses(&self, begun: Date, found: Date) -> bool {
        let march = found.first_of_month();
        if found.month() != 3 || begun >= march {
            return false;
        }
        let Ok(last) = march.yesterday().map(|last| last.day().unsigned_abs().into()) else { return false };
        // A job that runs on the last of February walks into March by the hour and loses nothing.
        if self.days.contains(&last) {
            return false;
        }
        let day = u32::from(found.day().unsigned_abs());
        let weekday = u32::from(found.weekday().to_sunday_zero_offset().unsigned_abs());
        let landed = self.days.range(last + 1..).next().map(|listed| listed - last);
        landed.is_some_and(|landed| day < landed) && !self.weekdays.contains(&weekday)
    }
}
