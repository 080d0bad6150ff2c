use proptest::prelude::*;

use super::*;

fn errors(body: &str) -> Vec<(usize, ParseErrorKind)> {
    SkillHeader::parse(body).errors.iter().map(|error| (error.line, error.kind)).collect()
}

#[test]
fn keys_and_enumerated_values_are_read_without_regard_to_case() {
    let header =
        SkillHeader::parse("# SKILL: A\n#type: DATA\n# AutonomouS: True\n# status: aPPROVED tok en\n");
    assert_eq!(header.name.as_deref(), Some("A"));
    assert_eq!((header.skill_type, header.autonomous), (SkillType::Data, Some(true)));
    assert_eq!((header.status, header.approval_token.as_deref()), (Some(Status::Approved), Some("tok en")));
    assert_eq!(header.errors, []);
}

#[test]
fn the_last_line_of_a_scalar_key_wins_and_none_clears_it() {
    let header = SkillHeader::parse(
        "# Skill: a\n# Skill: b\n# Description: d\n# Description: (none)\n# Type: data\n# Type:\n\
         # Status: Approved t\n# Status: (none)\n# Timeout: 5\n# Timeout:\n# Vars: A\n# Vars: B=1\n",
    );
    let expected = SkillHeader {
        name: Some("b".to_owned()),
        vars: vec![SkillVar { name: "B".to_owned(), default: Some("1".to_owned()) }],
        ..SkillHeader::default()
    };
    assert_eq!(header, expected);
}

#[test]
fn a_line_with_an_error_changes_nothing_and_the_error_has_its_line() {
    let header = SkillHeader::parse("# Timeout: 5\n\n# Timeout: 0\n# Status: Draft\n# Status: Live\n");
    assert_eq!(header.timeout, Some(TimeLimit::Seconds(5)));
    assert_eq!(header.status, Some(Status::Draft));
    let lines: Vec<usize> = header.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [3, 5]);
    assert_eq!(header.errors[0].to_string().split_once(':').unwrap().0, "line 3");
}

#[test]
fn errors_in_a_fence_have_the_line_of_the_whole_text() {
    assert_eq!(errors("prose\n```skill\n# Type: x\n```"), [(3, ParseErrorKind::InvalidHeader)]);
}

#[test]
fn time_limits_are_leading_digits_or_a_reference() {
    let limit = |value: &str| SkillHeader::parse(&format!("# Deadline: {value}")).deadline;
    assert_eq!(limit("45s"), Some(TimeLimit::Seconds(45)));
    assert_eq!(limit("+7 or so"), Some(TimeLimit::Seconds(7)));
    assert_eq!(limit("99999999999999999999999"), Some(TimeLimit::Seconds(u64::MAX)));
    assert_eq!(limit("$(T)"), Some(TimeLimit::Reference("$(T)".to_owned())));
    for wrong in ["0", "-4", "soon", "s5", "+"] {
        assert_eq!(limit(wrong), None, "{wrong}");
    }
}

#[test]
fn reserved_words_are_reported_and_kept_as_names() {
    let body = "# Skill: while\n# Vars: Not, not=1\n# Returns: in, A\n";
    let header = SkillHeader::parse(body);
    assert_eq!(errors(body), [1, 2, 3].map(|line| (line, ParseErrorKind::ReservedWord)));
    assert_eq!(header.name.as_deref(), Some("while"));
    assert_eq!(header.returns, ["in", "A"]);
}

#[test]
fn requires_lines_add_up_and_what_matches_no_form_is_dropped() {
    let header = SkillHeader::parse(
        "# Requires: user-var:tz → TZ\n# Requires: system-var:k->V(fallback:'a b')\n# Requires: nothing known\n\
         # Requires: secret.A store.flag\n# Requires: secret.C secret.B-C\n# Requires: user-var: -> X\n",
    );
    let found: Vec<_> =
        header.requires.iter().map(|r| (r.key.as_str(), r.target.as_str(), r.fallback.as_deref())).collect();
    assert_eq!(found, [("tz", "TZ", None), ("k", "V", Some("a b"))]);
    assert_eq!(
        (header.secret_requires, header.required_capabilities),
        (vec!["A".to_owned()], vec!["store.flag".to_owned()])
    );
    assert_eq!(header.errors, []);
}

#[test]
fn one_pair_of_quotes_around_a_trigger_is_removed() {
    let header =
        SkillHeader::parse("# Triggers: cron:\"0 6,8 * * *\", event: 'Door.Open'\n# Triggers: event: \"\"\n");
    let names: Vec<&str> = header.triggers.iter().map(|trigger| trigger.name.as_str()).collect();
    assert_eq!(names, ["0 6,8 * * *", "Door.Open"]);
    assert_eq!(header.errors.len(), 1);
}

#[test]
fn a_triple_quote_in_a_header_joins_it_with_the_lines_below() {
    let header = SkillHeader::parse("# Description: \"\"\"\n# Skill: hidden\n\"\"\"\n# Tags: seen\n");
    assert_eq!((header.name, header.tags), (None, vec!["seen".to_owned()]));
}

/// Any text, or header lines with the punctuation that their values are split at.
const BODIES: &str = "\\PC*|(# (Vars|Output|Triggers|Requires|Returns|Status|Timeout):\
                      [\\s,:=\"'\\[\\]{}()$a-z→\u{feff}\u{2028}-]*\n)*";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_in_the_parser(body in BODIES) {
        let header = SkillHeader::parse(&body);
        prop_assert_eq!(header.status, parsed_status(&body));
    }
}
