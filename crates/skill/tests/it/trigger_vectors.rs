//! Recorded decisions about triggers and traces: cron expressions, sampling and the record of a run.

use std::sync::Arc;

use serde_json::Value;
use skill::{CivilMinute, CronFields, RunContext, RunTrigger, TraceMode, TracedRun};

use crate::recorded::{contract, list, text};
use crate::running::{standard_host, try_run_with};

fn civil(at: &str) -> CivilMinute {
    let number = |range: std::ops::Range<usize>| at[range].parse::<u32>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    // The day of the week by Zeller's congruence, which counts January and February as months of the year before.
    let (shifted_month, shifted_year) = if month < 3 { (month + 12, year - 1) } else { (month, year) };
    let sum = day + 13 * (shifted_month + 1) / 5 + shifted_year + shifted_year / 4 - shifted_year / 100
        + shifted_year / 400;
    let small = |number: u32| u8::try_from(number).unwrap();
    CivilMinute {
        minute: small(number(14..16)),
        hour: small(number(11..13)),
        day: small(day),
        month: small(month),
        weekday: small((sum + 6) % 7),
    }
}

#[test]
fn vectors_cron_expressions_match_the_recorded_minutes() {
    for case in list(&contract("cron.json")["cases"]) {
        let (expression, at) = (text(&case, "expr"), text(&case, "at_utc"));
        let matches = CronFields::read(expression).is_some_and(|fields| fields.matches(civil(at)));
        assert_eq!(Value::from(matches), case["matches"], "{expression} at {at}");
    }
}

#[test]
fn vectors_trace_sampling_chooses_the_recorded_runs() {
    for case in list(&contract("trace-sampling.json")) {
        let (trigger, skill) = (text(&case, "trigger_id"), text(&case, "skill"));
        for percent in [0, 10, 50, 100] {
            let chosen = TraceMode::Sample(percent).includes(trigger, skill);
            assert_eq!(Value::from(chosen), case[format!("at_{percent}")], "{trigger} {skill} {percent}");
        }
        assert!(TraceMode::On.includes(trigger, skill) && !TraceMode::Off.includes(trigger, skill));
    }
}

#[test]
fn vectors_trace_record_of_a_run_has_the_recorded_form() {
    let recorded = &contract("trace-record.json")["record"];
    let name = text(recorded, "skill_name");
    let source = format!(
        "# Skill: {name}\n# Status: Approved\n# Vars: WHO=ann\n# Output: agent: desk\n\
         go:\n    emit(text=\"{}\")\ndefault: go\n",
        text(&recorded["ops"][0], "body")
    );
    let trigger = &recorded["trigger"];
    let shared = |record: &Value, name: &str| Arc::from(text(record, name));
    let context = RunContext { is_traced: true, ..RunContext::default() };
    let mut outcome =
        try_run_with(&standard_host(), &source, &context, &skill::SkillObject::default()).unwrap();
    outcome.trace.iter_mut().for_each(|op| op.started_at_ms = 0);
    let run = TracedRun {
        trace_id: shared(recorded, "trace_id"),
        skill_name: name.into(),
        skill_version: shared(recorded, "skill_version"),
        trigger: RunTrigger {
            source: shared(trigger, "source"),
            name: shared(trigger, "name"),
            fired_at_ms: 0,
            trigger_id: Some(shared(trigger, "trigger_id")),
        },
        owner: Some(shared(&recorded["identity"], "agent_id")),
        completed_at_ms: 0,
    };
    let found: Value = serde_json::from_str(&run.record(&outcome).json()).unwrap();
    assert_eq!(&found, recorded);
}
