//! Days and a time of day in words: `every monday 9am`, `weekdays at 9am`.

use std::collections::BTreeSet;

use super::is_blank;

const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// Result of reading a text as a phrase.
pub(super) enum Phrase {
    /// The equivalent cron fields.
    Cron(String),
    /// The text does not begin with a day.
    Elsewhat,
    /// The days are valid; what follows, after `at` characters, is not a time of day.
    NoTime { at: usize, days: String },
}

/// Reads days, an optional `at`, and a time of day. The caller has removed the word `every`.
pub(super) fn read(text: &str) -> Phrase {
    let lower = text.to_ascii_lowercase();
    let mut words = words(&lower).into_iter().peekable();
    let mut days = BTreeSet::new();
    let mut named = Vec::new();
    while let Some(found) = words.peek().and_then(|(_, word)| days_of(word)) {
        days.extend(found);
        named.extend(words.next().map(|(_, word)| word.trim_end_matches(',')));
        // An `and` is allowed only between days, and has no meaning of its own.
        while words.next_if(|(_, word)| matches!(*word, "and" | "&" | ",")).is_some() {}
    }
    if named.is_empty() {
        return Phrase::Elsewhat;
    }
    words.next_if(|(_, word)| *word == "at");
    let at = words.peek().map_or(text.chars().count(), |(before, _)| *before);
    let time: Vec<&str> = words.map(|(_, word)| word).collect();
    match time_of_day(&time.join(" ")) {
        Some((hour, minute)) => Phrase::Cron(format!("{minute} {hour} * * {}", weekdays(&days))),
        None => Phrase::NoTime { at, days: named.join(", ") },
    }
}

/// The words, each with the number of characters before it. A comma ends a word and stays with it.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut before = 0;
    for piece in text.split_inclusive(|c| is_blank(c) || c == ',') {
        let word = piece.trim_matches(is_blank);
        if !word.is_empty() {
            found.push((before, word));
        }
        before += piece.chars().count();
    }
    found
}

/// A day by its name, its plural or its first letters, or one of the words for several days.
fn days_of(word: &str) -> Option<Vec<usize>> {
    let word = word.trim_end_matches(',');
    let single = word.strip_suffix('s').unwrap_or(word);
    Some(match single {
        "day" | "daily" => (0..7).collect(),
        "weekday" => (1..6).collect(),
        "weekend" => vec![0, 6],
        _ => {
            let short = |day: &str| {
                single.len() == 3 && day.starts_with(single) || single == "thur" && day == "thursday"
            };
            vec![DAYS.iter().position(|day| *day == single || short(day))?]
        }
    })
}

fn weekdays(days: &BTreeSet<usize>) -> String {
    if days.len() == 7 {
        return "*".to_owned();
    }
    if days.iter().copied().eq(1..6) {
        return "1-5".to_owned();
    }
    days.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// `9am`, `9:30 pm`, `14:30`, `noon`, `midnight`. A bare `9` is refused, because it could be am or pm.
fn time_of_day(text: &str) -> Option<(u8, u8)> {
    match text {
        "noon" => return Some((12, 0)),
        "midnight" => return Some((0, 0)),
        _ => {}
    }
    let half = ["am", "pm"].into_iter().find_map(|half| text.strip_suffix(half).map(|rest| (half, rest)));
    let clock = half.map_or(text, |(_, rest)| rest.trim_end_matches(is_blank));
    let (hour, minute) = match clock.split_once(':') {
        Some((hour, minute)) if minute.len() == 2 => (number(hour)?, number(minute)?),
        Some(_) => return None,
        None => (number(clock)?, half.map(|_| 0)?),
    };
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some((half, _)) => hour % 12 + if half == "pm" { 12 } else { 0 },
    };
    (hour < 24 && minute < 60).then_some((hour, minute))
}

fn number(text: &str) -> Option<u8> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}
