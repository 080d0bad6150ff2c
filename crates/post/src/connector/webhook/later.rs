//! When a receiver asks to be called again: `Retry-After`, as seconds or as a date.

use std::time::Duration;

use http::HeaderValue;
use posthouse_time::Moment;

const WEEKDAYS: [&str; 7] = ["Mon,", "Tue,", "Wed,", "Thu,", "Fri,", "Sat,", "Sun,"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How long from now; nothing where it cannot be read. A time that is over asks for no pause.
pub(super) fn wait(asked: &HeaderValue, now: Moment) -> Option<Duration> {
    let asked = asked.to_str().ok()?.trim();
    match number(asked) {
        Some(seconds) => Some(Duration::from_secs(seconds.unsigned_abs())),
        None => Some(date(asked)?.since(now)),
    }
}

/// A date in the one form that HTTP still lets anybody send: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<Moment> {
    let parts: Vec<&str> = text.split([' ', ':']).collect();
    let [weekday, day, month, year, hour, minute, second, "GMT"] = parts[..] else { return None };
    if !WEEKDAYS.contains(&weekday) || year.len() != 4 {
        return None;
    }
    let month = (1..).zip(MONTHS).find(|(_, name)| *name == month)?.0;
    let within = |text, range: std::ops::RangeInclusive<i64>| number(text).filter(|n| range.contains(n));
    let days = days(within(year, 1..=9999)?, month, within(day, 1..=31)?);
    let hours = days * 24 + within(hour, 0..=23)?;
    let minutes = hours * 60 + within(minute, 0..=59)?;
    // A leap second is the next one to us.
    Some(Moment::from_seconds(minutes * 60 + within(second, 0..=60)?))
}

/// Digits and nothing else: no sign, no blanks.
fn number(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Days since 1970. Years are counted from March, which puts the leap day at the end of one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_asked_for_in_seconds_or_until_a_date() {
        // 1994-11-06T08:49:37Z
        let now = Moment::from_seconds(784_111_777);
        for (asked, seconds) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 7 ", Some(7)),
            ("86400", Some(86_400)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3)),
            ("Mon, 07 Nov 1994 00:00:00 GMT", Some(54_623)),
            ("Wed, 29 Feb 2012 00:00:00 GMT", Some(546_361_823)),
            // Over, and so at once.
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("", None),
            ("soon", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("99999999999999999999", None),
            ("Sun, 06 Nov 1994 08:49:40", None),
            ("Sun, 06 Nov 1994 08:49:40 CET", None),
            ("Sun, 06 Nov 1994 24:00:00 GMT", None),
            ("Sun, 00 Nov 1994 08:49:40 GMT", None),
            ("Sun, 06 Smarch 1994 08:49:40 GMT", None),
            ("Sunday, 06-Nov-94 08:49:40 GMT", None),
        ] {
            let header = HeaderValue::from_str(asked).unwrap();
            assert_eq!(wait(&header, now).map(|pause| pause.as_secs()), seconds, "{asked}");
        }
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Moment::default()));
        assert_eq!(date("Mon, 16 Nov 2026 07:30:00 GMT"), Some(Moment::from_seconds(1_794_814_200)));
    }
}
