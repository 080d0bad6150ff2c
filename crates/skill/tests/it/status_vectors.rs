//! Recorded changes of status, byte by byte (agents-and-stores 4.1, 5.3).

use serde_json::Value;
use skill::{
    ApprovalMode, ApprovalVerdict, BodyStatus, Status, check_approval, force_draft, gate_line, set_status,
    status_of, stored_status,
};

use crate::recorded::{contract, list, programs, text};

#[test]
fn a_change_of_status_changes_one_line_and_forcing_beats_the_previous_status() {
    for case in list(&contract("header-rewrite.json")["cases"]) {
        let (id, body, ours) = (text(&case, "id"), text(&case, "body"), &case["ours"]);
        let given = case["status"].as_str().map(|word| Status::named(word).unwrap());
        let previous = case["previous_body"].as_str().map(|body| status_of(body).status());
        let stored = match text(&case, "call") {
            "update_status" => set_status(body, given.unwrap()),
            "store" => set_status(body, stored_status(given, body, previous)),
            "bridge_write" => force_draft(body),
            other => panic!("{id}: call {other}"),
        };
        assert_eq!(stored, text(ours, "source"), "{id}");
        assert_eq!(status_of(&stored).status().as_str(), text(ours, "status"), "{id}");
        let passes = matches!(check_approval(&stored, ApprovalMode::Open), ApprovalVerdict::Approved { .. });
        assert_eq!(Value::from(passes), ours["gate_ok"], "{id}");
    }
}

#[test]
fn the_parser_agrees_with_the_gate_on_every_recorded_program_that_is_approved() {
    for program in programs() {
        let stored = program["stored_skills"].as_object().into_iter().flat_map(|skills| skills.values());
        let bodies = stored.map(|body| body.as_str().unwrap()).chain([text(&program, "source")]);
        let approved = |body: &&str| gate_line(body).and_then(|line| line.status()) == Some(Status::Approved);
        for body in bodies.filter(approved) {
            assert_eq!(
                status_of(body),
                BodyStatus::Agreed(Status::Approved),
                "{}: {body}",
                text(&program, "id")
            );
        }
    }
}
