//! Recorded schedules of the stock agent and of the libraries it was compared with.

use std::{path::PathBuf, time::Duration};

use jiff::{Timestamp, tz::TimeZone};
use posthouse_agent::cron::schedule::{Dialect, Schedule, ScheduleKind};
use serde_json::Value;

use super::{at, in_zone};

fn vectors(name: &str) -> String {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn zone_of(case: &Value) -> TimeZone {
    case["tz"].as_str().map_or(TimeZone::UTC, in_zone)
}

fn instants(chain: &Value) -> Vec<Timestamp> {
    chain.as_array().into_iter().flatten().map(|time| at(time.as_str().unwrap())).collect()
}

/// The difference between the stock column and ours, if any.
fn differs(case: &Value) -> Option<String> {
    let (zone, now) = (zone_of(case), at(case["now"].as_str().unwrap()));
    let stock = &case["stock"];
    let parsed = Schedule::parse(case["schedule"].as_str().unwrap(), Dialect::Hermes019, now, &zone);
    let schedule = match parsed {
        Err(fault) => {
            let agreed = stock["error"] == fault.flaw().as_str() && fault.position().is_some();
            return (!agreed).then(|| fault.to_string());
        }
        Ok(_) if stock["ok"] == false => return Some("accepted".to_owned()),
        Ok(schedule) => schedule,
    };
    let wall = case.get("wall_clock").map(|wall| instants(&wall["chain"]));
    let kind = match schedule.kind() {
        ScheduleKind::Once { run_at } => {
            let expected =
                wall.as_ref().map_or_else(|| at(stock["run_at"].as_str().unwrap()), |wall| wall[0]);
            stock["kind"] == "once" && *run_at == expected
        }
        ScheduleKind::Interval { every } => {
            stock["kind"] == "interval" && stock["minutes"].as_u64().unwrap() * 60 == every.as_secs()
        }
        ScheduleKind::Cron { expr } => stock["kind"] == "cron" && stock["expr"] == expr.as_str(),
    };
    if !kind || stock["display"] != schedule.display() {
        return Some(format!("{schedule:?}"));
    }
    let first = schedule.next(None, now, &zone);
    if let Some(error) = stock["next_run_at"]["error"].as_str() {
        let agreed = first.as_ref().is_err_and(|fault| fault.flaw().as_str() == error);
        return (!agreed).then(|| format!("{first:?}"));
    }
    let expected = match &wall {
        Some(wall) => Some(wall[0]),
        None => stock["next_run_at"].as_str().map(at),
    };
    if first != Ok(expected) {
        return Some(format!("next {first:?}"));
    }
    let chain = wall.clone().unwrap_or_else(|| instants(&stock["chain"]));
    let mut last = None;
    for expected in &chain {
        let next = schedule.next(last, now, &zone);
        if next != Ok(Some(*expected)) {
            return Some(format!("after {last:?}: {next:?}"));
        }
        last = Some(*expected);
    }
    // If stock's own chain is wrong by an hour, its grace is half of a wrong period.
    let believable = wall.is_none_or(|wall| wall.iter().take(2).eq(instants(&stock["chain"]).iter().take(2)));
    match stock["grace_seconds"].as_u64() {
        Some(seconds) if believable && schedule.grace(now, &zone) != Duration::from_secs(seconds) => {
            Some(format!("grace {:?}", schedule.grace(now, &zone)))
        }
        _ => None,
    }
}

/// The number of cases is known only for the project's own folder. Any other has at least one.
fn counted(seen: usize, ours: usize) {
    assert!(seen > 0, "the vectors hold no case");
    if std::env::var_os("POSTHOUSE_VECTORS").is_none() {
        assert_eq!(seen, ours, "the vectors have changed: count them again");
    }
}

#[test]
fn the_stock_grammar_agrees_with_the_schedule_vectors() {
    let vectors: Value = serde_json::from_str(&vectors("schedules.json")).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    counted(cases.len(), 186);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| differs(case).map(|how| format!("{} {}: {how}", case["id"], case["schedule"])))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn cron_fires_agree_with_the_recorded_vectors() {
    let table = vectors("cron_agreement.tsv");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (expr, zone, from, expected) = (columns[0], in_zone(columns[1]), at(columns[2]), columns[5]);
        let fires = match Schedule::parse(expr, Dialect::Posthouse, from, &zone) {
            Err(_) => "ERR".to_owned(),
            Ok(schedule) => {
                let fires =
                    std::iter::successors(schedule.after(from, &zone), |last| schedule.after(*last, &zone));
                let fires: Vec<String> = fires.take(6).map(|fire| fire.as_second().to_string()).collect();
                if fires.is_empty() { "ERR".to_owned() } else { fires.join(",") }
            }
        };
        let agreed = fires == expected || (fires == "ERR" && expected.starts_with("ERR"));
        if !agreed {
            wrong.push(format!("{expr} {} {from}: {fires}, not {expected}", columns[1]));
        }
        seen += 1;
    }
    counted(seen, 700);
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}
