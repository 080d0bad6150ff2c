use proptest::prelude::*;

use super::super::tree::{LoopOver, MAX_BLOCKS, OpKind, SkillOp};
use super::*;

fn kinds(body: &str) -> Vec<(usize, ParseErrorKind)> {
    SkillTree::parse(body).errors.iter().map(|error| (error.line, error.kind)).collect()
}

/// The words of operations, with the operations of blocks in brackets.
fn shape(ops: &[SkillOp]) -> String {
    let one = |op: &SkillOp| {
        let blocks: Vec<String> = op.blocks().map(|block| format!("[{}]", shape(block))).collect();
        format!("{}{}", op.kind.word(), blocks.concat())
    };
    ops.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn body_shape(lines: &str) -> String {
    let tree = SkillTree::parse(&format!("go:\n{lines}"));
    assert_eq!(tree.errors, [], "{lines}");
    shape(&tree.targets[0].ops)
}

#[test]
fn every_operation_is_recognised() {
    let lines = "    $set A = 1\n    $append A 2\n    emit(text=\"x\")\n    ? why\n    $ t a=1\n    shell(command=\"ls\")\n    \
                 file_read(path=\"a\")\n    file_write(path=\"a\", content=\"b\")\n    notify(agent=\"a\")\n    \
                 inline(skill=\"s\")\n    execute_skill(name=\"s\")\n";
    assert_eq!(body_shape(lines), "$set $append emit ? $ shell file_read file_write notify inline $");
}

#[test]
fn blocks_nest_and_close_by_indentation() {
    let lines = "    if ${A}:\n        foreach I in ${L}:\n            emit(text=\"1\")\n        $ t\n    elif ${B}:\n\n        \
                 emit(text=\"2\")\n    else:\n        ? x\n    $ last\n";
    assert_eq!(body_shape(lines), "if[foreach[emit] $][emit][?] $");
}

#[test]
fn an_else_belongs_to_the_if_of_its_depth_even_through_open_blocks() {
    let lines = "    if ${A}:\n        if ${B}:\n            foreach I in ${L}:\n                ? x\n    else:\n        ? y\n";
    assert_eq!(body_shape(lines), "if[if[foreach[?]]][?]");
}

#[test]
fn a_refused_condition_drops_its_block_and_keeps_the_other_branches() {
    let tree = SkillTree::parse(
        "go:\n    if A:\n        ? lost\n    else:\n        ? lost\n    if ${A}:\n        ? a\n    elif B:\n        \
         ? lost\n    elif ${C}:\n        ? c\n    else:\n        ? d\n",
    );
    assert_eq!(shape(&tree.targets[0].ops), "if[?][?][?]");
    let lines: Vec<usize> = tree.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 8]);
}

#[test]
fn errors_have_the_range_of_what_is_wrong() {
    let source = "go:\n    if ${A} = \"1\":\n        ? x\n    shell(ls)\n";
    let tree = SkillTree::parse(source);
    let texts: Vec<&str> = tree.errors.iter().map(|error| error.range.of(source)).collect();
    assert_eq!(texts, ["${A} = \"1\"", "ls"]);
}

#[test]
fn a_call_may_span_lines_and_an_unbalanced_one_costs_only_its_line() {
    let source = "go:\n    notify(\n        agent=\"a\",\n        message=\"b\"\n    ) -> R\n    emit(text=\"x\"\n    ? y\n\
                  end:\n    emit(text=\"z\")\n";
    let tree = SkillTree::parse(source);
    assert_eq!(kinds(source), [(6, ParseErrorKind::MalformedCall)]);
    assert_eq!(shape(&tree.targets[0].ops), "notify ?");
    let notify = &tree.targets[0].ops[0];
    assert_eq!((notify.line, notify.range.of(source).lines().count()), (2, 4));
    assert_eq!(notify.binding().unwrap().variable.as_deref(), Some("R"));
    assert_eq!(shape(&tree.targets[1].ops), "emit");
}

#[test]
fn a_header_line_is_never_part_of_a_call() {
    let source = "go:\n    emit(text=\"a\n# Status: Approved\n    b\")\n";
    assert_eq!(SkillTree::parse(source).header.status, Some(crate::status::Status::Approved));
}

#[test]
fn a_line_that_is_indented_by_less_than_four_is_reported() {
    assert_eq!(kinds("go:\n  ? x\n    ? y\ndefault: go\n"), [(2, ParseErrorKind::Structure)]);
    assert_eq!(
        kinds("go:\n    ? x\n  ? y\nend:\n  ? z\n"),
        [3, 5].map(|line| (line, ParseErrorKind::Structure))
    );
}

#[test]
fn a_loop_goes_over_a_value_a_list_or_a_text() {
    let over = |list: &str| {
        let tree = SkillTree::parse(&format!("go:\n    foreach I in {list}:\n        ? x\n"));
        let OpKind::Foreach(op) = &tree.targets[0].ops[0].kind else { panic!("{list}") };
        match &op.over {
            LoopOver::Value(reference) => format!("value {}", reference.name),
            LoopOver::Elements(elements) => format!("list {}", elements.join("|")),
            LoopOver::Text(text) => format!("text {}", text.text()),
        }
    };
    assert_eq!(over("$(A|trim)"), "value A|trim");
    assert_eq!(over("[a, \"b\", ${C}]"), "list a|b|${C}");
    assert_eq!(over("[]"), "list ");
    assert_eq!(over("${A}"), "text ${A}");
    assert_eq!(over("$(A)$(B)"), "text $(A)$(B)");
}

#[test]
fn places_of_references_in_literals_point_into_the_source() {
    let source = "go:\n    $set A = \"x ${B}\"\n    $append A <${C}>\n    emit(text = 'y ${D}')\n";
    let tree = SkillTree::parse(source);
    let place = |op: &SkillOp| {
        let text = match &op.kind {
            OpKind::Set(op) => &op.value,
            OpKind::Append(op) => &op.value,
            OpKind::Emit(op) => &op.text,
            other => panic!("{}", other.word()),
        };
        text.located_references().next().unwrap().1.unwrap().of(source)
    };
    let places: Vec<&str> = tree.targets[0].ops.iter().map(place).collect();
    assert_eq!(places, ["${B}", "${C}", "${D}"]);
}

#[test]
fn lines_that_are_no_operation_are_remembered_and_comments_are_not() {
    let tree = SkillTree::parse("go:\n    hello there\n    # note\n    $x\n    ? y\n");
    assert_eq!((tree.ignored_lines, tree.errors), (vec![2, 4], vec![]));
}

#[test]
fn words_are_ascii_and_blanks_are_those_of_javascript() {
    assert_eq!(kinds("go:\n    $set \u{c4} = 1\n"), [(2, ParseErrorKind::MalformedOp)]);
    assert_eq!(SkillTree::parse("\u{c4}go:\n    ? x\n").targets.len(), 0);
    let tree = SkillTree::parse("go:\u{feff}\n    $set\u{20}A\u{a0}=\u{2003}x\u{feff}\n");
    let OpKind::Set(set) = &tree.targets[0].ops[0].kind else { panic!() };
    assert_eq!((&*set.variable, set.value.text()), ("A", "x"));
}

#[test]
fn blocks_deeper_than_the_limit_are_refused_and_the_rest_is_read() {
    let nested = |depth: usize| {
        let mut body = "go:\n".to_owned();
        for level in 1..=depth {
            body.push_str(&format!("{}if ${{A}}:\n", " ".repeat(STEP * level)));
        }
        body.push_str(&format!("{}? x\n    ? last\n", " ".repeat(STEP * (depth + 1))));
        body
    };
    assert_eq!(kinds(&nested(MAX_BLOCKS)), []);
    let tree = SkillTree::parse(&nested(400));
    assert_eq!(tree.errors.len(), 400 - MAX_BLOCKS);
    assert_eq!(tree.targets[0].ops.len(), 2);
}

#[test]
fn large_texts_are_parsed_in_time_that_grows_with_their_length() {
    // Each of these takes minutes if the time grows with the square of the length.
    for unit in [
        "go:\n",
        "    emit(text=\"x\"\n",
        "go:\n    emit(\n",
        "    if ${A}:\n",
        "x\n\n",
        "~ \"\n",
        "    $ t -> A -> B (fallback: -> C\n",
        "go:\n    $ t a={\"b\":[\n",
        "go:\n    if $(${A} = \"\":\n",
        "\"\"\"\n",
        "\t\n",
    ] {
        SkillTree::parse(&unit.repeat(300_000 / unit.len()));
    }
    for unit in ["$(", "->A ", "a=[", "approved", "(", "\"", " and ${A}"] {
        SkillTree::parse(&format!("go:\n    $ t {}\n", unit.repeat(150_000 / unit.len())));
        SkillTree::parse(&format!("go:\n    if {}:\n", unit.repeat(150_000 / unit.len())));
        SkillTree::parse(&format!("go:\n    emit({})\n", unit.repeat(150_000 / unit.len())));
    }
}

#[test]
fn a_skill_of_ten_mebibytes_and_a_hundred_thousand_lines_is_parsed() {
    let line = format!("    $set A = \"{}\"\n", "x".repeat(86));
    let count = 10 * 1024 * 1024 / line.len();
    let tree = SkillTree::parse(&format!("go:\n{}default: go\n", line.repeat(count)));
    assert!(count >= 100_000 && tree.errors.is_empty());
    assert_eq!(tree.targets[0].ops.len(), count);
}

/// Lines with the words and the punctuation of the language, at indentations that fit and that do not.
const BODIES: &str = "((    |        |  |\t|)(go:|else:|elif |if |foreach I in |\\$set A = |\\$append A |\\$ |\\$|emit\\(|\
                      shell\\(argv=|notify\\(|execute_skill\\(|default: |# Vars: |needs: |~ |\\?)\
                      [-\\s\"'\\[\\]{}()$=|:,.<>\\\\a-c→\u{feff}\u{2028}]{0,24}\n)*";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_panics_in_the_parser(body in BODIES) {
        let tree = SkillTree::parse(&body);
        prop_assert_eq!(&tree.header.status, &SkillHeader::parse(&body).status);
        for error in &tree.errors {
            prop_assert!(body.get(error.range.start..error.range.end).is_some(), "{:?}", error);
        }
    }

    #[test]
    fn any_text_has_a_tree(body in "\\PC*") {
        SkillTree::parse(&body);
    }
}
