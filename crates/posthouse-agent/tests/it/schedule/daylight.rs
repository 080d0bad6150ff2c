//! Schedules on the days when daylight saving begins and ends, in three zones.

use jiff::Timestamp;
use posthouse_agent::cron::schedule::{Dialect, Schedule, iso};

use super::{at, in_zone};

/// The next runs after an instant, in the zone's local time; the same in both dialects.
fn runs(expr: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let (zone, base) = (in_zone(zone), at(after));
    let chain = |dialect| {
        let schedule = Schedule::parse(expr, dialect, base, &zone).unwrap();
        let next = |last: &Timestamp| schedule.next(Some(*last), base, &zone).unwrap();
        let runs = std::iter::successors(schedule.next(None, base, &zone).unwrap(), next);
        runs.take(count).collect::<Vec<_>>()
    };
    let found = chain(Dialect::Hermes019);
    assert_eq!(found, chain(Dialect::Posthouse));
    assert!(found.is_sorted_by(|a, b| base < *a && a < b), "{expr}: each run is later than the one before");
    found.into_iter().map(|run| iso(run, &zone)[5..].replace(":00+", "+").replace(":00-", "-")).collect()
}

#[test]
fn a_morning_job_keeps_its_hour_when_the_clocks_change() {
    let spring = runs("0 9 * * *", "Europe/Berlin", "2026-03-28T08:30:00Z", 2);
    assert_eq!(spring, ["03-29T09:00+02:00", "03-30T09:00+02:00"]);
    let autumn = runs("0 9 * * *", "Europe/Berlin", "2026-10-24T08:00:00Z", 2);
    assert_eq!(autumn, ["10-25T09:00+01:00", "10-26T09:00+01:00"]);
    let spring = runs("0 9 * * *", "America/New_York", "2026-03-07T15:00:00Z", 2);
    assert_eq!(spring, ["03-08T09:00-04:00", "03-09T09:00-04:00"]);
    let autumn = runs("0 9 * * *", "America/New_York", "2026-10-31T15:00:00Z", 2);
    assert_eq!(autumn, ["11-01T09:00-05:00", "11-02T09:00-05:00"]);
    let spring = runs("0 9 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2);
    assert_eq!(spring, ["10-04T09:00+11:00", "10-05T09:00+11:00"]);
    let autumn = runs("0 9 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2);
    assert_eq!(autumn, ["04-05T09:00+10:30", "04-06T09:00+10:30"]);
}

#[test]
fn a_time_inside_the_spring_gap_runs_once_and_later_by_the_gap() {
    let berlin = runs("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 2);
    assert_eq!(berlin, ["03-29T03:30+02:00", "03-30T02:30+02:00"]);
    let new_york = runs("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2);
    assert_eq!(new_york, ["03-08T03:30-04:00", "03-09T02:30-04:00"]);
    // Here the clocks go forward by only half an hour.
    let lord_howe = runs("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2);
    assert_eq!(lord_howe, ["10-04T02:45+11:00", "10-05T02:15+11:00"]);
}

#[test]
fn a_run_moved_out_of_the_gap_does_not_double_the_one_already_there() {
    let both = runs("30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 3);
    assert_eq!(both, ["03-29T03:30+02:00", "03-30T02:30+02:00", "03-30T03:30+02:00"]);
    let hourly = runs("15 * * * *", "America/New_York", "2026-03-08T06:10:00Z", 3);
    assert_eq!(hourly, ["03-08T01:15-05:00", "03-08T03:15-04:00", "03-08T04:15-04:00"]);
}

#[test]
fn a_run_of_the_gap_and_one_after_it_come_in_the_order_of_time() {
    let mixed = runs("45 2,3 * * *", "Europe/Berlin", "2026-03-29T00:59:59Z", 2);
    assert_eq!(mixed, ["03-29T03:45+02:00", "03-30T02:45+02:00"]);
    let mixed = runs("10,50 2-3 * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", 4);
    // 02:10 is in the gap and moves to 02:40; 02:50 exists.
    assert_eq!(mixed, ["10-04T02:40+11:00", "10-04T02:50+11:00", "10-04T03:10+11:00", "10-04T03:50+11:00"]);
}

#[test]
fn a_fixed_time_in_the_repeated_hour_runs_in_the_first_pass_only() {
    let berlin = runs("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
    assert_eq!(berlin, ["10-25T02:30+02:00", "10-26T02:30+01:00"]);
    let new_york = runs("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2);
    assert_eq!(new_york, ["11-01T01:30-04:00", "11-02T01:30-05:00"]);
    let lord_howe = runs("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", 2);
    assert_eq!(lord_howe, ["04-05T01:45+11:00", "04-06T01:45+10:30"]);
}

#[test]
fn a_fixed_time_asked_for_within_the_second_pass_waits_for_tomorrow() {
    let berlin = runs("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
    assert_eq!(berlin, ["10-26T02:30+01:00"]);
}

#[test]
fn a_job_of_every_hour_runs_in_both_passes_of_the_repeated_hour() {
    let berlin = runs("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", 3);
    assert_eq!(berlin, ["10-25T02:30+02:00", "10-25T02:30+01:00", "10-25T03:30+01:00"]);
    let new_york = runs("*/30 * * * *", "America/New_York", "2026-11-01T05:10:00Z", 4);
    assert_eq!(
        new_york,
        ["11-01T01:30-04:00", "11-01T01:00-05:00", "11-01T01:30-05:00", "11-01T02:00-05:00"]
    );
    let lord_howe = runs("*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:40:00Z", 4);
    assert_eq!(
        lord_howe,
        ["04-05T01:45+11:00", "04-05T01:30+10:30", "04-05T01:45+10:30", "04-05T02:00+10:30"]
    );
}

#[test]
fn an_interval_and_a_delay_are_elapsed_time() {
    let spring = runs("every 2h", "America/New_York", "2026-03-08T06:10:00Z", 2);
    assert_eq!(spring, ["03-08T04:10-04:00", "03-08T06:10-04:00"]);
    let zone = in_zone("America/New_York");
    let now = at("2026-11-01T04:10:00Z");
    let once = Schedule::parse("2h", Dialect::Hermes019, now, &zone).unwrap();
    assert_eq!(once.next(None, now, &zone).unwrap(), Some(at("2026-11-01T06:10:00Z")));
}

#[test]
fn a_day_that_a_zone_left_out_is_made_up_for_on_the_next() {
    // Samoa crossed the date line: after the 29th of December 2011 came the 31st.
    let samoa = runs("0 9 * * *", "Pacific/Apia", "2011-12-29T20:00:00Z", 2);
    assert_eq!(samoa, ["12-31T09:00+14:00", "01-01T09:00+14:00"]);
    let only_that_day = runs("0 12 30 12 *", "Pacific/Apia", "2011-12-29T20:00:00Z", 2);
    assert_eq!(only_that_day, ["12-31T12:00+14:00", "12-30T12:00+14:00"]);
}
