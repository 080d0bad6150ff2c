//! Timestamps as the stock agent reads and writes them.
//!
//! The reader accepts what Python's `fromisoformat` accepts, because stores contain such texts: basic and
//! extended forms, week dates, any single character between date and time, fractions cut after six digits.

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, DateTime, ISOWeekDate, Time, Weekday},
    tz::{Offset, TimeZone},
};

const DAY_IN_MICROS: i64 = 86_400_000_000;

/// An instant as stock writes it: microseconds only if there are any, and the numeric offset that the zone
/// has at that time.
pub fn iso(at: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(at);
    let reading = offset.to_datetime(at);
    let mut text = reading.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    let micros = reading.subsec_nanosecond() / 1_000;
    if micros != 0 {
        text.push_str(&format!(".{micros:06}"));
    }
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let east = seconds.unsigned_abs();
    text.push_str(&format!("{sign}{:02}:{:02}", east / 3_600, east / 60 % 60));
    if !east.is_multiple_of(60) {
        text.push_str(&format!(":{:02}", east % 60));
    }
    text
}

/// Reads a time that stock wrote. A text without an offset is read in the zone.
pub fn read_iso(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    ParsedTime::read(text)?.instant(zone)
}

/// A date and a time of day, with the offset east of UTC if the text has one.
pub(super) struct ParsedTime {
    reading: DateTime,
    east: Option<SignedDuration>,
}

impl ParsedTime {
    pub(super) fn read(text: &str) -> Option<Self> {
        let text = TimeText(text.chars().collect());
        if text.0.len() < 7 {
            return None;
        }
        let separator = text.separator();
        let date = text.date(separator)?;
        if text.0.len() == separator {
            return Some(Self { reading: date.to_datetime(Time::midnight()), east: None });
        }
        let (time, east) = text.time_and_offset(separator + 1)?;
        Some(Self { reading: date.to_datetime(time), east })
    }

    /// A local time that the zone skips is counted from before the gap. One that it repeats is the first.
    pub(super) fn instant(&self, zone: &TimeZone) -> Option<Timestamp> {
        match self.east {
            Some(east) => Offset::UTC.to_timestamp(self.reading).ok()?.checked_sub(east).ok(),
            None => zone.to_ambiguous_timestamp(self.reading).compatible().ok(),
        }
    }

    /// The local time as written, for display.
    pub(super) fn to_the_minute(&self) -> String {
        format!("{}-{}", self.reading.year(), self.reading.strftime("%m-%d %H:%M"))
    }
}

struct TimeText(Vec<char>);

impl TimeText {
    /// Past the end it returns a NUL character.
    fn at(&self, place: usize) -> char {
        self.0.get(place).copied().unwrap_or('\0')
    }

    fn number(&self, place: usize, digits: usize) -> Option<u32> {
        (place..place + digits)
            .try_fold(0_u32, |sum, place| Some(sum.checked_mul(10)? + self.at(place).to_digit(10)?))
    }

    /// Number of characters of the date.
    fn separator(&self) -> usize {
        let length = self.0.len();
        if length == 7 {
            return 7;
        }
        match (self.at(4), self.at(5)) {
            ('-', 'W') if self.at(8) != '-' => 8,
            // A weekday has one digit. With two, the dash separates the week from the time.
            ('-', 'W') if length > 10 && self.at(10).is_ascii_digit() => 8,
            ('-', _) => 10,
            ('W', _) => {
                let end = (7..length).find(|place| !self.at(*place).is_ascii_digit()).unwrap_or(length);
                if end < 9 { end } else { 8 - usize::from(end % 2 == 0) }
            }
            _ => 8,
        }
    }

    fn date(&self, length: usize) -> Option<Date> {
        if length > self.0.len() {
            return None;
        }
        let year = i16::try_from(self.number(0, 4)?).ok().filter(|year| *year > 0)?;
        let dashed = self.at(4) == '-';
        let dash = usize::from(dashed);
        let mut place = 4 + dash;
        if self.at(place) == 'W' {
            let week = i8::try_from(self.number(place + 1, 2)?).ok()?;
            place += 3;
            let mut day = 1;
            if place < length {
                if (self.at(place) == '-') != dashed {
                    return None;
                }
                day = i8::try_from(self.number(place + dash, 1)?).ok()?;
            }
            let weekday = Weekday::from_monday_one_offset(day).ok()?;
            return Some(ISOWeekDate::new(year, week, weekday).ok()?.date());
        }
        let month = i8::try_from(self.number(place, 2)?).ok()?;
        place += 2;
        if (self.at(place) == '-') != dashed {
            return None;
        }
        place += dash;
        let day = i8::try_from(self.number(place, 2)?).ok()?;
        (place + 2 == length).then_some(())?;
        Date::new(year, month, day).ok()
    }

    fn time_and_offset(&self, from: usize) -> Option<(Time, Option<SignedDuration>)> {
        let end = self.0.len();
        let sign = (from..end).find(|place| "+-Z".contains(self.at(*place)));
        let (clock, finished) = self.clock(from, sign.unwrap_or(end))?;
        let small = |number: u32| i8::try_from(number).ok();
        let nanos = i32::try_from(clock.micros * 1_000).ok()?;
        let time =
            Time::new(small(clock.hours)?, small(clock.minutes)?, small(clock.seconds)?, nanos).ok()?;
        let Some(sign) = sign else {
            return finished.then_some((time, None));
        };
        if self.at(sign) == 'Z' {
            return (sign + 1 == end).then_some((time, Some(SignedDuration::ZERO)));
        }
        let (offset, finished) = self.clock(sign + 1, end)?;
        // A fraction of a second alone is not an offset.
        let micros = if offset.in_micros() < 1_000_000 { 0 } else { offset.in_micros() };
        if !finished || micros >= DAY_IN_MICROS {
            return None;
        }
        let east = SignedDuration::from_micros(if self.at(sign) == '-' { -micros } else { micros });
        Some((time, Some(east)))
    }

    /// Reads hours, then minutes, seconds and a fraction if present. Also returns whether the text ended
    /// there.
    fn clock(&self, from: usize, end: usize) -> Option<(ClockTime, bool)> {
        let mut parts = [0_u32; 3];
        let mut place = from;
        let mut colons = false;
        for (index, part) in parts.iter_mut().enumerate() {
            *part = self.number(place, 2)?;
            let next = self.at(place + 2);
            place += 3;
            if index == 0 {
                colons = next == ':';
            }
            if place >= end {
                // The text ends here, or a sign follows, or a separator with nothing after it.
                let [hours, minutes, seconds] = parts;
                return Some((ClockTime { hours, minutes, seconds, micros: 0 }, next == '\0'));
            }
            match next {
                ':' if colons => {}
                '.' | ',' => break,
                _ if !colons => place -= 1,
                _ => return None,
            }
        }
        let digits = (end - place).min(6);
        let micros = self.number(place, digits)? * 10_u32.pow(6 - u32::try_from(digits).ok()?);
        place += digits;
        while self.at(place).is_ascii_digit() {
            place += 1;
        }
        let [hours, minutes, seconds] = parts;
        Some((ClockTime { hours, minutes, seconds, micros }, place >= self.0.len()))
    }
}

struct ClockTime {
    hours: u32,
    minutes: u32,
    seconds: u32,
    micros: u32,
}

impl ClockTime {
    fn in_micros(&self) -> i64 {
        let seconds = i64::from(self.hours) * 3_600 + i64::from(self.minutes) * 60 + i64::from(self.seconds);
        seconds * 1_000_000 + i64::from(self.micros)
    }
}
