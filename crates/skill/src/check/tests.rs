use std::collections::{BTreeMap, BTreeSet};

use super::*;

fn rules_of(body: &str, context: &CheckContext) -> Vec<&'static str> {
    let mut rules: Vec<&str> =
        check(&SkillTree::parse(body), context).iter().map(|finding| finding.rule).collect();
    rules.retain(|rule| *rule != "unbounded-no-deadline");
    rules
}

/// The rules that the lines of one target break.
fn rules_of_lines(lines: &str) -> Vec<&'static str> {
    rules_of(&format!("# Vars: V=1\ngo:\n{lines}default: go\n"), &CheckContext::default())
}

#[test]
fn a_plain_skill_has_no_findings() {
    assert_eq!(rules_of_lines("    emit(text=\"${V|trim}\")\n"), [""; 0]);
}

#[test]
fn only_top_level_operations_are_searched_for_undeclared_variables() {
    assert_eq!(rules_of_lines("    emit(text=\"${A}\")\n"), ["undeclared-var"]);
    assert_eq!(rules_of_lines("    if ${V}:\n        emit(text=\"${A}\")\n"), [""; 0]);
    assert_eq!(
        rules_of_lines("    if ${V}:\n        ? x\n    elif ${A}:\n        ? y\n"),
        ["deprecated-question"; 2]
    );
    for fine in ["${A|fallback:\"x\"}", "${A.b}", "${NOW}", "${ERROR_CONTEXT}"] {
        assert_eq!(rules_of_lines(&format!("    emit(text='{fine}')\n")), [""; 0], "{fine}");
    }
}

#[test]
fn an_append_needs_a_visible_set() {
    assert_eq!(rules_of_lines("    $append L 1\n"), ["uninitialized-append"]);
    assert_eq!(rules_of_lines("    $append V 1\n"), ["append-to-non-list"]);
    let set_in_loop = "    foreach I in [1]:\n        $set L = []\n        $append L ${I}\n";
    assert_eq!(rules_of_lines(set_in_loop), ["foreach-local-accumulator-target"]);
    let set_in_other_block = "    if ${V}:\n        $set L = []\n    else:\n        $append L 1\n";
    assert_eq!(rules_of_lines(set_in_other_block), ["uninitialized-append"]);
    assert_eq!(rules_of_lines("    $set L = []\n    foreach I in [1]:\n        $append L ${I}\n"), [""; 0]);
}

#[test]
fn a_call_is_reported_twice_and_a_condition_once() {
    assert_eq!(rules_of_lines("    shell(ls)\n"), ["malformed-op-grammar", "parse-error"]);
    assert_eq!(rules_of_lines("    if V:\n        ? x\n"), ["invalid-conditional-syntax"]);
    assert_eq!(rules_of_lines("    ~ x\n"), ["malformed-op-grammar", "parse-error"]);
}

#[test]
fn a_tool_without_a_connector_is_milder_if_every_call_has_a_fallback() {
    let context = CheckContext { connectors: Some(BTreeMap::new()), ..CheckContext::default() };
    let severity = |lines: &str| {
        let tree = SkillTree::parse(&format!("go:\n{lines}default: go\n"));
        let findings = check(&tree, &context);
        findings
            .iter()
            .find(|finding| finding.rule == "unwired-primary-connector")
            .map(|finding| finding.severity)
    };
    assert_eq!(severity("    $ t -> R (fallback: 1)\n"), Some(Severity::Info));
    assert_eq!(severity("    $ t -> R (fallback: 1)\n    $ t -> R\n"), Some(Severity::Error));
    assert_eq!(severity("    $ json_parse [] -> R\n"), None);
}

#[test]
fn arguments_are_compared_with_the_schema_of_the_tool() {
    let schema = |is_open| ToolSchema {
        arguments: Some(vec!["a".to_owned()]),
        required: vec!["a".to_owned()],
        is_open,
    };
    let context = |is_open| CheckContext {
        connectors: Some(BTreeMap::from([(
            "c".to_owned(),
            ConnectorFacts {
                schemas: [("t".to_owned(), schema(is_open))].into(),
                ..ConnectorFacts::default()
            },
        )])),
        ..CheckContext::default()
    };
    let body = "go:\n    $ c.t b=1 timeout=3 approved=\"x\"\ndefault: go\n";
    assert_eq!(rules_of(body, &context(false)), ["missing-required-connector-arg", "unknown-connector-arg"]);
    assert_eq!(rules_of(body, &context(true)), ["missing-required-connector-arg"]);
}

#[test]
fn the_program_of_a_command_must_be_on_the_list() {
    let context = CheckContext {
        shell_programs: Some(BTreeSet::from(["ls".to_owned()])),
        allows_unsafe_shell: Some(false),
        ..CheckContext::default()
    };
    let rules = |call: &str| rules_of(&format!("go:\n    shell({call})\ndefault: go\n"), &context);
    assert_eq!(rules("command=\"ls -l\""), [""; 0]);
    assert_eq!(rules("command=\"rm x\""), ["shell-binary-not-allowed"]);
    assert_eq!(rules("argv=[\"ls\"]"), [""; 0]);
    assert_eq!(
        rules("command=\"ls\", unsafe=true"),
        ["shell-binary-not-allowed", "unsafe-shell-disabled", "unsafe-shell-op"]
    );
}

#[test]
fn findings_point_at_the_text_that_they_are_about() {
    let source = "# Skill: a\ngo:\n    emit(text=\"hello ${WHO}\")\ndefault: go\n";
    let findings = check(&SkillTree::parse(source), &CheckContext::default());
    assert_eq!(findings[0].range.map(|range| range.of(source)), Some("${WHO}"));
    let shown = render_findings(source, "a.skill.md", &findings, false);
    for part in ["error[undeclared-var]", "a.skill.md:3:22", "3 |     emit", "^^^^^^", "help: declare it"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
}

#[test]
fn a_rendered_text_cannot_steer_the_terminal() {
    let source = "go:\n    if \u{1b}[2J:\n        ? x\n";
    let findings = check(&SkillTree::parse(source), &CheckContext::default());
    assert!(!render_findings(source, "a", &findings, false).contains('\u{1b}'));
    assert!(!render_plain(&findings).contains('\u{1b}'));
}

#[test]
fn plain_text_counts_the_findings() {
    assert_eq!(render_plain(&[]), "OK: no findings.");
    let findings = check(&SkillTree::parse("go:\n    ? x\n"), &CheckContext::default());
    let shown = render_plain(&findings);
    assert!(shown.starts_with("[error] missing-default-target: "), "{shown}");
    assert!(shown.contains("[warning] deprecated-question (in go): "), "{shown}");
    assert!(shown.ends_with("\n\n1 error(s), 1 warning(s), 0 info."), "{shown}");
}

#[test]
fn every_rule_has_an_id_of_its_own() {
    let ids: BTreeSet<&str> = LINT_RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), LINT_RULES.len());
}

#[test]
fn long_chains_of_targets_and_large_skills_are_checked() {
    let mut body = String::new();
    for number in 0..20_000 {
        body.push_str(&format!("t{number}: t{}\n    $append L ${{A{number}}}\n", number + 1));
    }
    body.push_str("default: t0\n");
    let findings = check(&SkillTree::parse(&body), &CheckContext::default());
    // Each target lacks the list and its variable, and the last one depends on nothing that exists.
    assert_eq!(findings.len(), 40_001);
}

#[test]
fn a_long_target_name_is_not_repeated_in_every_finding() {
    let name = "n".repeat(100_000);
    let many = 2000;
    let misfits = format!("{name}:\n    ? x\n{}default: {name}\n", "      ? x\n".repeat(many));
    let unknown = format!("{name}: {}\n    ? x\ndefault: {name}\n", "absent ".repeat(many));
    let questions = format!("{name}:\n{}default: {name}\n", "    ? x\n".repeat(many));
    for body in [misfits, unknown, questions] {
        let findings = check(&SkillTree::parse(&body), &CheckContext::default());
        let length =
            |finding: &Finding| finding.message.len() + finding.block.as_ref().map_or(0, String::len);
        let bytes: usize = findings.iter().map(length).sum();
        assert!(findings.len() >= many && bytes < 400 * findings.len(), "{bytes} bytes");
    }
}

#[test]
fn names_with_colons_are_found_without_a_copy_of_the_line_for_each() {
    // A copy of the line for each name would need 40 GB.
    let names: String = (0..60_000).map(|number| format!(" n{number}:x")).collect();
    let rules = rules_of_lines(&format!("    $ t{names}\n    $ t{names}\n"));
    assert_eq!(rules.iter().filter(|rule| **rule == "colon-kwarg-syntax").count(), 60_000);
}

#[test]
fn unknown_names_of_a_template_are_looked_up_and_not_searched() {
    // With a search for each name this takes hours.
    let body: String = (0..400_000).map(|number| format!("${{n{number}}}")).collect();
    let rules = rules_of(&body, &CheckContext::default());
    assert_eq!(rules.iter().filter(|rule| **rule == "unset-template-var").count(), 400_000);
}

#[test]
fn a_question_needs_a_variable_for_its_answer_and_a_time_limit() {
    let ask = |rest: &str| rules_of_lines(&format!("    exchange(agent=\"a\", message=\"m\"{rest}\n"));
    assert_eq!(ask(")"), ["exchange-unbound", "exchange-unbounded"]);
    assert_eq!(ask(") -> R"), ["exchange-unbounded"]);
    assert_eq!(ask(", timeout=5) -> R"), [""; 0]);
    let bounded = "# Deadline: 9\ngo:\n    exchange(agent=\"a\", message=\"m\") -> R\ndefault: go\n";
    assert_eq!(rules_of(bounded, &CheckContext::default()), [""; 0]);
}

#[test]
fn a_line_that_a_run_ignores_is_reported_unless_it_is_a_comment() {
    assert_eq!(rules_of_lines("    emit(text=\"a\")\n    print a\n    # a note\n"), ["ignored-line"]);
}

#[test]
fn a_status_that_only_one_reader_sees_is_reported() {
    let body = "  # Status: Approved\n# Skill: a\ngo:\n    emit(text=\"a\")\ndefault: go\n";
    let rules = rules_of(body, &CheckContext::default());
    assert!(rules.contains(&"status-disagrees") && rules.contains(&"unsigned-literal-line"), "{rules:?}");
}

#[test]
fn a_line_that_a_signature_leaves_out_is_reported_outside_the_header() {
    let rule = "unsigned-literal-line";
    let joined = "# Tags: a\ngo:\n    emit(text=\"\"\"a\n# Tags: b\n\"\"\")\ndefault: go\n";
    assert_eq!(rules_of(joined, &CheckContext::default()), [rule]);
    let fine = "# Tags: a\n# Status: Draft\ngo:\n    emit(text=\"a # Tags: b\")\ndefault: go\n";
    assert_eq!(rules_of(fine, &CheckContext::default()), [""; 0]);
}

#[test]
fn a_field_of_a_skill_that_is_a_number_is_no_variable() {
    let child = StoredSkillFacts { returns: vec!["K".to_owned()], ..StoredSkillFacts::default() };
    let store = StoreFacts { skills: [("child".to_owned(), child)].into(), same_name: 1 };
    let context = CheckContext { store: Some(store), ..CheckContext::default() };
    let is_reported = |reference: &str| {
        let call = "    execute_skill(name=\"child\") -> R\n";
        let body = format!("# Status: Approved\ngo:\n{call}    emit(text='{reference}')\ndefault: go\n");
        rules_of(&body, &context).contains(&"unexported-final-var-access")
    };
    for fine in ["${R.K}", "${R.0}", "${R.final_vars.0}", "${R.outputs.text}"] {
        assert!(!is_reported(fine), "{fine}");
    }
    assert!(is_reported("${R.OTHER}"));
}
