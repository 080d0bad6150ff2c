use super::*;

/// The parts of a text in a short form: literals in quotes, references with their filters, secrets in braces.
fn parts(template: &TextTemplate) -> Vec<String> {
    let part = |part| match part {
        TextPart::Literal(text) => format!("'{text}'"),
        TextPart::Reference(reference) => {
            let filters = reference.filters.iter().map(|call| match &call.argument {
                Some(argument) => format!("|{}:{}", call.filter.word(), argument.text()),
                None => format!("|{}", call.filter.word()),
            });
            format!("{}{}", reference.name, filters.collect::<String>())
        }
        TextPart::Secret(secret, _) => format!("{{{}}}", secret.name.as_deref().unwrap_or("?")),
    };
    template.parts().map(part).collect()
}

fn split(text: &str) -> Vec<String> {
    parts(&TextTemplate::parse(text))
}

#[test]
fn both_forms_are_references_and_the_text_between_them_stays() {
    assert_eq!(split("a $(B) ${C.d}e"), ["'a '", "B", "' '", "C.d", "'e'"]);
    assert_eq!(split("${A}${B}"), ["A", "B"]);
    assert_eq!(split(""), [""; 0]);
}

#[test]
fn text_that_only_resembles_a_reference_stays() {
    for text in
        ["$A", "${ A }", "${}", "$()", "${A", "${A b}", "${A|}", "${A|f:x}", "${A|f:\"x}", "$$", "${A|1}"]
    {
        assert_eq!(split(text), [format!("'{text}'")], "{text}");
        assert_eq!(TextTemplate::parse(text).constant(), Some(text));
    }
}

#[test]
fn a_chain_of_filters_may_have_blanks_and_arguments_with_brackets() {
    assert_eq!(split("${A | trim|fallback : \"}\" }"), ["A|trim|fallback:}"]);
    assert_eq!(split("$(A|head:\"2\"|json)"), ["A|head:2|json"]);
    assert_eq!(split("${A|no_such}"), ["A|no_such"]);
}

#[test]
fn names_end_at_blanks_bars_and_the_own_bracket_only() {
    assert_eq!(split("$($(A)"), ["$(A"]);
    assert_eq!(split("${a-b)}"), ["a-b)"]);
    assert_eq!(split("$(A $(B)"), ["'$(A '", "B"]);
}

#[test]
fn an_argument_of_a_filter_is_a_template_itself() {
    let template = TextTemplate::parse("${A|contains:\"x${B}\"}");
    let reference = template.references().next().unwrap();
    assert_eq!(parts(reference.filters[0].argument.as_ref().unwrap()), ["'x'", "B"]);
}

#[test]
fn a_secret_marker_hides_references_and_has_a_plain_name_or_none() {
    assert_eq!(split("a{{secret.K}}"), ["'a'", "{K}"]);
    assert_eq!(split("{{ secret.K_1 }}"), ["{K_1}"]);
    assert_eq!(split("{{secret.${N}}}"), ["{?}", "'}'"]);
    assert_eq!(split("{{secret.}}"), ["{?}"]);
    assert_eq!(split("{{secret. K}}"), ["{?}"]);
    assert_eq!(split("{{secret.K}"), ["'{{secret.K}'"]);
    assert_eq!(split("{{{secret.K}}"), ["'{'", "{K}"]);
}

#[test]
fn a_marker_inside_of_a_reference_is_found_by_a_search_for_markers() {
    let names =
        |text| SecretMarker::in_text(text).into_iter().map(|(found, _)| found.name).collect::<Vec<_>>();
    assert_eq!(names("${A{{secret.K}}}"), [Some("K".into())]);
    assert_eq!(names("{{secret.A}} {{secret.${B}}} {{x}}"), [Some("A".into()), None]);
}

#[test]
fn a_doubled_dollar_sign_protects_a_bracket_in_unsafe_commands_only() {
    let text = "$$(date) $${X} $(A) $$B";
    assert_eq!(parts(&TextTemplate::parse_unsafe(text)), ["'$(date) '", "'${X} '", "A", "' $$B'"]);
    assert_eq!(split("$$(A)"), ["'$'", "A"]);
}

#[test]
fn the_root_of_a_name_and_its_steps_are_split() {
    let template = TextTemplate::parse("${R.items.0} ${R}");
    let names: Vec<_> =
        template.references().map(|found| (found.root().to_owned(), found.steps().join("/"))).collect();
    assert_eq!(names, [("R".to_owned(), "items/0".to_owned()), ("R".to_owned(), String::new())]);
}

#[test]
fn places_are_known_for_text_that_stands_in_the_source() {
    let place = |origin| TextTemplate::parse("x ${A}").at(origin).located_references().next().unwrap().1;
    assert_eq!(place(Some(10)), Some(SourceRange::new(12, 16)));
    assert_eq!(place(None), None);
}

#[test]
fn many_beginnings_without_an_end_are_scanned_once() {
    for unit in ["$(", "${", "$(A|f:\"$(B\"", "{{secret.", "$(A|f", "${A|f:\"", "$(A|f:\"\""] {
        // With time that grows with the square this takes minutes.
        let text = unit.repeat(300_000 / unit.len());
        TextTemplate::parse(text);
    }
}

#[test]
fn many_beginnings_before_the_same_blanks_are_scanned_once() {
    for (beginning, end) in [("$(a", ")"), ("${a", "}"), ("$(a|f", ")")] {
        // With time that grows with the square this takes hours.
        let text = beginning.repeat(400_000) + &" \u{2003}".repeat(1_000_000);
        assert_eq!(TextTemplate::parse(&*text).references().count(), 0);
        assert_eq!(TextTemplate::parse(text + end).references().count(), 1);
    }
}
