//! Schedules in stock job records, and times as stock writes them.

use std::time::Duration;

use jiff::tz::TimeZone;
use posthouse_agent::cron::schedule::{Flaw, Schedule, ScheduleKind, iso, read_iso};
use serde_json::json;

use super::{at, in_zone, ours, stock};

#[test]
fn a_record_is_what_the_stock_agent_writes() {
    let zone = TimeZone::UTC;
    assert_eq!(
        stock("every 2h").unwrap().to_record(&zone),
        json!({"kind": "interval", "minutes": 120, "display": "every 120m"})
    );
    assert_eq!(
        stock("0 9 * * *").unwrap().to_record(&zone),
        json!({"kind": "cron", "expr": "0 9 * * *", "display": "0 9 * * *"})
    );
    assert_eq!(
        stock("30m").unwrap().to_record(&zone),
        json!({"kind": "once", "run_at": "2026-01-31T12:30:00+00:00", "display": "once in 30m"})
    );
}

#[test]
fn seconds_and_a_zone_are_kept_beside_what_stock_reads() {
    let zone = TimeZone::UTC;
    let seconds = ours("every 90s").unwrap();
    let record = seconds.to_record(&zone);
    assert_eq!(record, json!({"kind": "interval", "minutes": 2, "seconds": 90, "display": "every 90s"}));
    assert_eq!(Schedule::from_record(&record, &zone).unwrap(), seconds);
    let zoned = ours("TZ=Asia/Kolkata every monday 9am").unwrap();
    let record = zoned.to_record(&zone);
    assert_eq!((&record["expr"], &record["tz"]), (&json!("0 9 * * 1"), &json!("Asia/Kolkata")));
    assert_eq!(record["dialect"], "posthouse");
    assert_eq!(Schedule::from_record(&record, &zone).unwrap(), zoned);
}

#[test]
fn an_edited_record_is_read_as_far_as_it_makes_sense() {
    let zone = TimeZone::UTC;
    let read = |record| Schedule::from_record(&record, &zone);
    let half = read(json!({"kind": "interval", "minutes": 0.5})).unwrap();
    assert_eq!(*half.kind(), ScheduleKind::Interval { every: Duration::from_secs(30) });
    let named = read(json!({"kind": "cron", "expr": "0 9 * * mon", "more": 1})).unwrap();
    assert_eq!(named.after(at("2026-01-31T12:00:00Z"), &zone), Some(at("2026-02-02T09:00:00Z")));
    for broken in [
        json!(null),
        json!("30m"),
        json!({}),
        json!({"kind": "sometimes"}),
        json!({"kind": "once"}),
        json!({"kind": "once", "run_at": "soon"}),
        json!({"kind": "interval", "minutes": -1}),
        json!({"kind": "interval", "minutes": 1e300}),
        json!({"kind": "cron", "expr": "0 9 * * *", "tz": "Mars/Olympus"}),
    ] {
        assert_eq!(read(broken.clone()).unwrap_err().flaw(), Flaw::BadRecord, "{broken}");
    }
}

#[test]
fn an_instant_is_written_with_a_numeric_offset_and_micros_only_if_any() {
    let kolkata = in_zone("Asia/Kolkata");
    assert_eq!(iso(at("2026-01-31T12:00:00Z"), &TimeZone::UTC), "2026-01-31T12:00:00+00:00");
    assert_eq!(iso(at("2026-01-31T12:00:00.120000789Z"), &kolkata), "2026-01-31T17:30:00.120000+05:30");
    assert_eq!(iso(at("2026-07-01T12:00:00Z"), &in_zone("America/New_York")), "2026-07-01T08:00:00-04:00");
}

#[test]
fn what_was_written_is_read_back_and_a_naive_time_is_the_zones() {
    let kolkata = in_zone("Asia/Kolkata");
    let moment = at("2026-01-31T12:00:00.123456Z");
    assert_eq!(read_iso(&iso(moment, &kolkata), &TimeZone::UTC), Some(moment));
    assert_eq!(read_iso("2026-01-31T17:30:00.123456", &kolkata), Some(moment));
    assert_eq!(read_iso("2026-01-31T12:00:00.123456Z", &kolkata), Some(moment));
    assert_eq!(read_iso("yesterday", &kolkata), None);
}
