//! Tolerant JSON parsing of what peers really send: numbers and nulls in place of texts, and escapes that no JSON
//! parser accepts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeOwned, Visitor};
use serde_json::value::RawValue;

/// Accepts a string or a number as the text of an id.
pub(crate) struct IdText;

impl Visitor<'_> for IdText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

/// Reads a field. Absent, null and a wrong type all read as `None`.
pub(crate) fn field<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    raw.and_then(|raw| serde_json::from_str::<Option<T>>(raw.get()).ok().flatten())
}

/// Like [`field`], for objects only. Serde would also read an array into a struct, field by field.
pub(crate) fn object<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    field(raw.filter(|raw| raw.get().starts_with('{')))
}

/// For `#[serde(deserialize_with)]`: a wrong type reads as the default and does not fail the whole object.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: de::Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    // Borrowed, not boxed, for speed: an event has two dozen such fields.
    let raw = <&RawValue as de::Deserialize>::deserialize(from)?;
    Ok(field(Some(raw)).unwrap_or_default())
}

/// Like [`or_default`], for objects.
pub(crate) fn object_or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: de::Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let raw = <&RawValue as de::Deserialize>::deserialize(from)?;
    Ok(object(Some(raw)).unwrap_or_default())
}

/// Like [`each`], for lists of objects.
pub(crate) fn each_object<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: de::Deserializer<'de>,
    T: DeserializeOwned,
{
    let items: Vec<Box<RawValue>> = or_default(from)?;
    Ok(items.iter().filter_map(|item| object(Some(item))).collect())
}

/// Like [`or_default`], for lists. Items of a wrong type are left out.
pub(crate) fn each<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: de::Deserializer<'de>,
    T: DeserializeOwned,
{
    let items: Vec<Box<RawValue>> = or_default(from)?;
    Ok(items.iter().filter_map(|item| field(Some(item))).collect())
}

/// Reads a text that peers also write as a number.
pub(crate) fn words<'de, D: de::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    struct Words(String);
    impl<'de> de::Deserialize<'de> for Words {
        fn deserialize<D: de::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_any(IdText).map(Words)
        }
    }
    let raw = <Box<RawValue> as de::Deserialize>::deserialize(from)?;
    Ok(field::<Words>(Some(&raw)).map_or_else(String::new, |words| words.0))
}

/// Reads an id. The number zero means none, as for peers; the text `"0"` is a normal id.
pub(crate) fn nonzero<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: de::Deserializer<'de>,
    T: DeserializeOwned,
{
    let raw = <Box<RawValue> as de::Deserialize>::deserialize(from)?;
    Ok(if raw.get() == "0" { None } else { field(Some(&raw)) })
}

/// Repairs text that Python's encoder may write and a strict parser rejects. Lone surrogate escapes and bytes that are
/// not UTF-8 become U+FFFD. `NaN` and the infinities become `null`. Returns `None` if nothing was repaired.
pub(crate) fn repaired(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let lossy = matches!(text, Cow::Owned(_));
    let bytes = text.as_bytes();
    let mut mended = String::new();
    let (mut at, mut kept, mut in_string, mut changed) = (0, 0, false, lossy);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                in_string = !in_string;
                at += 1;
            }
            b'\\' if in_string => {
                match escape_unit(bytes, at) {
                    Some(0xD800..=0xDBFF) if matches!(escape_unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => {
                        at += 12
                    }
                    Some(0xD800..=0xDFFF) => {
                        mended.push_str(&text[kept..at]);
                        mended.push_str("\\ufffd");
                        at += 6;
                        kept = at;
                        changed = true;
                    }
                    Some(_) => at += 6,
                    // Another escape. Its second byte is ASCII in valid JSON, but a stray backslash may precede
                    // any character, so step over a whole one.
                    None => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
                }
            }
            b'N' | b'I' | b'-' if !in_string => match non_number(&text[at..]) {
                Some(length) => {
                    mended.push_str(&text[kept..at]);
                    mended.push_str("null");
                    at += length;
                    kept = at;
                    changed = true;
                }
                None => at += 1,
            },
            _ => at += 1,
        }
    }
    changed.then(|| {
        mended.push_str(&text[kept..]);
        mended
    })
}

/// Code unit of the `\uXXXX` escape that starts at `at`.
fn escape_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    if &escape[..2] != b"\\u" || !escape[2..].iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()
}

fn non_number(rest: &str) -> Option<usize> {
    ["NaN", "Infinity", "-Infinity"].iter().find(|word| rest.starts_with(**word)).map(|word| word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(line: &str) -> String {
        repaired(line.as_bytes()).unwrap_or_else(|| line.to_owned())
    }

    #[test]
    fn lone_surrogates_become_the_replacement_character_and_pairs_stay() {
        assert_eq!(mended(r#"{"a":"x\ud83dy"}"#), r#"{"a":"x\ufffdy"}"#);
        assert_eq!(mended(r#"{"a":"\ude00"}"#), r#"{"a":"\ufffd"}"#);
        assert_eq!(mended(r#"{"a":"\ud83d\ud83d\ude00"}"#), r#"{"a":"\ufffd\ud83d\ude00"}"#);
        assert_eq!(mended(r#"{"a":"\\ud83d"}"#), r#"{"a":"\\ud83d"}"#);
        assert_eq!(mended(r#"{"a":"\ud83d\ude00 \" NaN"}"#), r#"{"a":"\ud83d\ude00 \" NaN"}"#);
    }

    #[test]
    fn not_a_number_becomes_null_outside_texts() {
        assert_eq!(mended(r#"{"a":NaN,"b":[-Infinity,Infinity,-1]}"#), r#"{"a":null,"b":[null,null,-1]}"#);
    }

    #[test]
    fn broken_input_of_any_kind_does_not_panic() {
        for line in ["\\", "\"\\", "\"\\u", "\"\\ud8", "\"\\é", "N", "-"] {
            let _ = repaired(line.as_bytes());
        }
        let _ = repaired(b"\"\xff\\ud800");
    }
}
