//! The two grammars: additional forms, refused forms, and no panics.

use jiff::tz::TimeZone;
use posthouse_agent::cron::schedule::{Dialect, Flaw, Schedule, ScheduleKind};
use proptest::prelude::*;
use std::time::Duration;

use super::{at, in_zone, ours, stock};

fn expr_of(text: &str) -> String {
    match ours(text).map(|schedule| schedule.kind().clone()) {
        Ok(ScheduleKind::Cron { expr }) => expr,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_delay_may_be_in_seconds_and_in_sums() {
    for (text, run_at) in [
        ("+90s", "2026-01-31T12:01:30Z"),
        ("in 45s", "2026-01-31T12:00:45Z"),
        ("in 1h30m", "2026-01-31T13:30:00Z"),
        ("IN 1 day 2 hours", "2026-02-01T14:00:00Z"),
        ("+30m", "2026-01-31T12:30:00Z"),
    ] {
        let schedule = ours(text).unwrap();
        assert_eq!(*schedule.kind(), ScheduleKind::Once { run_at: at(run_at) }, "{text}");
    }
    assert_eq!(ours("in 1h30m").unwrap().display(), "once in 1h30m");
}

#[test]
fn an_interval_is_at_least_a_second() {
    assert_eq!(*ours("every 10s").unwrap().kind(), ScheduleKind::Interval { every: Duration::from_secs(10) });
    assert_eq!(
        *ours("every 1h30m").unwrap().kind(),
        ScheduleKind::Interval { every: Duration::from_secs(5_400) }
    );
    assert_eq!(ours("every 90m").unwrap(), stock("every 90m").unwrap());
    let fault = ours("every 0m").unwrap_err();
    assert_eq!((fault.flaw(), fault.suggestion()), (Flaw::BadIntervalDuration, Some("`every 1s`")));
}

#[test]
fn a_bare_duration_is_refused_with_the_three_ways_to_write_it() {
    let fault = ours("30m").unwrap_err();
    assert_eq!(fault.flaw(), Flaw::Ambiguous);
    for way in ["`in 30m`", "`+30m`", "`every 30m`"] {
        assert!(fault.to_string().contains(way), "{fault}");
    }
}

#[test]
fn names_in_cron_fields_become_numbers_that_stock_reads() {
    assert_eq!(expr_of("0 9 * JAN,jul MON-FRI"), "0 9 * 1,7 1-5");
    assert_eq!(expr_of("0 9 * * fri#2"), "0 9 * * 5#2");
    let weekdays = ours("0 9 * * MON-FRI").unwrap();
    assert_eq!(weekdays.after(at("2026-01-31T12:00:00Z"), &TimeZone::UTC), Some(at("2026-02-02T09:00:00Z")));
    assert_eq!(stock("0 9 * * MON").unwrap_err().flaw(), Flaw::Unrecognised);
}

#[test]
fn nicknames_are_cron() {
    assert_eq!(expr_of("@hourly"), "0 * * * *");
    assert_eq!(expr_of("@Daily"), "0 0 * * *");
    assert_eq!(expr_of("@weekly"), "0 0 * * 0");
    assert_eq!(expr_of("@monthly"), "0 0 1 * *");
    assert_eq!(expr_of("@yearly"), "0 0 1 1 *");
    assert_eq!(ours("@monthley").unwrap_err().suggestion(), Some("`@monthly`"));
}

#[test]
fn seconds_are_the_sixth_field() {
    let schedule = ours("0 9 * * * 30").unwrap();
    assert_eq!(schedule.after(at("2026-01-31T12:00:00Z"), &TimeZone::UTC), Some(at("2026-02-01T09:00:30Z")));
}

#[test]
fn days_and_a_time_in_words_are_cron() {
    for (text, expr) in [
        ("every monday 9am", "0 9 * * 1"),
        ("every Tuesday at 9:15 PM", "15 21 * * 2"),
        ("weekdays at 9am", "0 9 * * 1-5"),
        ("every weekend at 10:00", "0 10 * * 0,6"),
        ("every day at 14:30", "30 14 * * *"),
        ("monday, wednesday at noon", "0 12 * * 1,3"),
        ("mon, wed and thurs at midnight", "0 0 * * 1,3,4"),
        ("every monday,friday 12am", "0 0 * * 1,5"),
        ("weekdays and saturdays at 12pm", "0 12 * * 1,2,3,4,5,6"),
    ] {
        assert_eq!(expr_of(text), expr, "{text}");
    }
    assert_eq!(ours("  every monday 9am ").unwrap().display(), "every monday 9am");
}

#[test]
fn a_named_zone_wins_over_the_readers() {
    let schedule = ours("TZ=Asia/Kolkata 0 9 * * *").unwrap();
    assert_eq!(schedule.display(), "TZ=Asia/Kolkata 0 9 * * *");
    let next = schedule.after(at("2026-01-31T12:00:00Z"), &in_zone("America/New_York"));
    assert_eq!(next, Some(at("2026-02-01T03:30:00Z")));
    let once = ours("TZ=Asia/Kolkata 2026-02-03T14:00").unwrap();
    assert_eq!(*once.kind(), ScheduleKind::Once { run_at: at("2026-02-03T08:30:00Z") });
    let fault = ours("TZ=Mars/Olympus 0 9 * * *").unwrap_err();
    assert_eq!((fault.flaw(), fault.position()), (Flaw::UnknownZone, Some(4)));
}

#[test]
fn a_fault_names_the_place_and_the_nearest_form() {
    for (text, position, nearest) in [
        ("0 24 * * *", 3, "`0 * * * *`"),
        ("  0 9 * FOO *", 9, "`0 9 * * *`"),
        ("TZ=Asia/Kolkata 60 9 * * *", 17, "`* 9 * * *`"),
        ("every monday", 13, "`monday at 9am`"),
        ("every day at 25:00", 14, "`day at 9am`"),
        ("in 5 weeks", 6, "`in 30m`"),
        ("every 5", 8, "`every 30m`"),
        ("2026-02-30T10:00", 1, "`2026-02-03T14:00`"),
        ("whenever", 1, "`in 30m`"),
    ] {
        let fault = ours(text).unwrap_err();
        assert_eq!(
            (fault.position(), fault.suggestion()),
            (Some(position), Some(nearest)),
            "{text}: {fault}"
        );
    }
}

#[test]
fn a_duration_past_the_calendar_overflows() {
    for text in ["in 99999999d", "every 99999999d", "+99999999999999999999999s", "every 9999999999999999h59m"]
    {
        assert_eq!(ours(text).unwrap_err().flaw(), Flaw::Overflow, "{text}");
    }
    for text in ["99999999d", "every 99999999d", "99999999999999999999999m", "every 18446744073709551615d"] {
        assert_eq!(stock(text).unwrap_err().flaw(), Flaw::Overflow, "{text}");
    }
    let schedule = stock("every 1d").unwrap();
    let end = jiff::Timestamp::MAX;
    assert_eq!(schedule.next(Some(end), end, &TimeZone::UTC).unwrap_err().flaw(), Flaw::Overflow);
    assert_eq!(schedule.after(end, &TimeZone::UTC), None);
    assert_eq!(stock("* * * * *").unwrap().after(end, &in_zone("Europe/Berlin")), None);
}

#[test]
fn an_impossible_date_is_read_but_never_comes() {
    let schedule = ours("0 0 31 2 *").unwrap();
    let now = at("2026-01-31T12:00:00Z");
    assert_eq!(schedule.next(None, now, &TimeZone::UTC).unwrap_err().flaw(), Flaw::NoFutureMatch);
    assert_eq!(schedule.grace(now, &TimeZone::UTC), Duration::from_secs(120));
}

#[test]
fn an_interval_of_nothing_still_has_a_later_successor() {
    let now = at("2026-01-31T12:00:00Z");
    let schedule = stock("every 0m").unwrap();
    assert_eq!(schedule.next(Some(now), now, &TimeZone::UTC).unwrap(), Some(now));
    assert_eq!(schedule.after(now, &TimeZone::UTC), Some(at("2026-01-31T12:00:01Z")));
}

#[test]
fn the_stock_dialect_loses_the_days_of_march_that_stock_loses() {
    // The 31st is listed, February has none, and so stock skips the first of March.
    let (now, zone) = (at("2026-02-21T00:00:00Z"), TimeZone::UTC);
    assert_eq!(stock("0 0 */10 * *").unwrap().after(now, &zone), Some(at("2026-03-11T00:00:00Z")));
    assert_eq!(ours("0 0 */10 * *").unwrap().after(now, &zone), Some(at("2026-03-01T00:00:00Z")));
    let kept = at("2026-03-01T00:00:00Z");
    assert_eq!(stock("0 0 */10 * 0").unwrap().after(at("2026-02-28T00:00:00Z"), &zone), Some(kept));
    let reread = Schedule::from_record(&ours("0 0 */10 * *").unwrap().to_record(&zone), &zone).unwrap();
    assert_eq!(reread.after(now, &zone), Some(kept));
}

#[test]
fn beside_seconds_sunday_is_only_zero() {
    assert!(stock("0 9 * * 7").is_ok());
    assert_eq!(stock("0 9 * * 7 30").unwrap_err().flaw(), Flaw::BadCron);
    assert!(stock("0 9 * * */7 30").is_ok());
    assert!(ours("0 9 * * FRI-SUN 30").is_ok());
}

/// Texts that often look like schedules.
fn nearly() -> impl Strategy<Value = String> {
    let pieces = [
        "every",
        "in",
        "+",
        "TZ=Europe/Berlin",
        "TZ=",
        "@daily",
        "monday,",
        "weekdays",
        "and",
        "at",
        "9am",
        "25:00",
        "noon",
        "5",
        "99999999999999999999",
        "m",
        "h",
        "30m",
        "1d",
        "s",
        "*",
        "*/5",
        "*/0",
        "5-1/3",
        "22-2",
        "7",
        "0-7",
        "L",
        "LW",
        "15W",
        "5#2",
        "#",
        "MON",
        "JAN-",
        "?",
        ",,",
        "2026-02-03",
        "2026-W06-2",
        "20260203",
        "T14:00",
        "t",
        "Z",
        ".5",
        "+05:30",
        "-25:00",
        "\u{1d7d8}",
        "ß",
        "é",
        " ",
        "\t",
        "\u{1c}",
    ];
    let piece = prop::sample::select(pieces.to_vec());
    prop::collection::vec((piece, prop::bool::ANY), 0..9).prop_map(|pieces| {
        pieces.iter().map(|(piece, gap)| format!("{piece}{}", if *gap { " " } else { "" })).collect()
    })
}

fn does_not_fall(text: &str) {
    let (zone, now) = (in_zone("Europe/Berlin"), at("2026-03-28T12:00:00Z"));
    for dialect in [Dialect::Hermes019, Dialect::Posthouse] {
        match Schedule::parse(text, dialect, now, &zone) {
            Err(fault) => {
                let position = fault.position().expect("a fault of a text names its place");
                assert!(position <= text.chars().count() + 1, "{text:?}: {fault}");
            }
            Ok(schedule) => {
                if let Some(next) = schedule.after(now, &zone) {
                    assert!(next > now, "{text:?}");
                }
                schedule.grace(now, &zone);
                assert_eq!(
                    Schedule::from_record(&schedule.to_record(&zone), &zone).as_ref(),
                    Ok(&schedule),
                    "{text:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_fall(text in "\\PC*") {
        does_not_fall(&text);
    }

    #[test]
    fn no_text_that_is_nearly_a_schedule_makes_the_parser_fall(text in nearly()) {
        does_not_fall(&text);
    }
}
