//! Tests of JSON as JavaScript reads and writes it.

use super::*;

fn round(text: &str) -> String {
    parse(text).unwrap().json()
}

#[test]
fn json_is_read_and_written_as_javascript_does() {
    for (text, compact) in [
        (" [ 1 , 2.0 , -0 , 1e21 , 12345678901234567890 ] ", "[1,2,0,1e+21,12345678901234567000]"),
        (r#"{"b":1,"2":2,"a":3,"1":4,"b":5}"#, r#"{"1":4,"2":2,"b":5,"a":3}"#),
        (r#""\u0041\/\b\f\n\r\t\u001f\"\\\u2028""#, "\"A/\\b\\f\\n\\r\\t\\u001f\\\"\\\\\u{2028}\""),
        (r#""\ud83d\ude00 \ud83d x \ude00""#, "\"\u{1f600} \u{fffd} x \u{fffd}\""),
        ("[[],{},[[]],{\"a\":{}}]", "[[],{},[[]],{\"a\":{}}]"),
        ("0.1", "0.1"),
        ("5e-324", "5e-324"),
        ("true", "true"),
    ] {
        assert_eq!(round(text), compact);
    }
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "nul",
        "nulls",
        "'a'",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\u{1}\"",
        "[1] 2",
        "[1}",
        "{\"a\":1]",
        "NaN",
        "\u{feff}1",
        "\u{a0}1",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
        assert!(!is_json(text), "{text:?}");
    }
}

#[test]
fn a_value_that_is_too_large_is_not_built() {
    let zeros = format!("[{}0]", "0,".repeat(999));
    let weight = parse(&zeros).unwrap().weight();
    assert!(parse_within(&zeros, weight).is_ok());
    assert_eq!(parse_within(&zeros, weight / 2), Err(JsonFault::TooLarge(weight / 2)));
    for part in ["[]", "{}", "\"\"", "[[0]]", "{\"a\":{\"b\":1}}"] {
        let many = format!("[{}{part}]", format!("{part},").repeat(999));
        let weight = parse(&many).unwrap().weight();
        assert!(parse_within(&many, weight).is_ok(), "{part}");
        assert_eq!(parse_within(&many, weight - 1), Err(JsonFault::TooLarge(weight - 1)), "{part}");
    }
    // What stands behind the place where it is too large is not looked at.
    assert_eq!(parse_within("[0,0,0,nonsense", 40), Err(JsonFault::TooLarge(40)));
}

#[test]
fn nesting_is_bounded_and_needs_no_stack() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(DEEPEST)).is_ok());
    assert_eq!(parse(&nested(DEEPEST + 1)), Err(JsonFault::Depth));
    assert_eq!(parse(&"[".repeat(10_000_000)), Err(JsonFault::Depth));
    assert_eq!(parse(&"{\"a\":".repeat(1_000_000)), Err(JsonFault::Depth));
}
