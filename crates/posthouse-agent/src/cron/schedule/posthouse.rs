//! Posthouse's schedule grammar: seconds, sums, names, phrases and a zone per schedule; ambiguous forms are
//! refused.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use super::{
    Dialect, Flaw, Schedule, ScheduleFault, after_word,
    duration::{DurationError, sum},
    fields, is_blank,
    phrase::{self, Phrase},
    stock, trimmed,
};

const NICKNAMES: [(&str, &str); 5] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
];

pub(super) fn parse(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Schedule, ScheduleFault> {
    let (cut, text) = trimmed(text);
    read(text, now, zone).map_err(|fault| fault.shifted(cut))
}

fn read(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Schedule, ScheduleFault> {
    let Some(named) = after_word(text, "TZ=") else {
        return read_in_zone(text, now, zone);
    };
    let name = &named[..named.find(is_blank).unwrap_or(named.len())];
    let Ok(own) = TimeZone::get(name) else {
        let why = format!("`{name}` is not a known time zone");
        let fault = ScheduleFault::new(Flaw::UnknownZone, why).at("TZ=".len());
        return Err(fault.nearest("`TZ=Europe/Berlin 0 9 * * *`"));
    };
    let (cut, rest) = trimmed(&named[name.len()..]);
    let before = "TZ=".len() + name.chars().count() + cut;
    let mut schedule = read_in_zone(rest, now, &own).map_err(|fault| fault.shifted(before))?;
    schedule.display = format!("TZ={name} {}", schedule.display);
    schedule.zone = Some(own);
    Ok(schedule)
}

fn read_in_zone(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Schedule, ScheduleFault> {
    if text.starts_with('@') {
        return nickname(text);
    }
    if let Some(rest) = text.strip_prefix('+') {
        return delay(rest, now).map_err(|fault| fault.shifted(1));
    }
    if let Some(rest) = after_word(text, "in ") {
        return delay(rest, now).map_err(|fault| fault.shifted("in ".len()));
    }
    if let Some(rest) = after_word(text, "every ") {
        return every(text, rest, now).map_err(|fault| fault.shifted("every ".len()));
    }
    if looks_like_cron(text) {
        return Ok(Schedule::cron(
            &fields::without_names(text),
            fields::compile(text, Dialect::Posthouse)?,
            text,
        ));
    }
    if let Some(schedule) = in_words(text, text)? {
        return Ok(schedule);
    }
    let dated = text.len() >= 4 && text.bytes().take(4).all(|byte| byte.is_ascii_digit());
    if dated && (text.contains('T') || stock::begins_with_date(text)) {
        return stock::timestamp(text, zone);
    }
    match sum(text) {
        Ok(_) | Err(DurationError::TooLong) => Err(two_meanings(text)),
        Err(DurationError::Elsewhat { at }) => {
            let fault = ScheduleFault::new(Flaw::Unrecognised, "not a known form of schedule");
            Err(fault.at(at).nearest(nearest(text)))
        }
    }
}

fn nickname(text: &str) -> Result<Schedule, ScheduleFault> {
    let known = NICKNAMES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let Some((name, expr)) = known else {
        let shared = |name: &str| {
            name.bytes().zip(text.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
        };
        let closest =
            NICKNAMES.into_iter().max_by_key(|(name, _)| shared(name)).map_or("@daily", |found| found.0);
        let at = shared(closest);
        let fault = ScheduleFault::new(Flaw::Unrecognised, "unknown nickname").at(at);
        return Err(fault.nearest(format!("`{closest}`")));
    };
    Ok(Schedule::cron(expr, fields::compile(expr, Dialect::Posthouse)?, name))
}

/// One run after a delay.
fn delay(rest: &str, now: Timestamp) -> Result<Schedule, ScheduleFault> {
    let (cut, rest) = trimmed(rest);
    let length = sum(rest).map_err(|misread| {
        unread(misread, Flaw::Unrecognised, "a delay is written as numbers and units", "`in 30m`")
            .shifted(cut)
    })?;
    let run_at = now.checked_add(length).map_err(|_| ScheduleFault::overflow().at(cut))?;
    Ok(Schedule::once(run_at, format!("once in {rest}")))
}

/// A run after each interval, or on certain days.
fn every(text: &str, rest: &str, now: Timestamp) -> Result<Schedule, ScheduleFault> {
    let (cut, rest) = trimmed(rest);
    if let Some(schedule) = in_words(text, rest).map_err(|fault| fault.shifted(cut))? {
        return Ok(schedule);
    }
    let flaw = Flaw::BadIntervalDuration;
    let why = "an interval is written as numbers and units, or as days and a time";
    let length = sum(rest).map_err(|misread| unread(misread, flaw, why, "`every 30m`").shifted(cut))?;
    if length < Duration::from_secs(1) {
        let fault = ScheduleFault::new(flaw, "an interval is at least a second").at(cut);
        return Err(fault.nearest("`every 1s`"));
    }
    now.checked_add(length).map_err(|_| ScheduleFault::overflow().at(cut))?;
    Ok(Schedule::interval(length, shown(length)))
}

/// Whole minutes are shown as the stock agent shows them.
fn shown(length: Duration) -> String {
    match length.as_secs() {
        seconds if seconds % 60 == 0 => format!("every {}m", seconds / 60),
        seconds => format!("every {seconds}s"),
    }
}

/// Days and a time of day, if the text begins with days.
fn in_words(text: &str, phrase: &str) -> Result<Option<Schedule>, ScheduleFault> {
    match phrase::read(phrase) {
        Phrase::Elsewhat => Ok(None),
        Phrase::Cron(expr) => {
            Ok(Some(Schedule::cron(&expr, fields::compile(&expr, Dialect::Posthouse)?, text)))
        }
        Phrase::NoTime { at, days } => {
            let fault = ScheduleFault::new(Flaw::Unrecognised, "no time of day follows the days").at(at);
            Err(fault.nearest(format!("`{days} at 9am`")))
        }
    }
}

/// Minutes and hours have no names, so words of other languages are not mistaken for fields.
fn looks_like_cron(text: &str) -> bool {
    let fields = fields::split(text);
    let numeric = |field: &(usize, &str)| field.1.chars().all(|c| c.is_ascii_digit() || "*-,/".contains(c));
    fields.len() >= 5 && fields.iter().take(2).all(numeric)
}

fn two_meanings(text: &str) -> ScheduleFault {
    let why = format!("`{text}` could mean once or repeatedly");
    let ways = format!("one of `in {text}` and `+{text}` (once) or `every {text}` (repeatedly)");
    ScheduleFault::new(Flaw::Ambiguous, why).at(0).nearest(ways)
}

fn unread(misread: DurationError, flaw: Flaw, why: &str, nearest: &str) -> ScheduleFault {
    match misread {
        DurationError::TooLong => ScheduleFault::overflow().at(0),
        DurationError::Elsewhat { at } => ScheduleFault::new(flaw, why).at(at).nearest(nearest),
    }
}

/// The accepted form that is probably meant, judged by the words in the text.
fn nearest(text: &str) -> &'static str {
    let lower = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if has(&["every"]) {
        "`every 30m`"
    } else if has(&["day", "noon", "midnight", "morning", "evening", "week", "am", "pm"]) {
        "`every monday at 9am`"
    } else if lower.contains('*') {
        "`0 9 * * *`"
    } else if lower.contains('-') {
        "`2026-02-03T14:00`"
    } else {
        "`in 30m`"
    }
}
