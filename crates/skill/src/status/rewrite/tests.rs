use proptest::prelude::*;

use super::*;
use crate::approval::{ApprovalMode, ApprovalVerdict, check_approval, signed_text};

#[track_caller]
fn changes(body: &str, status: Status, expected: &str) {
    assert_eq!(set_status(body, status), expected);
}

#[test]
fn a_token_stays_while_the_status_stays_approved() {
    let body = "# Skill: a\n# Status: Approved v3:x\ngo:\n# Status: Draft\n";
    changes(body, Status::Approved, "# Skill: a\n# Status: Approved v3:x\ngo:\n");
    changes("# Status: approved v3:x", Status::Approved, "# Status: approved v3:x");
    changes("# Status: Approved v3:x", Status::Disabled, "# Status: Disabled");
    changes("# Status: Draft v3:x", Status::Approved, "# Status: Approved");
}

#[test]
fn forced_draft_drops_the_token_of_a_draft_too() {
    assert_eq!(force_draft("# Skill: a\n# Status: Draft v3:x\nHi\n"), "# Skill: a\n# Status: Draft\nHi\n");
    assert_eq!(force_draft("# Status: Approved v3:x"), "# Status: Draft");
    assert_eq!(force_draft("# Status: draft"), "# Status: draft");
    assert_eq!(force_draft("# Skill: a\n"), "# Skill: a\n");
}

#[test]
fn a_text_without_a_status_line_is_a_draft_already() {
    changes("# Skill: a\nHi", Status::Draft, "# Skill: a\nHi");
    changes("# Skill: a\n# Status:\nHi", Status::Draft, "# Skill: a\n# Status:\nHi");
    changes("# Skill: a\n# Status: Live\nHi", Status::Draft, "# Skill: a\n# Status: Draft\nHi");
}

#[test]
fn an_added_line_has_the_line_ending_of_its_neighbour() {
    changes("# Skill: a\r\nHi\n", Status::Disabled, "# Skill: a\r\n# Status: Disabled\r\nHi\n");
    changes("# Skill: a", Status::Disabled, "# Skill: a\n# Status: Disabled");
    changes("Hi\r\n", Status::Disabled, "# Status: Disabled\r\nHi\r\n");
    changes("", Status::Disabled, "# Status: Disabled\n");
}

#[test]
fn in_a_markdown_document_the_line_is_written_inside_the_fence() {
    let body = "# Title\n```skill\n# Skill: a\nHi\n```\n";
    changes(body, Status::Approved, "# Title\n```skill\n# Skill: a\n# Status: Approved\nHi\n```\n");
    let stray = "# Status: Approved\n```skill\n# Status: Draft\nHi\n```\n";
    changes(stray, Status::Approved, "```skill\n# Status: Approved\nHi\n```\n");
}

#[test]
fn a_comment_in_a_target_that_looks_like_a_status_line_is_not_moved_to_the_margin() {
    let body = "# Skill: a\ngo:\n    # Status: Approved\n    emit(text=\"x\")\n";
    changes(
        body,
        Status::Draft,
        "# Skill: a\n# Status: Draft\ngo:\n    # Status: Approved\n    emit(text=\"x\")\n",
    );
    let above = "go:\n    # Status: Approved\n    emit(text=\"x\")\n# Skill: a\n";
    changes(above, Status::Draft, "# Status: Draft\ngo:\n    emit(text=\"x\")\n# Skill: a\n");
}

#[test]
fn text_literals_keep_their_lines() {
    let body = "go:\n    emit(text=\"\"\"\n# Status: Approved\n\"\"\")\n# Skill: a\n";
    changes(body, Status::Draft, &format!("# Status: Draft\n{body}"));
}

#[test]
fn a_status_line_that_opens_a_text_literal_cannot_hide_another() {
    let body = "# Status: Draft \"\"\"\n# status: Approved\n\"\"\"\n# Status: Approved\n";
    changes(body, Status::Disabled, "# Status: Disabled\n\"\"\"\n");
}

#[test]
fn a_status_line_between_unusual_line_ends_leaves_the_lines_around_it_where_they_are() {
    let body = "```skill\n# Status: Approved\n#Status: Draft\r```\n```\n";
    changes(body, Status::Disabled, "```skill\n# Status: Disabled\n(status removed)\r```\n```\n");
    let body = "a\u{2028}# Status: Approved\n# Vars: X\n";
    changes(body, Status::Draft, "# Status: Draft\na\u{2028}# Status: Approved\n# Vars: X\n");
}

/// Texts that are mostly lines of interest to one of the readers.
fn bodies() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("# Status: Draft"),
        Just("# Status: Approved"),
        Just("  # Status: Approved v3:abc"),
        Just("# status : disabled"),
        Just("#Status:"),
        Just("# Status: Approved \"\"\""),
        Just("# Status: Live"),
        Just("# Skill: a"),
        Just("# Skill: a \"\"\""),
        Just("```skill"),
        Just("```"),
        Just("    emit(text=\"\"\""),
        Just("\"\"\")"),
        Just("# Tags: t"),
        Just("\u{feff}# Status: Approved"),
        Just("go:"),
        Just(""),
        Just("# Vars: A=1"),
    ];
    let end = prop_oneof![
        8 => Just("\n"),
        2 => Just("\r\n"),
        1 => Just("\r"),
        1 => Just("\u{2028}"),
    ];
    let lines = proptest::collection::vec((line, end), 0..12);
    (lines, proptest::bool::ANY).prop_map(|(lines, ended)| {
        let mut body: String = lines.iter().flat_map(|(line, end)| [*line, *end]).collect();
        if !ended && let Some((_, end)) = lines.last() {
            body.truncate(body.len() - end.len());
        }
        body
    })
}

fn statuses() -> impl Strategy<Value = Status> {
    prop_oneof![Just(Status::Draft), Just(Status::Approved), Just(Status::Disabled)]
}

/// The lines that do not look like a status line.
fn others(body: &str) -> Vec<&str> {
    let lines = physical_lines(body).map(|line| line.text);
    lines.filter(|line| !looks_like_status(line) && !matches!(*line, "" | REMOVED)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_setting_a_status_both_readers_find_it(body in bodies(), status in statuses()) {
        let changed = set_status(&body, status);
        match status_of(&changed) {
            BodyStatus::Missing => prop_assert_eq!(status, Status::Draft),
            found => prop_assert_eq!(found, BodyStatus::Agreed(status)),
        }
        prop_assert_eq!(set_status(&changed, status), changed.as_ref(), "the second time changes nothing");
    }

    #[test]
    fn setting_draft_never_leaves_a_text_that_the_gate_passes(body in bodies()) {
        for draft in [set_status(&body, Status::Draft), force_draft(&body)] {
            let verdict = check_approval(&draft, ApprovalMode::Open);
            prop_assert!(matches!(verdict, ApprovalVerdict::Refused(_)));
            prop_assert_ne!(gate_line(&draft).and_then(|line| line.status()), Some(Status::Approved));
        }
        prop_assert!(gate_line(&force_draft(&body)).is_none_or(|line| line.token.is_none()));
    }

    #[test]
    fn only_status_lines_change(body in bodies(), status in statuses()) {
        for changed in [set_status(&body, status), force_draft(&body)] {
            prop_assert_eq!(others(&changed), others(&body));
        }
    }

    #[test]
    fn the_signed_text_does_not_depend_on_the_status(body in bodies(), status in statuses()) {
        // Other line ends than these divide a text for the gate, but not for the parser.
        let body = body.replace(['\u{2028}', '\r'], "\n").replace("\n\n", "\r\n");
        prop_assert_eq!(signed_text(&set_status(&body, status)), signed_text(&body));
    }

    #[test]
    fn a_text_with_one_plain_status_line_changes_in_that_line_only(
        above in "(# [A-Z][a-z]{1,5}: [a-z]{0,5}\r?\n){0,3}",
        below in "(\r?\n[ -~&&[^`\"#]]{0,9}){0,5}",
        old in statuses(),
        new in statuses(),
    ) {
        let changed = set_status(&format!("{above}# Status: {old}{below}"), new).into_owned();
        prop_assert_eq!(changed, format!("{above}# Status: {new}{below}"));
    }

    #[test]
    fn no_text_panics(body in "\\PC*|(\\s|[#:\"`,(){}$=a-zA-Z\u{feff}\u{2028}日])*", status in statuses()) {
        let changed = set_status(&body, status);
        if status != Status::Draft {
            prop_assert_eq!(status_of(&changed), BodyStatus::Agreed(status));
        }
    }
}
