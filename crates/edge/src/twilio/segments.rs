//! Segments of SMS: how many parts a text is sent in, by the GSM 7-bit alphabet or by UCS-2.

/// The characters of the GSM 7-bit alphabet that take one unit.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿\
                     abcdefghijklmnopqrstuvwxyzäöñüà";
/// Those that take two.
const EXTENDED: &str = "^{}\\[~]|€";

/// Units of a text that fits into one segment, and of each segment of a longer one.
const GSM: (usize, usize) = (160, 153);
const UCS2: (usize, usize) = (70, 67);

/// The number of segments of a text. An empty text has none.
pub fn segments(text: &str) -> usize {
    let units = |letter: char| match letter {
        letter if BASIC.contains(letter) => Some(1),
        letter if EXTENDED.contains(letter) => Some(2),
        _ => None,
    };
    let gsm: Option<usize> = text.chars().map(units).sum();
    let (units, (alone, each)) = match gsm {
        Some(units) => (units, GSM),
        None => (text.encode_utf16().count(), UCS2),
    };
    match units {
        0 => 0,
        units if units <= alone => 1,
        units => units.div_ceil(each),
    }
}

#[cfg(test)]
mod tests {
    use super::segments;

    #[test]
    fn a_text_is_counted_by_the_smallest_alphabet_that_has_all_its_letters() {
        for (text, count) in [
            ("".to_owned(), 0),
            ("a".repeat(160), 1),
            ("a".repeat(161), 2),
            ("a".repeat(306), 2),
            ("a".repeat(307), 3),
            ("€".repeat(80), 1),
            ("€".repeat(81), 2),
            ("é".repeat(160), 1),
            ("ç".repeat(70), 1),
            ("ç".repeat(71), 2),
            ("🦉".repeat(35), 1),
            ("🦉".repeat(36), 2),
        ] {
            assert_eq!(segments(&text), count, "{} × {:?}", text.chars().count(), text.chars().next());
        }
    }
}
