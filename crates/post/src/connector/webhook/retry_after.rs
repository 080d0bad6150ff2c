//! Parser of the `Retry-After` header, as seconds or as a date.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderValue;
use posthouse_time::Moment;

/// The requested pause from now. `None` if it cannot be parsed. A past date means no pause.
pub(super) fn wait(asked: &HeaderValue, now: Moment) -> Option<Duration> {
    let asked = asked.to_str().ok()?.trim();
    match number(asked) {
        Some(seconds) => Some(Duration::from_secs(seconds.unsigned_abs())),
        None => Some(date(asked)?.since(now)),
    }
}

/// A date in one of the three forms that HTTP knows.
fn date(text: &str) -> Option<Moment> {
    let since_1970 = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.as_secs()).ok().map(Moment::from_seconds)
}

/// Only digits: no sign, no blanks.
fn number(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
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
            // Past dates mean no pause.
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
            // The two older forms count, too.
            ("Sunday, 06-Nov-94 08:49:40 GMT", Some(3)),
            ("Sun Nov  6 08:49:40 1994", Some(3)),
        ] {
            let header = HeaderValue::from_str(asked).unwrap();
            assert_eq!(wait(&header, now).map(|pause| pause.as_secs()), seconds, "{asked}");
        }
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Moment::default()));
        assert_eq!(date("Mon, 16 Nov 2026 07:30:00 GMT"), Some(Moment::from_seconds(1_794_814_200)));
    }
}
