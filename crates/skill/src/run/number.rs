//! Numbers as JavaScript writes and reads them: `Number.prototype.toString` and `Number(text)`.

use std::fmt::Write as _;

use crate::syntax::blanks::trim;

/// Integers below this are exact, so they are written without the search for the shortest digits.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// Appends a number as `String(number)` writes it.
pub fn write_number(number: f64, out: &mut String) {
    if number == 0.0 {
        out.push('0');
    } else if number.is_nan() {
        out.push_str("NaN");
    } else if number.is_infinite() {
        out.push_str(if number > 0.0 { "Infinity" } else { "-Infinity" });
    } else if number.fract() == 0.0 && number.abs() < EXACT_INTEGERS {
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53 fits")]
        let whole = number as i64;
        let _ = write!(out, "{whole}");
    } else {
        write_shortest(number, out);
    }
}

/// Writes the shortest digits that read back as the same number. Exponents begin at 1e21 and below 1e-6.
fn write_shortest(number: f64, out: &mut String) {
    if number < 0.0 {
        out.push('-');
    }
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    // The number is 0.DIGITS times ten to the power of `point`.
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.push_str(&zeros(point - count));
    } else if (1..=21).contains(&point) {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        let _ = write!(out, "{whole}.{fraction}");
    } else if (-5..=0).contains(&point) {
        let _ = write!(out, "0.{}{digits}", zeros(-point));
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if point > 0 { "+" } else { "-" };
        let _ = write!(out, "{first}{dot}{rest}e{sign}{}", (point - 1).abs());
    }
}

pub fn number_text(number: f64) -> String {
    let mut out = String::new();
    write_number(number, &mut out);
    out
}

/// Reads a text as `Number(text)` does. A text that is not a number gives `NaN`.
pub fn to_number(text: &str) -> f64 {
    let text = trim(text);
    if text.is_empty() {
        return 0.0;
    }
    if let Some((digits, radix)) = radix_literal(text) {
        return integer_of_radix(digits, radix);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "Infinity" {
        return if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if is_decimal_literal(unsigned) { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

fn radix_literal(text: &str) -> Option<(&str, u32)> {
    let rest = text.strip_prefix('0')?;
    let radix = match rest.chars().next()? {
        'x' | 'X' => 16,
        'o' | 'O' => 8,
        'b' | 'B' => 2,
        _ => return None,
    };
    Some((&rest[1..], radix))
}

fn integer_of_radix(digits: &str, radix: u32) -> f64 {
    if digits.is_empty() {
        return f64::NAN;
    }
    digits
        .chars()
        .try_fold(0.0, |value, c| Some(value * f64::from(radix) + f64::from(c.to_digit(radix)?)))
        .unwrap_or(f64::NAN)
}

/// Whether a text is digits with an optional fraction and an optional exponent. Rust's own parser also accepts words
/// such as `inf`.
fn is_decimal_literal(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let has_digits = !(whole.is_empty() && fraction.is_empty());
    let exponent_is_right = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    has_digits && all_digits(whole) && all_digits(fraction) && exponent_is_right
}

/// Reads leading digits as `parseInt(text, 10)` does.
pub fn leading_integer(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(crate::syntax::blanks::is_blank);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
    let value: f64 = digits[..end].parse().ok()?;
    Some(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        for (number, text) in [
            (12_345_678_901_234_567_890.0, "12345678901234567000"),
            (1.0, "1"),
            (1e21, "1e+21"),
            (123_456_789e14, "1.23456789e+22"),
            (1e-7, "1e-7"),
            (1.5e-9, "1.5e-9"),
            (0.000_001, "0.000001"),
            (-0.0, "0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-2.5, "-2.5"),
            (1e20, "100000000000000000000"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }

    #[test]
    fn texts_are_read_as_number_reads_them() {
        for (text, number) in [
            ("", 0.0),
            (" 7 ", 7.0),
            ("\u{feff}\n3\t", 3.0),
            ("0x10", 16.0),
            ("0b101", 5.0),
            ("0O17", 15.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("-1e3", -1000.0),
            ("+2", 2.0),
            ("1e400", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
        ] {
            assert!(to_number(text) == number, "{text}: {}", to_number(text));
        }
        for text in
            ["1_0", "inf", "nan", "infinity", "1,5", "-0x10", "0x", ".", "e5", "1e", "1 2", "٣", "--1"]
        {
            assert!(to_number(text).is_nan(), "{text}");
        }
    }

    #[test]
    fn leading_digits_are_read_as_parse_int_reads_them() {
        assert_eq!(leading_integer(" 12s"), Some(12.0));
        assert_eq!(leading_integer("-3.9"), Some(-3.0));
        for text in ["", "s1", "-", "+ 1"] {
            assert_eq!(leading_integer(text), None);
        }
    }
}
