//! Timestamps as JavaScript writes and reads them: `toISOString` and the part of `Date.parse` that skills need.

use jiff::fmt::rfc2822;

const DAY: i64 = 86_400_000;
/// The furthest time from 1970 that a JavaScript date can hold, in milliseconds.
const FURTHEST: f64 = 8.64e15;

/// Milliseconds since 1970 as `YYYY-MM-DDTHH:MM:SS.mmmZ`. `None` if no JavaScript date can hold them.
pub fn iso_text(millis: f64) -> Option<String> {
    if millis.is_nan() || millis.abs() > FURTHEST {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the bound above is far below that of i64")]
    let millis = millis.trunc() as i64;
    let (days, time) = (millis.div_euclid(DAY), millis.rem_euclid(DAY));
    let (year, month, day) = civil_date(days);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{}{:06}", if year < 0 { '-' } else { '+' }, year.abs()),
    };
    let (hours, minutes, seconds) = (time / 3_600_000, time / 60_000 % 60, time / 1000 % 60);
    Some(format!("{year}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", time % 1000))
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last day of a year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

/// Days since 1970 of a date, or `None` if there is no such day.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    ((1..=12).contains(&month) && civil_date(days) == (year, month, day)).then_some(days)
}

/// Milliseconds since 1970 of an ISO 8601 or RFC 2822 text. A time without an offset counts as UTC.
pub fn parse_timestamp(text: &str) -> Option<f64> {
    let millis = parse_iso(text)
        .or_else(|| rfc2822::parse(text.trim()).ok().map(|zoned| zoned.timestamp().as_millisecond()))?;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of dates are below 2^53")]
    Some(millis as f64).filter(|millis| millis.abs() <= FURTHEST)
}

fn parse_iso(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let sign = rest.chars().next().filter(|c| matches!(c, '+' | '-'));
    let year = match sign {
        Some(sign) => {
            rest = &rest[1..];
            let year = number(&mut rest, 6)?;
            if sign == '-' { -year } else { year }
        }
        None => number(&mut rest, 4)?,
    };
    let month = if skip(&mut rest, '-') { number(&mut rest, 2)? } else { 1 };
    let day = if skip(&mut rest, '-') { number(&mut rest, 2)? } else { 1 };
    let mut millis = days_of(year, month, day)? * DAY;
    if skip(&mut rest, 'T') || skip(&mut rest, 't') || skip(&mut rest, ' ') {
        millis += time_of_day(&mut rest)?;
        millis -= offset(&mut rest)?;
    }
    rest.is_empty().then_some(millis)
}

fn time_of_day(rest: &mut &str) -> Option<i64> {
    let hours = number(rest, 2)?;
    let minutes = if skip(rest, ':') { number(rest, 2)? } else { return None };
    let seconds = if skip(rest, ':') { number(rest, 2)? } else { 0 };
    let mut millis = 0;
    if skip(rest, '.') || skip(rest, ',') {
        let end = rest.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        let digits = format!("{:0<3}", &rest[..end.min(3)]);
        *rest = &rest[end..];
        millis = digits.parse().ok()?;
    }
    let is_midnight = hours == 24 && minutes == 0 && seconds == 0 && millis == 0;
    let is_time = (hours < 24 || is_midnight) && minutes < 60 && seconds < 60;
    is_time.then_some(((hours * 60 + minutes) * 60 + seconds) * 1000 + millis)
}

fn offset(rest: &mut &str) -> Option<i64> {
    if rest.is_empty() || skip(rest, 'Z') || skip(rest, 'z') {
        return Some(0);
    }
    let sign = if skip(rest, '+') {
        1
    } else if skip(rest, '-') {
        -1
    } else {
        return None;
    };
    let hours = number(rest, 2)?;
    skip(rest, ':');
    let minutes = number(rest, 2)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// Reads exactly `width` digits.
fn number(rest: &mut &str, width: usize) -> Option<i64> {
    let digits = rest.get(..width).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))?;
    *rest = &rest[width..];
    digits.parse().ok()
}

fn skip(rest: &mut &str, c: char) -> bool {
    let behind = rest.strip_prefix(c);
    *rest = behind.unwrap_or(rest);
    behind.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_to_iso_string_writes_them() {
        for (millis, text) in [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (1_767_225_600_000.0, "2026-01-01T00:00:00.000Z"),
            (951_782_400_123.9, "2000-02-29T00:00:00.123Z"),
            (-1.0, "1969-12-31T23:59:59.999Z"),
            (253_402_300_800_000.0, "+010000-01-01T00:00:00.000Z"),
            (-62_198_755_200_000.0, "-000001-01-01T00:00:00.000Z"),
            (8.64e15, "+275760-09-13T00:00:00.000Z"),
        ] {
            assert_eq!(iso_text(millis).as_deref(), Some(text));
        }
        assert_eq!((iso_text(8.65e15), iso_text(f64::NAN)), (None, None));
    }

    #[test]
    fn iso_and_mail_dates_are_read() {
        for (text, iso) in [
            ("2026-01-02", "2026-01-02T00:00:00.000Z"),
            ("2026-01", "2026-01-01T00:00:00.000Z"),
            ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
            ("2026-01-02T03:04:05.6789+02:00", "2026-01-02T01:04:05.678Z"),
            ("2026-01-02 03:04", "2026-01-02T03:04:00.000Z"),
            ("2026-01-02T24:00", "2026-01-03T00:00:00.000Z"),
            ("Thu, 01 Jan 2026 00:00:00 GMT", "2026-01-01T00:00:00.000Z"),
            ("1 Jan 2026 00:00:00 -0500", "2026-01-01T05:00:00.000Z"),
        ] {
            assert_eq!(parse_timestamp(text).and_then(iso_text).as_deref(), Some(iso), "{text}");
        }
        for text in [
            "",
            "soon",
            "2026-13-01",
            "2026-02-30",
            "2026-01-02T25:00",
            "2026-01-02T03",
            "2026-01-02T03:04x",
            "é026-01-01",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
