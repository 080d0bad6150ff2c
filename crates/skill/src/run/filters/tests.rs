use super::*;

const LIMIT: usize = 1000;

fn filtered(filter: &str, argument: Option<&str>, text: &str) -> String {
    apply(&FilterName::named(filter), argument, &text.into(), LIMIT).unwrap().rendered().into_owned()
}

fn fails(filter: &str, argument: Option<&str>, text: &str) {
    assert!(apply(&FilterName::named(filter), argument, &text.into(), LIMIT).is_err(), "{filter} {text}");
}

#[test]
fn url_encodes_as_encode_uri_component() {
    assert_eq!(filtered("url", None, "a b/é-_.!~*'()\u{1f600}"), "a%20b%2F%C3%A9-_.!~*'()%F0%9F%98%80");
}

#[test]
fn shell_wraps_in_single_quotes() {
    assert_eq!(filtered("shell", None, "it's"), r"'it'\''s'");
}

#[test]
fn json_leaves_json_as_it_is() {
    for json in ["{\"a\": 1}", "42", "null", " [1] ", "\"x\""] {
        assert_eq!(filtered("json", None, json), json);
    }
    assert_eq!(filtered("json", None, "a \"b\"\n"), r#""a \"b\"\n""#);
}

#[test]
fn length_counts_elements_or_utf16_units() {
    for (text, length) in
        [("[1,2,3]", "3"), ("[1,", "3"), ("{\"a\":1}", "7"), ("\u{1f600}x", "3"), ("", "0"), (" [1] ", "1")]
    {
        assert_eq!(filtered("length", None, text), length);
    }
    assert_eq!(apply(&FilterName::Length, None, &SkillValue::list([1.0.into()]), LIMIT).unwrap(), "1".into());
}

#[test]
fn isodate_reads_seconds_milliseconds_and_date_texts() {
    for (text, iso) in [
        ("1767225600", "2026-01-01T00:00:00.000Z"),
        ("1767225600000", "2026-01-01T00:00:00.000Z"),
        ("", "1970-01-01T00:00:00.000Z"),
        ("2026-01-01", "2026-01-01T00:00:00.000Z"),
    ] {
        assert_eq!(filtered("isodate", None, text), iso);
    }
    fails("isodate", None, "soon");
    fails("isodate", None, "1e300");
}

#[test]
fn contains_finds_elements_of_lists_and_parts_of_texts() {
    assert_eq!(filtered("contains", Some("a"), "[\"a\",\"b\"]"), "true");
    assert_eq!(filtered("contains", Some("a"), "[\"alpha\"]"), "");
    assert_eq!(filtered("contains", Some("a,b"), "[[\"a\",\"b\"]]"), "true");
    assert_eq!(filtered("contains", Some("lph"), "alpha"), "true");
    fails("contains", None, "a");
}

#[test]
fn line_filters_select_lines_and_never_fail() {
    let text = "a\r\nb\n\nc\n";
    assert_eq!(filtered("head", Some("2"), text), "a\nb");
    assert_eq!(filtered("tail", Some(" 2 "), text), "\nc");
    assert_eq!(filtered("lines", Some("2-3"), text), "b\n");
    assert_eq!(filtered("lines", Some("0-1"), text), "a");
    assert_eq!(filtered("lines", Some("3-99999999999999999999"), text), "\nc");
    assert_eq!(filtered("head", Some("99"), text), "a\nb\n\nc");
    for (filter, argument) in [
        ("head", "0"),
        ("head", "x"),
        ("tail", "-1"),
        ("lines", "2"),
        ("lines", "3-2"),
        ("lines", "9-10"),
        ("lines", "-1-2"),
    ] {
        assert_eq!(filtered(filter, Some(argument), text), "", "{filter} {argument}");
    }
    assert_eq!(filtered("head", None, text), "");
}

#[test]
fn pluck_takes_one_field_of_every_object() {
    let list = r#"[{"id":"a"},{"id":null},{},3,[1],{"id":{"x":1}}]"#;
    assert_eq!(filtered("pluck", Some("id"), list), r#"["a",{"x":1}]"#);
    fails("pluck", None, list);
    fails("pluck", Some("id"), "{}");
    fails("pluck", Some("id"), "x");
}

#[test]
fn an_unknown_filter_fails() {
    fails("upper", None, "a");
}

#[test]
fn a_filter_that_multiplies_its_text_is_bounded() {
    let error = apply(&FilterName::Url, None, &" ".repeat(LIMIT / 2).into(), LIMIT).unwrap_err();
    assert_eq!((error.class.name(), error.message.contains("1000 bytes")), ("OpError", true));
}
